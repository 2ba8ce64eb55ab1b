#include <tutti/work.hpp>

#include <exception>
#include <string>

#include <tutti/arguments.hpp>
#include <tutti/backend/backend.hpp>
#include <tutti/owning_work.hpp>

#include "base/forks.hpp"
#include "base/kept.hpp"
#include "base/log.hpp"
#include "group/abort_by_exception.hpp"
#include "group/forked_backend.hpp"

namespace tutti {
inline namespace v0 {

namespace {

/// A destructor that waits longer says so.
constexpr auto kSilent = std::chrono::seconds(1);

}  // namespace

std::optional<Received> Operations::finish(std::uint64_t ticket,
                                           std::optional<std::chrono::nanoseconds> limit,
                                           Outcome& outcome) noexcept {
  if (!wait(ticket, limit, outcome) || !outcome.ok()) return std::nullopt;
  return release(ticket);
}

std::optional<Received> Backend::run(const Collective& call, Outcome& outcome) noexcept {
  const Pending pending = submit(call, false);
  const std::optional<Received> received =
      pending.operations->finish(pending.ticket, std::nullopt, outcome);
  if (!received) (void)pending.release();
  return received;
}

Result<bool> Operations::cancel(std::uint64_t /*ticket*/) noexcept {
  return Outcome(Errc::invalid_argument, "Work::cancel: the backend '" +
                                             std::string(group().name()) +
                                             "' cannot cancel a recv; the backend 'native' can");
}

bool Operations::wait_any(std::span<const Pending> /*ones*/,
                          std::optional<std::chrono::nanoseconds> /*limit*/,
                          std::vector<std::size_t>& /*ended*/) noexcept {
  return false;
}

std::string Operations::describe(std::uint64_t /*ticket*/) noexcept {
  return "an operation on the backend '" + std::string(group().name()) + "'";
}

Work::Work(Pending pending, bool on_gpu) noexcept
    : operations_(pending.operations),
      ticket_(pending.ticket),
      exceptions_(std::uncaught_exceptions()),
      forks_(static_cast<std::uint32_t>(base::fork_generation())),
      on_gpu_(on_gpu) {
  operations_->group().add_reference();
}

Work Work::with_nobody() noexcept {
  Work work;
  work.succeeded_ = true;
  work.ticket_ = std::bit_cast<std::uint64_t>(Received{no_rank, any_tag});
  return work;
}

/// True if a parent of this process has called the operation.
bool Work::forked() const noexcept {
  return forks_ != static_cast<std::uint32_t>(base::fork_generation());
}

inline Operations& Work::operations() const noexcept {
  if (forked()) [[unlikely]]
    return group::ForkedBackend::get();
  return *operations_;
}

void detail::keep_for_good(std::shared_ptr<const void> memory) {
  base::keep_for_good(std::move(memory));
}

Work& Work::operator=(Work&& other) noexcept {
  if (this != &other) {
    if (operations_ != nullptr) finish();
    operations_ = std::exchange(other.operations_, nullptr);
    ticket_ = std::exchange(other.ticket_, kNothing);
    exceptions_ = other.exceptions_;
    forks_ = other.forks_;
    told_ = other.told_;
    succeeded_ = std::exchange(other.succeeded_, false);
    on_gpu_ = other.on_gpu_;
  }
  return *this;
}

inline void Work::drop() noexcept {
  Operations& operations = *std::exchange(operations_, nullptr);
  Backend& group = operations.group();  // the operations may end with the ticket
  ticket_ = std::bit_cast<std::uint64_t>(operations.release(ticket_));
  group.drop_reference();
}

void Work::leave() noexcept {
  if (!forked()) [[likely]]
    return drop();
  operations_ = nullptr;  // its operation and reference are the parent's
  ticket_ = kNothing;
}

Received Work::received() const noexcept {
  return operations_ == nullptr ? std::bit_cast<Received>(ticket_) : operations().received(ticket_);
}

void Work::wait() { wait_until(std::nullopt); }

void Work::synchronize() { wait_until(kUntilDone); }

void Work::wait_until(std::optional<std::chrono::nanoseconds> limit) {
  if (succeeded_ && (operations_ == nullptr || !limit)) return;
  if (operations_ == nullptr) {
    raise(Outcome(
        Errc::invalid_argument,
        "Work::wait on an empty Work: it was moved from, detached, cancelled or never started"));
  }
  Outcome outcome;
  // Without a limit the GPU may still work on it, and a later call may have to wait for that.
  if (!limit && on_gpu_) {
    (void)operations().wait(ticket_, limit, outcome);
    succeeded_ = outcome.ok();
  } else {
    Backend& group = operations_->group();  // the operations may end with the ticket
    if (const std::optional<Received> received = operations().finish(ticket_, limit, outcome)) {
      succeeded_ = true;
      operations_ = nullptr;
      ticket_ = std::bit_cast<std::uint64_t>(*received);
      group.drop_reference();
    }
  }
  if (!succeeded_) [[unlikely]] {
    told_ = true;
    raise(outcome);
  }
}

bool Work::wait_for(std::chrono::nanoseconds limit) {
  if (operations_ == nullptr) return true;
  Outcome outcome;
  if (!operations().wait(ticket_, limit, outcome)) return false;
  succeeded_ = outcome.ok();
  if (succeeded_) drop();  // as wait() does, so that wait() after us costs nothing
  return true;
}

bool Work::done() const { return operations_ == nullptr || operations().poll(ticket_).has_value(); }

std::optional<Outcome> Work::try_wait() {
  if (operations_ == nullptr) return Outcome();
  std::optional<Outcome> outcome = operations().poll(ticket_);
  if (!outcome) return std::nullopt;
  succeeded_ = outcome->ok();
  if (succeeded_)
    drop();
  else
    told_ = true;
  return outcome;
}

Outcome Work::error() const {
  if (operations_ == nullptr) return Outcome();
  Outcome outcome = operations().poll(ticket_).value_or(Outcome());
  if (!outcome.ok()) told_ = true;
  return outcome;
}

void Work::on_done(const Callback& callback) {
  if (operations_ == nullptr && received().source == no_rank)
    return callback.function(callback.context, Outcome());
  if (operations_ == nullptr || succeeded_) {
    raise(Outcome(Errc::invalid_argument,
                  "Work::on_done on an empty Work, or on one whose success was already told"));
  }
  operations().on_done(ticket_, callback);
}

bool Work::cancel() {
  if (operations_ == nullptr || succeeded_) return false;
  if (forked()) raise(base::forked_status());
  // Empty before: a callback or coroutine may use or destroy this Work at once.
  Operations& its = *std::exchange(operations_, nullptr);
  const std::uint64_t ticket = std::exchange(ticket_, kNothing);
  const Result<bool> cancelled = its.cancel(ticket);
  if (cancelled && cancelled.value()) {
    Backend& group = its.group();
    (void)its.release(ticket);
    group.drop_reference();
    return true;
  }
  operations_ = &its;
  ticket_ = ticket;
  if (!cancelled) raise(cancelled.status());
  return false;
}

void Work::detach() noexcept {
  if (operations_ != nullptr) leave();
}

void Work::await_suspend(std::coroutine_handle<> handle) {
  operations().on_done(ticket_, {[](void* context, const Outcome&) noexcept {
                                   std::coroutine_handle<>::from_address(context).resume();
                                 },
                                 handle.address()});
}

bool Work::finish() noexcept {
  if (succeeded_) {
    leave();
    return false;
  }
  if (std::uncaught_exceptions() > exceptions_ && !told_) {
    group::abort_by_exception(operations().group());
  }
  Outcome outcome;
  // On a GPU a wait with a limit is another one: for the result.
  if (on_gpu_ || !operations().wait(ticket_, kSilent, outcome)) {
    if (!on_gpu_) {
      base::log(
          base::Level::warning,
          "the destructor of a Work has waited for 1 s and goes on, at most until the timeout: " +
              operations().describe(ticket_) +
              ". Wait for a Work where it should end; Work::cancel ends a recv that no message "
              "has matched");
    }
    (void)operations().wait(ticket_, std::nullopt, outcome);
  }
  if (!outcome.ok() && !told_) {
    base::log(base::Level::warning,
              "an operation failed, and nobody waited for it: " + std::string(outcome.message()));
  }
  leave();
  return outcome.tensors_in_use();
}

}  // namespace v0
}  // namespace tutti
