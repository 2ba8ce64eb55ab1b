#include "gpu/operation.hpp"

#include <algorithm>
#include <utility>

namespace tutti::gpu {

std::string GpuOperation::text() const {
  return describe(host_call.call()) + " in group '" + ranks->name + "'";
}

std::string GpuOperation::text_with_rank() const { return text() + " on " + ranks->this_rank(); }

std::chrono::nanoseconds GpuOperation::left() const noexcept {
  return std::max<std::chrono::nanoseconds>(deadline - std::chrono::steady_clock::now(),
                                            std::chrono::milliseconds(1));
}

Step GpuOperation::step() {
  if (!arrived) {
    if (const auto failed = look(ready, arrived)) return *failed;
  }
  if (state != State::returning) return path->step(*this);
  bool there = false;
  if (const auto failed = look(end, there)) return *failed;
  return {there ? Step::To::ends : Step::To::runs};
}

Step GpuOperation::late(TimePoint now) const {
  std::string text = text_with_rank() + timed_out(now) + ": " +
                     std::string(path->waits_for(*this)) +
                     ". Look at what runs on the GPU, or raise the timeout; the group is broken.";
  return {Step::To::breaks,
          Outcome(Errc::timeout, std::move(text)).with_culprit(ranks->host->rank())};
}

Step GpuOperation::order_caller() {
  GpuScope on(*this);
  if (cuda::capture_of(on.calls, on.cuda, stream) != cuda::Capture::none) return {Step::To::runs};
  if (on.calls.ok() && on.calls.cuda("cuStreamWaitEvent", on.cuda.wait_event(stream, end.event)))
    return {Step::To::ends};
  return failed(on.calls.failure());
}

Step GpuOperation::submit(const Collective& next, bool last) {
  ++advanced;
  state = State::running;
  submitted = true;
  Collective made = next;
  made.timeout = left();
  // The host backend must make progress by itself, unless the caller is about to wait in it.
  pending = ranks->host->submit(made, !driven);
  if (last) ranks->all_submitted(*this);
  // A caller that drives the call waits for it at once.
  return {driven ? Step::To::runs : Step::To::again};
}

std::optional<Step> GpuOperation::look_at_host_call() {
  if (!submitted_outcome) submitted_outcome = pending.poll();
  if (!submitted_outcome) return Step{Step::To::runs};
  if (!submitted_outcome->ok()) return Step{Step::To::ends, *submitted_outcome};
  return std::nullopt;
}

void GpuOperation::drop_host_call() {
  ++advanced;
  if (waiters == 0)
    (void)pending.release();
  else
    spent.push_back(pending);
  submitted = false;
  submitted_outcome.reset();
}

void GpuOperation::drop_all_host_calls() noexcept {
  if (std::exchange(submitted, false)) (void)pending.release();
  for (const Pending& one : std::exchange(spent, {})) (void)one.release();
}

std::optional<Step> GpuOperation::look(Mark& mark, bool& passed) {
  passed = !mark.pending;
  if (passed) return std::nullopt;
  GpuScope on(*this);
  const int code = on.calls.ok() ? on.cuda.query_event(mark.event) : 0;
  if (code != cuda::kCudaNotReady) on.calls.cuda("cuEventQuery", code);
  if (!on.calls.ok()) return failed(on.calls.failure());
  passed = code == 0;
  mark.pending = !passed;
  return std::nullopt;
}

Step GpuOperation::failed(const std::string& failure) const {
  return {Step::To::breaks, Outcome(Errc::internal, text_with_rank() + ": " + failure +
                                                        ". The group is broken, make a new one.")
                                .with_culprit(ranks->host->rank())};
}

bool GpuOperation::settle() {
  if (waiters != 0) return false;
  if (submitted) {
    if (!submitted_outcome) submitted_outcome = pending.poll();
    if (!submitted_outcome) return false;
  }
  if (gpu != nullptr) {
    GpuScope on(*this);
    for (Mark* const mark : {&ready, &end}) {
      if (on.calls.ok() && mark->pending && on.cuda.query_event(mark->event) == cuda::kCudaNotReady)
        return false;
      mark->pending = false;
    }
    gpu->device->release_event(ready.event);
    gpu->device->release_event(end.event);
    if (outcome.tensors_in_use()) block.keep_for_ever();
    block.release();
  }
  drop_all_host_calls();
  settled = true;
  return true;
}

}  // namespace tutti::gpu
