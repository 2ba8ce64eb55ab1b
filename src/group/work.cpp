#include <tutti/work.hpp>

#include <exception>
#include <string>

#include <tutti/backend/backend.hpp>

#include "base/forks.hpp"
#include "base/log.hpp"
#include "group/abort_by_exception.hpp"
#include "group/forked_backend.hpp"

namespace tutti {

Work::Work(Pending pending, bool on_gpu) noexcept
    : operations_(pending.operations),
      ticket_(pending.ticket),
      exceptions_(std::uncaught_exceptions()),
      forks_(static_cast<std::uint32_t>(base::fork_generation())),
      on_gpu_(on_gpu) {
  operations_->group().add_reference();
}

/// Has its process called it, or a parent of that?
inline bool Work::forked() const noexcept {
  return forks_ != static_cast<std::uint32_t>(base::fork_generation());
}

inline Operations& Work::operations() const noexcept {
  if (forked()) [[unlikely]]
    return group::ForkedBackend::get();
  return *operations_;
}

Work& Work::operator=(Work&& other) noexcept {
  if (this != &other) {
    if (operations_ != nullptr) finish();
    operations_ = std::exchange(other.operations_, nullptr);
    ticket_ = other.ticket_;
    exceptions_ = other.exceptions_;
    source_ = other.source_;
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
  source_ = operations.release(ticket_);
  group.drop_reference();
}

void Work::leave() noexcept {
  if (!forked()) [[likely]]
    return drop();
  operations_ = nullptr;  // its operation and reference are the parent's
}

int Work::source_rank() const noexcept {
  return operations_ == nullptr ? source_ : operations().source(ticket_);
}

void Work::wait() { wait_until(std::nullopt); }

void Work::synchronize() { wait_until(kUntilDone); }

void Work::wait_until(std::optional<std::chrono::nanoseconds> limit) {
  if (succeeded_ && (operations_ == nullptr || !limit)) return;
  if (operations_ == nullptr) {
    raise(Outcome(Errc::invalid_argument,
                  "Work::wait on an empty Work: it was moved from, detached or never started"));
  }
  Outcome outcome;
  (void)operations().wait(ticket_, limit, outcome);
  succeeded_ = outcome.ok();
  if (!succeeded_) [[unlikely]] {
    told_ = true;
    raise(outcome);
  }
  // Without a limit the GPU may still work on it, and a later call may have to wait for that.
  if (limit || !on_gpu_) drop();
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

Outcome Work::error() const {
  if (operations_ == nullptr) return Outcome();
  Outcome outcome = operations().poll(ticket_).value_or(Outcome());
  if (!outcome.ok()) told_ = true;
  return outcome;
}

void Work::on_done(const Callback& callback) {
  if (operations_ == nullptr || succeeded_) {
    raise(Outcome(Errc::invalid_argument,
                  "Work::on_done on an empty Work, or on one whose success was already told"));
  }
  operations().on_done(ticket_, callback);
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

void Work::finish() noexcept {
  if (succeeded_) return leave();
  if (std::uncaught_exceptions() > exceptions_ && !told_) {
    group::abort_by_exception(operations_->group());
  }
  Outcome outcome;
  (void)operations().wait(ticket_, std::nullopt, outcome);
  if (!outcome.ok() && !told_) {
    base::log(base::Level::warning,
              "an operation failed, and nobody waited for it: " + std::string(outcome.message()));
  }
  leave();
}

}  // namespace tutti
