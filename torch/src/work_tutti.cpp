#include "work_tutti.hpp"

#include <algorithm>
#include <exception>
#include <string>
#include <utility>

#include <ATen/core/ivalue.h>
#include <torch/csrc/distributed/c10d/exception.h>

#include <tutti/backend.hpp>

namespace tutti::torch_plugin {
namespace {

// torch's own classes: its Python face turns these into DistBackendError and so on.
std::exception_ptr exception_of(const Status& status) {
  const std::string text(status.message());
  switch (status.code()) {
    case Errc::peer_lost:
    case Errc::peer_left:
    case Errc::refused: return std::make_exception_ptr(C10_BUILD_ERROR(DistNetworkError, text));
    case Errc::store: return std::make_exception_ptr(C10_BUILD_ERROR(DistStoreError, text));
    default: return std::make_exception_ptr(C10_BUILD_ERROR(DistBackendError, text));
  }
}

}  // namespace

WorkTutti::WorkTutti(const ProcessGroup& group, std::vector<at::Tensor> tensors, c10d::OpType type)
    : c10d::Work(group.rank(), type),
      group_(group),
      tensors_(std::move(tensors)),
      future_(
          c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()))) {
}

// Each callback holds a reference, so nothing is under way any more.
WorkTutti::~WorkTutti() {
  for (tutti::Work& work : works_) work.detach();
}

c10::intrusive_ptr<WorkTutti> WorkTutti::start(ProcessGroup& group, std::vector<Collective> calls,
                                               std::optional<std::chrono::nanoseconds> timeout,
                                               std::vector<at::Tensor> tensors, c10d::OpType type) {
  auto self = c10::make_intrusive<WorkTutti>(group, std::move(tensors), type);
  const std::lock_guard lock(self->waiting_);
  self->running_ = calls.size();
  self->works_.reserve(calls.size());
  for (Collective& call : calls) self->works_.push_back(group.submit(call, timeout, true));
  for (tutti::Work& work : self->works_) {
    auto held = self;
    work.on_done({&WorkTutti::done, held.release()});
  }
  return self;
}

void WorkTutti::done(void* context, const Status& status) noexcept {
  const auto self = c10::intrusive_ptr<WorkTutti>::reclaim(static_cast<WorkTutti*>(context));
  if (!status.ok() && self->first_failure_.ok()) self->first_failure_ = status;
  if (--self->running_ > 0) return;
  try {
    if (self->first_failure_.ok())
      self->future_->markCompleted(c10::IValue(self->tensors_));
    else
      self->future_->setError(exception_of(self->first_failure_));
  } catch (...) {
    // A callback of the user's threw: torch has logged it, and our thread goes on.
  }
}

bool WorkTutti::isCompleted() {
  const std::lock_guard lock(waiting_);
  for (const tutti::Work& work : works_) {
    if (!work.done()) return false;
  }
  return true;
}

bool WorkTutti::isSuccess() const { return exception() == nullptr; }

std::exception_ptr WorkTutti::exception() const {
  const std::lock_guard lock(waiting_);
  for (const tutti::Work& work : works_) {
    if (const Status status = work.error(); !status.ok()) return exception_of(status);
  }
  return nullptr;
}

bool WorkTutti::wait(std::chrono::milliseconds timeout) {
  {
    const std::lock_guard lock(waiting_);
    const auto end = std::chrono::steady_clock::now() + timeout;
    for (tutti::Work& work : works_) {
      if (timeout == kNoTimeout) {
        while (!work.wait_for(std::chrono::hours(1))) {
        }
        continue;
      }
      const auto left = end - std::chrono::steady_clock::now();
      TORCH_CHECK_WITH(DistBackendError, work.wait_for(std::max(left, left.zero())),
                       "Work.wait: not done within ", timeout.count(),
                       " ms; the operation goes on, and can be waited for again");
    }
  }
  if (const std::exception_ptr problem = exception()) std::rethrow_exception(problem);
  return true;
}

}  // namespace tutti::torch_plugin
