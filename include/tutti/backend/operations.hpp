#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <tutti/dtype.hpp>
#include <tutti/error.hpp>
#include <tutti/export.hpp>
#include <tutti/work.hpp>

namespace tutti {
inline namespace TUTTI_EXPORT v0 {

class Backend;
struct Pending;

/// The limit of a wait that never passes. A wait without a limit is another one: see
/// Operations::wait.
inline constexpr std::chrono::nanoseconds kUntilDone = (std::chrono::nanoseconds::max)();

/// A message that a probe has found.
struct ProbedMessage {
  int source = 0;  ///< the rank of the group that sent it
  int tag = 0;
  DType dtype = DType::uint8;
  std::size_t count = 0;  ///< elements
  /// True if the backend knows the number of bytes, but not the dtype: `dtype` is uint8.
  bool is_bytes = false;
};

/// Runs operations of one group, from Backend::submit until their tickets are released. A class may
/// be both a Backend and its Operations.
///
/// Lifetime: as long as its group, or, if it is for one operation, until its ticket is released.
/// Threads:  every method from any thread.
class Operations {
 public:
  virtual ~Operations() = default;
  Operations(const Operations&) = delete;
  Operations& operator=(const Operations&) = delete;

  /// Waits until the operation is done, or `limit` has passed. True when done; then `outcome` is
  /// its result. Without a limit, a wait for tensors of a GPU may only make the stream of the call
  /// wait for the operation. With kUntilDone it waits for the result there, too. The deadline of
  /// the operation ends both.
  [[nodiscard]] virtual bool wait(std::uint64_t ticket,
                                  std::optional<std::chrono::nanoseconds> limit,
                                  Outcome& outcome) noexcept = 0;
  /// The outcome, absent while not done.
  [[nodiscard]] virtual std::optional<Outcome> poll(std::uint64_t ticket) noexcept = 0;
  /// Calls back when done (at once from the progress thread if it is already).
  virtual void on_done(std::uint64_t ticket, Callback callback) noexcept = 0;
  /// For a recv that is done: which message it was.
  [[nodiscard]] virtual Received received(std::uint64_t ticket) noexcept = 0;
  /// For a probe that is done: its message, which is kept for a recv with this ticket as
  /// Details::probed. Absent: the probe has found none, or the operation is no probe.
  [[nodiscard]] virtual std::optional<ProbedMessage> probed(std::uint64_t ticket) noexcept = 0;
  /// Releases the ticket, once; the operation may still run. The message of a probe that no recv
  /// has received goes back to its queue. Returns what `received` returns.
  virtual Received release(std::uint64_t ticket) noexcept = 0;

  /// As `wait`, and releases the ticket of an operation that has succeeded: returns what `release`
  /// returns. Absent: it is not done, or `outcome` is its failure.
  [[nodiscard]] virtual std::optional<Received> finish(
      std::uint64_t ticket, std::optional<std::chrono::nanoseconds> limit,
      Outcome& outcome) noexcept;
  /// Cancels a recv that no message has matched: true, and nobody touches its buffer any more.
  /// False: it is too late, or the operation is no such recv. An error: the backend cannot.
  [[nodiscard]] virtual Result<bool> cancel(std::uint64_t ticket) noexcept;
  /// Waits until one of these operations is done, or `limit` has passed; adds the places of those
  /// that are done to `ended`, which has room for all. False, at once: it cannot, because not all
  /// of them run in one engine.
  [[nodiscard]] virtual bool wait_any(std::span<const Pending> ones,
                                      std::optional<std::chrono::nanoseconds> limit,
                                      std::vector<std::size_t>& ended) noexcept;
  /// The operation for a log line: "group 'world' of 2 ranks, recv(...)".
  [[nodiscard]] virtual std::string describe(std::uint64_t ticket) noexcept;

  /// The group that a Work of it holds, and breaks if an exception leaves it.
  [[nodiscard]] Backend& group() const noexcept { return *group_; }

 protected:
  explicit Operations(Backend& group) noexcept : group_(&group) {}
  /// See Backend::set_owner.
  void set_group(Backend& owner) noexcept { group_ = &owner; }

 private:
  Backend* group_;
};

/// An operation that was submitted. Its owner releases it.
struct Pending {
  Operations* operations = nullptr;
  std::uint64_t ticket = 0;

  /// These ask `operations`.
  [[nodiscard]] bool wait(std::optional<std::chrono::nanoseconds> limit,
                          Outcome& outcome) const noexcept {
    return operations->wait(ticket, limit, outcome);
  }
  [[nodiscard]] std::optional<Outcome> poll() const noexcept { return operations->poll(ticket); }
  /// See Operations.
  void on_done(Callback callback) const noexcept { operations->on_done(ticket, callback); }
  [[nodiscard]] Received received() const noexcept { return operations->received(ticket); }
  [[nodiscard]] std::optional<ProbedMessage> probed() const noexcept {
    return operations->probed(ticket);
  }
  Received release() const noexcept { return operations->release(ticket); }
};

}  // namespace v0
}  // namespace tutti
