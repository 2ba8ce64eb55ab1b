#include "backend/nccl/channel.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "cuda/pause.hpp"

namespace tutti::nccl {
namespace {

constexpr auto kClosePause = std::chrono::microseconds(50);
/// How long the GPU may take to end what was aborted.
constexpr auto kGpuLimit = std::chrono::seconds(1);

}  // namespace

Channel::~Channel() {
  (void)Abort(nccl_, std::exchange(comm_, Comm{})).wait(abort_deadline(nccl_));
  destroy_stream();
}

void Channel::destroy_stream() noexcept {
  if (stream_ == Stream{}) return;
  Calls calls(nccl_, cuda_);
  const Current current(cuda_, device_, calls);
  (void)cuda_.destroy_stream(std::exchange(stream_, Stream{}));
}

/// When a process ends, CUDA may have gone before the group does: then nothing may be called any
/// more, and there is nothing to give back.
bool Channel::forget_if_driver_gone() noexcept {
  const int code = cuda_.push_context(device_.context());
  if (code == 0) (void)cuda_.pop_context();
  if (code != kCudaDeinitialized) return false;
  driver_gone_ = true;
  // A thread of NCCL may still write the place of a split.
  if (const CommPlace split = split_under_way(); split != nullptr) new CommPlace(split);
  comm_ = Comm{};
  stream_ = Stream{};
  queue_.clear();
  running_.clear();
  state_ = State::closed;
  return true;
}

void Channel::push(NcclOperation& op) {
  op.state = NcclOperation::State::queued;
  op.channel = this;
  queue_.push_back(&op);
}

bool Channel::begin_capture(NcclOperation& op, Calls& calls) {
  Place on_caller = place();
  on_caller.stream = op.caller;
  op.state = NcclOperation::State::launching;
  capturing_ = &op;
  return launch(on_caller, op, calls);
}

bool Channel::end_capture(Calls& calls) {
  NcclOperation& op = *std::exchange(capturing_, nullptr);
  Place on_caller = place();
  on_caller.stream = op.caller;
  if (!end_launch(on_caller, op, calls)) return false;
  op.state = NcclOperation::State::moved;
  return true;
}

bool Channel::make(Calls& calls) {
  if (!calls.nccl("ncclCommInitRankConfig", nccl_.init_rank(comm_, size_, id_, rank_), comm_))
    return false;
  state_ = State::initialising;
  return true;
}

bool Channel::check(Calls& calls, bool& busy) {
  busy = false;
  if (comm_ == Comm{}) return true;
  int error = 0;
  if (!calls.nccl("ncclCommGetAsyncError", nccl_.async_error(comm_, error), comm_)) return false;
  busy = error == kInProgress;
  // The function that failed, or the network, was another one: NCCL tells of it in this way.
  return error == 0 || busy ||
         calls.nccl("an operation of NCCL (ncclCommGetAsyncError)", error, comm_);
}

/// The first of the queue is on the stream.
bool Channel::launched(Calls& calls) {
  NcclOperation& op = *queue_.front();
  if (!end_launch(place(), op, calls)) return false;
  queue_.pop_front();
  if (op.call.kind == Kind::new_group) {
    op.state = NcclOperation::State::moved;
    return true;
  }
  op.state = NcclOperation::State::running;
  if (op.partner != nullptr) op.partner->state = NcclOperation::State::running;
  running_.push_back(&op);
  return true;
}

bool Channel::look_at_running(Calls& calls) {
  while (!running_.empty()) {
    NcclOperation& op = *running_.front();
    const int code = cuda_.query_event(op.end);
    if (code == kCudaNotReady) return true;
    if (!calls.cuda("cuEventQuery", code)) return false;
    running_.pop_front();
    op.state = NcclOperation::State::moved;
    if (op.partner != nullptr) op.partner->state = NcclOperation::State::moved;
  }
  return true;
}

bool Channel::can_launch() const noexcept {
  if (queue_.empty() || state_ != State::ready || capturing_ != nullptr) return false;
  const NcclOperation& op = *queue_.front();
  if (op.state != NcclOperation::State::queued) return false;
  // NCCL splits a communicator only while nothing runs on it, and our ranks only if they all mean
  // the same.
  return op.call.kind != Kind::new_group || (running_.empty() && op.mesh.succeeded());
}

bool Channel::advance(Calls& calls) {
  if (state_ == State::closed || idle()) return true;
  const Current current(cuda_, device_, calls);
  if (!calls.ok()) return false;
  if (stream_ == Stream{} && !calls.cuda("cuStreamCreate", cuda_.create_stream(stream_)))
    return false;
  if (state_ == State::named && !make(calls)) return false;
  bool busy = false;
  if (!check(calls, busy)) return false;
  if (!busy && state_ == State::initialising) state_ = State::ready;
  const bool launching =
      queue_.empty() ? false : queue_.front()->state == NcclOperation::State::launching;
  if (!busy && launching && !launched(calls)) return false;
  if (!look_at_running(calls)) return false;
  while (can_launch()) {
    queue_.front()->state = NcclOperation::State::launching;
    if (!launch(place(), *queue_.front(), calls) || !check(calls, busy)) return false;
    if (busy) return true;
    if (!launched(calls)) return false;
  }
  return true;
}

void Channel::begin_abort() noexcept {
  if (state_ == State::closed || forget_if_driver_gone()) return;
  {
    Calls calls(nccl_, cuda_);
    const Current current(cuda_, device_, calls);
    if (calls.ok()) (void)look_at_running(calls);  // what has ended needs no abort
  }
  state_ = State::closed;
  ended_.reset();
  abort_ = Abort(nccl_, std::exchange(comm_, Comm{}), split_under_way());
}

CommPlace Channel::split_under_way() const noexcept {
  return queue_.empty() ? nullptr : queue_.front()->made;
}

std::optional<bool> Channel::end_abort(TimePoint until) noexcept {
  if (ended_) return ended_;
  const TimePoint now = std::chrono::steady_clock::now();
  const bool returned = abort_.wait(now);
  if (!returned && now < until) return std::nullopt;
  if (stream_ != Stream{} && forget_if_driver_gone()) return ended_ = true;
  const bool launching =
      capturing_ != nullptr || std::ranges::any_of(queue_, [](const NcclOperation* op) {
        return op->state == NcclOperation::State::launching;
      });
  // NCCL may still put on the stream what it was given.
  bool over = returned || !launching;
  if (over && stream_ != Stream{} && (launching || !running_.empty())) {
    Calls calls(nccl_, cuda_);
    const Current current(cuda_, device_, calls);
    if (fence_ == Event{}) {
      fence_until_ = now + kGpuLimit;
      over = device_.acquire_event(calls, fence_) &&
             calls.cuda("cuEventRecord", cuda_.record_event(fence_, stream_));
    }
    if (over && cuda_.query_event(fence_) == kCudaNotReady) {
      if (now < fence_until_) return std::nullopt;
      over = false;
    }
    device_.release_event(fence_);
    for (const auto* list : {&queue_, &running_}) {
      for (NcclOperation* const op : *list) {
        for (NcclOperation* const one : {op, op->partner}) {
          if (one == nullptr) continue;
          (void)one->in.free_copy(calls, cuda_, stream_);
          (void)one->out.free_copy(calls, cuda_, stream_);
        }
      }
    }
  }
  capturing_ = nullptr;
  queue_.clear();
  running_.clear();
  return ended_ = over;
}

void Channel::begin_close() noexcept {
  if (forget_if_driver_gone() || state_ != State::ready || comm_ == Comm{}) return;
  Calls calls(nccl_, cuda_);
  const Current current(cuda_, device_, calls);
  if (calls.nccl("ncclCommFinalize", nccl_.finalize(comm_), comm_)) state_ = State::closing;
}

void Channel::end_close(TimePoint until) noexcept {
  if (state_ == State::closing) {
    Calls calls(nccl_, cuda_);
    const Current current(cuda_, device_, calls);
    int error = kInProgress;
    while (nccl_.async_error(comm_, error) == 0 && error == kInProgress &&
           std::chrono::steady_clock::now() < until)
      cuda::pause(kClosePause);
    if (error == 0 && nccl_.destroy(comm_) == 0) comm_ = Comm{};
  }
}

}  // namespace tutti::nccl
