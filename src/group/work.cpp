#include <tutti/work.hpp>

#include <exception>
#include <string>

#include <tutti/backend/backend.hpp>

#include "base/log.hpp"

namespace tutti {

Work::Work(Backend* backend, std::uint64_t ticket, bool on_gpu) noexcept
    : backend_(backend), ticket_(ticket), exceptions_(std::uncaught_exceptions()), on_gpu_(on_gpu) {
  backend_->add_reference();
}

Work& Work::operator=(Work&& other) noexcept {
  if (this != &other) {
    if (backend_ != nullptr) finish();
    backend_ = std::exchange(other.backend_, nullptr);
    ticket_ = other.ticket_;
    exceptions_ = other.exceptions_;
    source_ = other.source_;
    told_ = other.told_;
    succeeded_ = std::exchange(other.succeeded_, false);
    on_gpu_ = other.on_gpu_;
  }
  return *this;
}

void Work::drop() noexcept {
  source_ = backend_->release(ticket_);
  std::exchange(backend_, nullptr)->drop_reference();
}

int Work::source_rank() const noexcept {
  return backend_ == nullptr ? source_ : backend_->source(ticket_);
}

void Work::wait() { wait_until(std::nullopt); }

void Work::synchronize() { wait_until(std::chrono::nanoseconds::max()); }

void Work::wait_until(std::optional<std::chrono::nanoseconds> limit) {
  if (succeeded_ && (backend_ == nullptr || !limit)) return;
  if (backend_ == nullptr) {
    raise(Outcome(Errc::invalid_argument,
                  "Work::wait on an empty Work: it was moved from, detached or never started"));
  }
  Outcome outcome;
  (void)backend_->wait(ticket_, limit, outcome);
  succeeded_ = outcome.ok();
  if (!succeeded_) [[unlikely]] {
    told_ = true;
    raise(outcome);
  }
  // Without a limit the GPU may still work on it, and a later call may have to wait for that.
  if (limit || !on_gpu_) drop();
}

bool Work::wait_for(std::chrono::nanoseconds limit) {
  if (backend_ == nullptr) return true;
  Outcome outcome;
  if (!backend_->wait(ticket_, limit, outcome)) return false;
  succeeded_ = outcome.ok();
  if (succeeded_) drop();  // as wait() does, so that wait() after us costs nothing
  return true;
}

bool Work::done() const { return backend_ == nullptr || backend_->poll(ticket_).has_value(); }

Outcome Work::error() const {
  if (backend_ == nullptr) return Outcome();
  Outcome outcome = backend_->poll(ticket_).value_or(Outcome());
  if (!outcome.ok()) told_ = true;
  return outcome;
}

void Work::on_done(const Callback& callback) {
  if (backend_ == nullptr || succeeded_) {
    raise(Outcome(Errc::invalid_argument,
                  "Work::on_done on an empty Work, or on one whose success was already told"));
  }
  backend_->on_done(ticket_, callback);
}

void Work::detach() noexcept {
  if (backend_ != nullptr) drop();
}

void Work::await_suspend(std::coroutine_handle<> handle) {
  backend_->on_done(ticket_, {[](void* context, const Outcome&) noexcept {
                                std::coroutine_handle<>::from_address(context).resume();
                              },
                              handle.address()});
}

void Work::finish() noexcept {
  if (succeeded_) return drop();
  if (std::uncaught_exceptions() > exceptions_ && !backend_->poll(ticket_)) {
    const int rank = backend_->rank();
    backend_->abort(
        Outcome(Errc::aborted,
                "rank " + std::to_string(rank) + " on " + backend_->location(rank) +
                    " left an operation by an exception. Look at that rank's output for the cause; "
                    "the group is broken")
            .with_culprit(rank));
  }
  Outcome outcome;
  (void)backend_->wait(ticket_, std::nullopt, outcome);
  if (!outcome.ok() && !told_) {
    base::log(base::Level::warning,
              "an operation failed, and nobody waited for it: " + std::string(outcome.message()));
  }
  drop();
}

}  // namespace tutti
