#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <tutti/collective.hpp>
#include <tutti/error.hpp>
#include <tutti/work.hpp>

namespace tutti {

/// A message that a probe has found.
struct ProbedMessage {
  int source = 0;  ///< the rank of the group that sent it
  DType dtype = DType::uint8;
  std::size_t count = 0;  ///< elements
  /// The backend knows how many bytes it has, but not their dtype: it tells them as uint8.
  bool is_bytes = false;
};

/// Runs the operations of one group. One entry point for all of them.
///
/// Lifetime: reference counted, because every Work needs it: `add_reference`, `drop_reference`.
/// Threads:  every method from any thread.
class Backend {
 public:
  virtual ~Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;

  [[nodiscard]] virtual std::string_view name() const noexcept = 0;  ///< "native"
  [[nodiscard]] virtual int rank() const noexcept = 0;  ///< of this process in the group
  [[nodiscard]] virtual int size() const noexcept = 0;  ///< of the group
  /// Can it do this kind, dtype and reduce op? The text says why not; empty = yes. Rank-local.
  [[nodiscard]] virtual std::string unsupported(const Collective& call) const = 0;
  /// Starts an operation; never throws, and blocks only during the capture of a CUDA graph: a group
  /// that is broken gives a ticket that has failed. `asynchronous`: the caller will not wait soon,
  /// so the progress thread must run it.
  virtual std::uint64_t submit(const Collective& call, bool asynchronous) noexcept = 0;
  /// Waits until done or `limit` (absent: until done; the operation's own deadline ends it). True
  /// when done; then `outcome` is its result. A backend on streams of a GPU needs to wait only with
  /// a limit: without one it makes the call's stream wait for the operation.
  [[nodiscard]] virtual bool wait(std::uint64_t ticket,
                                  std::optional<std::chrono::nanoseconds> limit,
                                  Outcome& outcome) noexcept = 0;
  /// The outcome, absent while not done.
  [[nodiscard]] virtual std::optional<Outcome> poll(std::uint64_t ticket) noexcept = 0;
  /// Calls back when done (at once from the progress thread if it is already).
  virtual void on_done(std::uint64_t ticket, Callback callback) noexcept = 0;
  /// For a recv that is done: the rank of the group that sent. Otherwise -1.
  [[nodiscard]] virtual int source(std::uint64_t /*ticket*/) noexcept { return -1; }
  /// Does it have Kind::probe, `probed`, and recvs with Details::probed?
  [[nodiscard]] virtual bool can_probe() const noexcept { return false; }
  /// A probe that is done: its message, which is kept for a recv with this ticket as
  /// Details::probed. Absent: it has found none, or is none.
  [[nodiscard]] virtual std::optional<ProbedMessage> probed(std::uint64_t /*ticket*/) noexcept {
    return std::nullopt;
  }
  /// Gives the ticket up; its operation may still run. The message of a probe that no recv has
  /// taken goes back to where it was. Returns what `source` returns.
  virtual int release(std::uint64_t /*ticket*/) noexcept { return -1; }
  /// Breaks the group with this cause, here and on every other member.
  virtual void abort(const Outcome& cause) noexcept = 0;
  /// Ok, or the first cause that broke the group.
  [[nodiscard]] virtual Outcome health() noexcept = 0;
  /// Begins to make the group of `ranks` of this group, in its new order. Every rank of this group
  /// calls it, in the order of its other calls, with the ranks of the group that it will be in:
  /// this rank among them, or none if it will be in no new group; then the result is nullptr.
  /// The lists of two ranks are equal, or have no rank in common, as MPI_Comm_split needs them.
  /// Never blocks. Directly after it the caller runs Kind::new_group over this group, whose digest
  /// shows whether the lists of all ranks match. A backend that needs the other ranks to make the
  /// group does that in Kind::new_group, once the digests were compared. Until that operation has
  /// succeeded nothing is called on the new group.
  [[nodiscard]] virtual Result<Backend*> make_child(std::span<const int> ranks,
                                                    std::string name) noexcept = 0;
  /// The group of `ranks` of this group, in their order; this rank is one of them. Needs no call of
  /// other ranks, as MPI_Comm_create_group: each member makes it when it needs it, once for each
  /// `tag` and list, because a second one would have the same id. Its failures do not touch this
  /// group. The caller gets the reference. Never blocks. Fails with Errc::resource if the rank has
  /// no place for a group. The library's own engine has it, for messages between GPUs and for
  /// groups with local synchronization.
  [[nodiscard]] virtual Result<Backend*> make_among(std::span<const int> /*ranks*/,
                                                    std::string_view /*tag*/,
                                                    std::string /*name*/) noexcept {
    return Outcome(Errc::unsupported, "this backend makes groups only where all ranks call it");
  }
  /// The group's last handle is gone. Works of it may still run; each has a reference, and the
  /// destructor comes with the last one. A backend that must tell other ranks may do so here, for
  /// at most `drain`. Those of this library do nothing: they leave in their destructors. A backend
  /// that passes calls on to others passes this one on.
  virtual void close(std::chrono::nanoseconds drain) noexcept = 0;
  /// The process of a rank, for error texts: "node-7, pid 501".
  [[nodiscard]] virtual std::string location(int rank) const = 0;
  /// The communicator of the library below, as its C interface has it (MPI_Comm); absent: none.
  [[nodiscard]] virtual std::optional<std::uintptr_t> communicator() const noexcept {
    return std::nullopt;
  }

  /// Every handle and every Work holds one. relaxed: a thread that takes another has one already.
  void add_reference() noexcept { references_.fetch_add(1, std::memory_order_relaxed); }
  void drop_reference() noexcept {
    // acq_rel: pairs with the other droppers, so that the last one sees all that they wrote.
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

 protected:
  Backend() = default;

 private:
  std::atomic<int> references_{1};
};

}  // namespace tutti
