#include "gpu/group.hpp"

#include <algorithm>
#include <mutex>
#include <thread>
#include <utility>

#include <tutti/kinds.hpp>

#include "base/deadline.hpp"
#include "cuda/packer.hpp"
#include "cuda/pause.hpp"
#include "os/cpu.hpp"

// The life of an operation. Its paths: group_direct.cpp (collectives from GPU to GPU),
// group_parts.cpp (through host memory in parts), group_messages.cpp (messages from GPU to GPU),
// group_nccl.cpp (NCCL). Failures and the end of the group are in group_ends.cpp.
namespace tutti::gpu {
namespace {

using Clock = std::chrono::steady_clock;

/// How long a waiting caller polls without a pause; small copies take less.
constexpr auto kSpin = std::chrono::microseconds(100);
constexpr std::chrono::nanoseconds kShortPause = std::chrono::microseconds(20);
constexpr std::chrono::nanoseconds kLongPause = std::chrono::microseconds(300);
/// How often the host backend is asked whether the group is broken, for operations that it does not
/// have yet.
constexpr auto kHealthEvery = std::chrono::microseconds(200);
/// How long a caller sleeps in the host backend before it looks at the GPU again.
constexpr std::chrono::nanoseconds kOnCpus = std::chrono::milliseconds(20);

const NcclOptions kNoNccl;

int lane_of(const Collective& call) noexcept {
  if (call.kind == Kind::recv) return Operation::kNone;
  return call.kind == Kind::send ? call.root : Operation::kCollectives;
}

}  // namespace

Group::Group(Gpus& gpus, Backend* cpus, std::string name, bool for_messages)
    : gpus_(gpus),
      cpus_(cpus),
      name_(std::move(name)),
      peers_(cpus->rank(), cpus->size(), gpus.direct(), for_messages),
      choice_(*cpus, for_messages ? kNoNccl : gpus.nccl()),
      oversubscribed_(cpus->size() > os::usable_cpus()) {}

void Group::recycle(Operation& op) {
  release_calls(op);  // one that was handed over has not been settled
  operations_.recycle(op);
}

// ---- The beginning

std::optional<std::uint64_t> Group::submit(const Collective& call) noexcept {
  const std::lock_guard lock(gpus_.mutex());
  // NCCL was opened after `nccl_for`: later calls go to it at once, and would overtake a call that
  // waits here.
  if (choice_.opened() != nullptr && choice_.may_take(call)) return std::nullopt;
  const std::uint64_t ticket = begin(call, false);
  gpus_.wake();  // the timeout must count even if no caller waits
  return ticket;
}

/// `has_passed`: the caller's stream has reached the call.
std::uint64_t Group::begin(const Collective& call, bool has_passed) {
  Operation& op = operations_.take();
  const std::uint64_t ticket = base::TicketTable<Operation>::ticket_of(op);
  op.state = Operation::State::waiting;
  op.lane = lane_of(call);
  op.timeout = call.timeout;
  op.started = Clock::now();
  op.deadline = base::deadline_after(op.started, call.timeout);
  op.call.take(call, cpus_->rank());
  active_.push_back(&op);
  ++waiting_;
  if (!is_on_gpu(call)) op.arrived = true;
  if (op.arrived || begin_on_gpu(op, call, has_passed)) step(op, op.started);
  return ticket;
}

bool Group::begin_on_gpu(Operation& op, const Collective& call, bool has_passed) {
  const Outcome started = gpus_.start();  // first: failures below need its callbacks
  Result<Gpu*> gpu = gpus_.gpu(call::reference_view(call).device().index);
  const Outcome wrong = started.ok() && !gpu ? gpu.status() : started;
  if (!wrong.ok()) {
    end(op, Outcome(wrong.code(),
                    text_of(op) + " on " + name_of_rank() + ": " + std::string(wrong.message())));
    return false;
  }
  op.gpu = *gpu;
  if (call.details != nullptr) op.stream = static_cast<cuda::Stream>(call.details->stream);
  cuda::Calls calls(gpus_.cuda());
  const cuda::Current current(gpus_.cuda(), *op.gpu->device, calls);
  const cuda::Capture capture =
      has_passed ? cuda::Capture::none : cuda::capture_of(calls, gpus_.cuda(), op.stream);
  if (capture != cuda::Capture::none) {
    std::string text = text_of(op) + ": " + cuda::text_of(capture) +
                       ", and the CPUs take part in this operation; call it outside of the capture";
    if (choice_.may_take(call))
      text +=
          ". Operations that go to NCCL can be captured, once this group has called a "
          "collective and synchronized all earlier ones";
    end(op, Outcome(Errc::unsupported, std::move(text)));
    return false;
  }
  bool begun = calls.ok() && op.gpu->device->take_event(calls, op.ready.event) &&
               op.gpu->device->take_event(calls, op.end.event);
  if (begun && gpus_.direct().on) {
    const call::Extent extent = call::extent_of(call, cpus_->size());
    if (IpcPeers::may_be_split(call, extent)) {
      if (peers_.takes(call.kind))
        op.direct.emplace(call, extent, peers_);
      else
        make_parts(op, extent);
    }
  }
  if (op.direct && !takes_this_gpu(op)) return false;
  op.asks = choice_.may_take(call);
  if (may_be_direct_message(op, call)) make_message(op);
  // On the caller's stream, if nothing has to be waited for.
  if (begun && !has_passed && may_begin_on_stream(op)) return begin_on_stream(op, calls);
  if (!op.direct && !op.parts && !op.asks && !op.message)
    begun = begun && copy_in(op, calls, has_passed ? op.gpu->out : op.stream);
  else if (has_passed)
    op.arrived = true;
  else
    begun = begun && op.ready.record(calls, gpus_.cuda(), op.stream);
  if (!begun) fail_calls(op, calls.failure());
  return begun;
}

/// True if the operation's GPU is the one whose memory the other ranks have mapped.
bool Group::takes_this_gpu(Operation& op) {
  if (peers_.gpu() == nullptr) peers_.set_gpu(op.gpu);
  if (peers_.gpu() == op.gpu) return true;
  const Outcome cause =
      Outcome(Errc::invalid_argument,
              text_of(op) + " on " + name_of_rank() +
                  ": with TUTTI_CUDA_IPC=on a group works on one "
                  "GPU of each rank, that of its first collective (cuda:" +
                  std::to_string(peers_.gpu()->device->index()) +
                  "), and its tensors are on cuda:" + std::to_string(op.gpu->device->index()) +
                  ". The group is broken, make a new one.")
          .with_culprit(cpus_->rank());
  end(op, cause);
  fail(cause);
  return false;
}

bool Group::copy_in(Operation& op, cuda::Calls& calls, cuda::Stream stream) {
  if (!calls.ok()) return false;
  cuda::CudaApi& cuda = gpus_.cuda();
  const std::size_t bytes = op.call.bytes();
  if (bytes != 0 && !op.gpu->pool->take(calls, bytes, op.block)) return false;
  op.call.place(op.block.data());
  cuda::Packer packer(calls, cuda, stream, true);
  bool copied = true;
  for (const HostCall::Copy& one : op.call.to_host()) {
    copied = copied && packer.run(one.gpu, reinterpret_cast<cuda::Address>(one.host));
  }
  // Recorded after a failure, too: the event shows when earlier copies have ended.
  return op.ready.record(calls, cuda, stream) && copied;
}

/// Copies the result to the GPU after the host call has succeeded.
void Group::copy_out(Operation& op) {
  if (op.call.to_gpu().empty()) return end(op, Outcome());
  cuda::CudaApi& cuda = gpus_.cuda();
  cuda::Calls calls(cuda);
  const cuda::Current current(cuda, *op.gpu->device, calls);
  if (!calls.ok()) return fail_calls(op, calls.failure());
  cuda::Packer packer(calls, cuda, op.gpu->out, false);
  bool copied = true;
  for (const HostCall::Copy& one : op.call.to_gpu()) {
    copied = copied && packer.run(one.gpu, reinterpret_cast<cuda::Address>(one.host));
  }
  op.state = Operation::State::returning;
  // Recorded after a failure, too: the event shows when earlier copies have ended.
  if (!op.end.record(calls, cuda, op.gpu->out) || !copied) fail_calls(op, calls.failure());
}

// ---- Progress

bool Group::may_be_given(const Operation& op) const noexcept {
  return op.lane == Operation::kNone || (op.arrived && is_next(op));
}

/// True if the host backend has all calls of earlier operations in this lane, and all ranks have
/// entered the last rendezvous of those from GPU to GPU.
bool Group::is_next(const Operation& op) const noexcept {
  const auto before = [&](const Operation* one) {
    if (one == &op || one->lane != op.lane) return false;
    // Until all ranks have entered the last rendezvous, some may still read a slot.
    const bool meets = op.direct && one->direct && one->state == Operation::State::running;
    return one->gives || meets;
  };
  const auto self = std::ranges::find(active_, &op);
  return std::find_if(active_.begin(), self, before) == self;
}

std::chrono::nanoseconds Group::left_of(const Operation& op) const noexcept {
  return std::max<std::chrono::nanoseconds>(op.deadline - Clock::now(),
                                            std::chrono::milliseconds(1));
}

void Group::give(Operation& op, const Collective& call, bool last) {
  ++steps_;
  op.state = Operation::State::running;
  op.given = true;
  Collective given = call;
  given.timeout = left_of(op);
  // The host backend must make progress by itself, unless the caller is about to wait in it.
  op.inner = cpus_->submit(given, &op != driven_);
  if (last) gives_no_more(op);
}

void Group::gives_no_more(Operation& op) {
  if (!std::exchange(op.gives, false)) return;
  waiting_.fetch_sub(1, std::memory_order_release);  // pairs with the acquire in `has_waiting`
}

/// Sets `passed` if the stream has passed the mark. False: CUDA has failed, and with it the
/// operation.
bool Group::look(Operation& op, Mark& mark, bool& passed) {
  passed = !mark.pending;
  if (passed) return true;
  cuda::CudaApi& cuda = gpus_.cuda();
  cuda::Calls calls(cuda);
  const cuda::Current current(cuda, *op.gpu->device, calls);
  const int code = calls.ok() ? cuda.query_event(mark.event) : 0;
  passed = code == 0 && calls.ok();
  mark.pending = !passed;
  if (code == 0 || code == cuda::kCudaNotReady) {
    if (calls.ok()) return true;
  } else {
    calls.cuda("cuEventQuery", code);
  }
  fail_calls(op, calls.failure());
  return false;
}

/// Advances one operation as far as it can go without waiting.
void Group::step(Operation& op, TimePoint now) {
  using State = Operation::State;
  if (op.state == State::done || op.state == State::handed) return;
  if (op.state == State::paired) return look_at_pair(op);
  const bool had_been_given = op.state == State::running;
  if (op.state == State::returning) {
    bool there = false;
    if (look(op, op.end, there) && there) end(op, Outcome());
    return;
  }
  if (!op.arrived && !look(op, op.ready, op.arrived)) return;
  if (op.state == State::waiting && may_be_given(op)) {
    if (op.asks)
      begin_choice(op);
    else if (op.direct)
      begin_direct(op);
    else if (op.parts)
      begin_parts(op);
    else
      give(op, op.message ? op.message->call : op.call.call(), true);
  }
  if (op.state == State::moving && op.arrived) {
    bool there = false;
    if (!look(op, op.ready, there)) return;
    if (there && op.parts) return give_part(op);
    if (there) give(op, op.direct->rendezvous_call(), op.direct->at_last_rendezvous());
  }
  if (op.state == State::running) {
    // `poll` of an unfinished call wakes the progress thread, which is not needed: the caller is
    // about to drive the call.
    if (&op == driven_ && !had_been_given) return;
    if (op.message && !op.on_cpus && !give_what_is_missing(op)) return;
    if (!op.on_cpus) op.on_cpus = op.inner.poll();
    if (op.on_cpus && !op.on_cpus->ok()) return end(op, *op.on_cpus);
    if (op.on_cpus && (op.asks || op.direct || op.parts)) return go_on(op);
    const bool waits_for_pair = op.message && !op.message->by_host;
    if (op.on_cpus && waits_for_pair && pair_up(op)) return;
    if (op.on_cpus && op.arrived && !waits_for_pair) {
      op.source = op.inner.source();
      return op.gpu == nullptr ? end(op, Outcome()) : copy_out(op);
    }
    // relaxed: no other memory depends on it.
    const bool is_ours =
        op.message && !op.arrived &&
        op.message->gpu.state.load(std::memory_order_relaxed) != call::GpuMessage::State::unmatched;
    if (!op.on_cpus && !is_ours) return;  // the host backend checks the deadline
  }
  if (now >= op.deadline) fail_late(op, now);
}

void Group::progress() {
  if (left_) return;
  bool pairs_run = false;
  for (const auto& [ranks, pair] : pairs_) {
    if (!pair.group->is_busy()) continue;
    pair.group->progress();
    pairs_run = true;
  }
  const TimePoint now = Clock::now();
  for (std::size_t i = 0; i < active_.size(); ++i) step(*active_[i], now);
  // The host backend does not report failures to messages whose host part is done.
  const bool matched = std::ranges::any_of(active_, has_matched);
  if ((has_waiting() || pairs_run || matched) && now >= next_health_) {
    next_health_ = now + kHealthEvery;
    if (const Outcome health = cpus_->health(); !health.ok()) fail(health);
  }
  std::erase_if(active_, [&](Operation* op) {
    if (op->state == Operation::State::handed && op->released) {
      (void)op->inner.release();
      recycle(*op);
      return true;
    }
    return op->state == Operation::State::done || op->state == Operation::State::handed;
  });
  open_choice();
  for (Operation* const op : std::exchange(closing_, {})) {
    if (!settle(*op)) closing_.push_back(op);
  }
}

cuda::Progressable::Progress Group::make_progress(std::vector<cuda::Due>& due) {
  const std::lock_guard lock(gpus_.mutex());
  progress();
  std::ranges::move(due_, std::back_inserter(due));
  due_.clear();
  std::uint64_t steps = steps_;
  for (const auto& [ranks, pair] : pairs_) steps += pair.group->steps_;
  if (std::exchange(steps_seen_, steps) != steps) return Progress::moved;
  return is_busy() ? Progress::waiting : Progress::idle;
}

bool Group::is_busy() const noexcept {
  return !active_.empty() || !closing_.empty() ||
         std::ranges::any_of(pairs_, [](const auto& one) { return one.second.group->is_busy(); });
}

void Group::give_all() {
  for (auto time = kShortPause; has_waiting(); time = std::min(2 * time, kLongPause)) {
    {
      const std::lock_guard lock(gpus_.mutex());
      progress();
    }
    if (has_waiting()) cuda::pause(time);
  }
}

// ---- What the caller asks

/// Orders the caller's stream behind the result. False: the host must wait, because the stream is
/// being captured, and a graph cannot wait for an event outside of it.
bool Group::order_caller(Operation& op) {
  cuda::CudaApi& cuda = gpus_.cuda();
  cuda::Calls calls(cuda);
  const cuda::Current current(cuda, *op.gpu->device, calls);
  if (cuda::capture_of(calls, cuda, op.stream) != cuda::Capture::none) return false;
  if (calls.ok() && calls.cuda("cuStreamWaitEvent", cuda.wait_event(op.stream, op.end.event)))
    return true;
  fail_calls(op, calls.failure());
  return false;
}

bool Group::wait(std::uint64_t ticket, std::optional<std::chrono::nanoseconds> limit,
                 Outcome& outcome) {
  const TimePoint begun = Clock::now();
  const TimePoint until = limit ? base::deadline_after(begun, *limit) : TimePoint::max();
  std::chrono::nanoseconds time = kShortPause;
  while (true) {
    Operation* inside = nullptr;
    Pending inner;
    bool in_parts = false;
    bool handed = false;
    std::uint64_t in_pair = 0;
    std::shared_ptr<Group> pair;
    {
      const std::lock_guard lock(gpus_.mutex());
      driven_ = operations_.find(ticket);
      progress();
      driven_ = nullptr;
      Operation* const op = operations_.find(ticket);
      if (op == nullptr) {
        outcome = Outcome(Errc::aborted, "the operation is not known any more");
        return true;
      }
      if (!limit && op->state == Operation::State::returning && order_caller(*op)) {
        outcome = Outcome();
        return true;
      }
      if (op->state == Operation::State::done) {
        outcome = op->outcome;
        return true;
      }
      handed = op->state == Operation::State::handed;
      if (handed) inner = op->inner;
      if (op->state == Operation::State::paired) {
        in_pair = op->message->ticket;
        pair = op->message->pair;
      }
      in_parts = op->asks || op->direct || op->parts || op->message;
      if (op->state == Operation::State::running && !op->on_cpus) {
        inside = op;
        inner = op->inner;
        ++op->inside;
      }
    }
    const TimePoint now = Clock::now();
    if (handed) {
      if (!limit) return inner.wait(std::nullopt, outcome);
      return inner.wait(std::max<std::chrono::nanoseconds>(until - now, {}), outcome);
    }
    if (pair != nullptr) {
      const auto left =
          limit ? std::optional(std::max<std::chrono::nanoseconds>(until - now, {})) : std::nullopt;
      Outcome its;
      const bool over = pair->wait(in_pair, left, its);
      if (over && its.ok() && !limit) {
        outcome = Outcome();
        return true;
      }
      if (!over) return false;
      continue;  // then the operation itself ends
    }
    if (inside != nullptr) {
      // Even if no time is left: the end of a wait hands the operation to the progress thread.
      Outcome its;
      (void)inner.wait(std::clamp<std::chrono::nanoseconds>(until - now, {}, kOnCpus), its);
      const std::lock_guard lock(gpus_.mutex());
      --inside->inside;
    }
    if (now >= until) return false;
    if (inside != nullptr) continue;
    if (now - begun < kSpin) {
      oversubscribed_ ? std::this_thread::yield() : os::relax();
    } else {
      cuda::pause(std::min<std::chrono::nanoseconds>(time, until - now));
      time = std::min(2 * time, in_parts ? kShortPause : kLongPause);
    }
  }
}

std::optional<Outcome> Group::poll(std::uint64_t ticket) {
  const std::lock_guard lock(gpus_.mutex());
  progress();
  const Operation* const op = operations_.find(ticket);
  if (op == nullptr) return Outcome(Errc::aborted, "the operation is not known any more");
  if (op->state == Operation::State::handed) return op->inner.poll();
  if (op->state != Operation::State::done) return std::nullopt;
  return op->outcome;
}

int Group::source(std::uint64_t ticket) {
  const std::lock_guard lock(gpus_.mutex());
  const Operation* const op = operations_.find(ticket);
  return op == nullptr ? -1 : op->source;
}

int Group::release(std::uint64_t ticket) noexcept {
  const std::lock_guard lock(gpus_.mutex());
  return give_up(ticket);
}

int Group::give_up(std::uint64_t ticket) noexcept {
  Operation* const op = operations_.find(ticket);
  if (op == nullptr) return -1;
  const int from = op->source;
  op->released = true;
  if (op->state == Operation::State::handed) (void)op->inner.release();
  if (op->settled) {
    std::erase(active_, op);
    recycle(*op);
  }
  return from;
}

void Group::on_done(std::uint64_t ticket, Callback callback) {
  const std::lock_guard lock(gpus_.mutex());
  Operation* const op = operations_.find(ticket);
  if (op != nullptr && op->state == Operation::State::handed) {
    op->inner.on_done(callback);
  } else if (op != nullptr && op->state != Operation::State::done) {
    op->callbacks.push_back(callback);
  } else {
    due_.push_back({callback, op == nullptr ? Outcome() : op->outcome});
  }
  gpus_.wake();
}

}  // namespace tutti::gpu
