#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include <tutti/backend/kinds.hpp>
#include "backend/nccl/group.hpp"
#include "cuda/pause.hpp"

// Failures: what NCCL or CUDA says, calls that differ, ranks that are late or gone; and the end.
namespace tutti::nccl {
namespace {

constexpr int kExplanationTag = kFirstBackendTag + 1;
/// How long NCCL may take to deliver what was sent.
constexpr auto kCloseLimit = std::chrono::seconds(5);
/// Our mesh, which can name the rank that is late, tells it first.
constexpr auto kMeshFirst = std::chrono::seconds(1);
constexpr auto kEndPause = std::chrono::microseconds(200);

void pause_unlocked(std::unique_lock<std::mutex>& lock) {
  lock.unlock();
  cuda::pause(kEndPause);
  lock.lock();
}

}  // namespace

std::string NcclGroup::name_of(int rank) const {
  return "rank " + std::to_string(rank) + " on " + mesh_->location(rank);
}

std::string NcclGroup::text_of(const foreign::ForeignOperation& op) const {
  std::string text = describe(op.call) + " in group '" + name_ + "'";
  if (op.seq != 0) text += ", operation " + std::to_string(op.seq);
  return text;
}

namespace {

const char* what_it_waits_for(const NcclOperation& op) {
  if (op.device == nullptr) return "not all ranks have called it";
  if (op.state == NcclOperation::State::on_mesh)
    return "the other rank is not ready for the message";
  if (op.mesh_pending())
    return op.seq == 0 ? "the other rank has not confirmed the message"
                       : "the CPUs of the ranks have not ended the comparison of the calls";
  switch (op.state) {
    case NcclOperation::State::queued:
      return "its communicator is not ready, or an operation before it has not ended";
    case NcclOperation::State::launching: return "NCCL has not put it on the stream";
    default: return "all ranks have made the call, and NCCL has not ended it";
  }
}

}  // namespace

void NcclGroup::fail(const Outcome& cause, bool tell) {
  if (!operations_.break_with(cause)) return;
  if (tell) mesh_->abort(cause);
  begin_aborts();
  end_aborts();
}

void NcclGroup::begin_aborts() noexcept {
  aborting_ = true;
  abort_until_ = abort_deadline(nccl_);
  each_channel([](Channel& channel) { channel.begin_abort(); });
  for (NcclOperation* const op : operations_.running()) {  // splits whose result nobody has taken
    if (op->state != NcclOperation::State::moved || op->made == nullptr) continue;
    if (const Comm made = *std::exchange(op->made, nullptr); !channel_->driver_gone())
      others_.emplace_back(nccl_, made);
  }
}

void NcclGroup::end_aborts() {
  if (!aborting_) return;
  const TimePoint now = std::chrono::steady_clock::now();
  bool ended = true;
  bool over = true;
  for (Abort& one : others_) ended = (one.wait(now) || now >= abort_until_) && ended;
  each_channel([&](Channel& channel) {
    const std::optional<bool> its = channel.end_abort(abort_until_);
    ended = ended && its.has_value();
    over = over && its.value_or(true);
  });
  if (!ended) return;
  others_.clear();
  aborting_ = false;
  const Outcome& cause = operations_.cause();
  operations_.each_running([&](NcclOperation& op) {
    if (op.state == NcclOperation::State::moved && op.device != nullptr && op.mesh_succeeded())
      return end(op, Outcome());
    Outcome outcome = cause;
    if (!over && op.channel != nullptr) {
      outcome =
          Outcome(cause.code(), std::string(cause.message()) +
                                    " The GPU has not ended the operation, so it may still use "
                                    "its tensors: keep them until the process ends.");
      if (cause.culprit()) outcome.with_culprit(*cause.culprit());
      outcome.with_tensors_in_use();
    }
    end(op, std::move(outcome));
  });
  operations_.tidy();
}

void NcclGroup::wait_for_aborts(std::unique_lock<std::mutex>& lock) {
  for (; aborting_; progress()) pause_unlocked(lock);
}

void NcclGroup::fail_calls(const NcclOperation& op, const Calls& calls) {
  fail(Outcome(Errc::internal,
               text_of(op) + " on " + name_of(rank_) + ": " + calls.failure() +
                   ". NCCL_DEBUG=INFO tells more; the group is broken, make a new one.")
           .with_culprit(rank_),
       true);
}

/// A rank that is late, gone, or has aborted the group is told by our mesh.
void NcclGroup::look_at_mesh() {
  for (const NcclOperation* const op : operations_.running()) {
    for (const MeshCall* const one : {&op->mesh, &op->lengths, &op->clearance}) {
      const std::optional<Outcome> outcome = one->poll();
      if (!outcome || outcome->ok()) continue;
      Outcome cause = *outcome;
      // Its text names the call on the mesh; the first one is that of all ranks.
      if (op->device != nullptr && cause.code() != Errc::aborted) {
        cause = Outcome(outcome->code(), text_of(*op) + ": " + std::string(outcome->message()));
        if (outcome->culprit()) cause.with_culprit(*outcome->culprit());
      }
      return fail(cause, true);
    }
  }
  if (const Outcome health = mesh_->health(); !health.ok()) fail(health, false);
}

void NcclGroup::look_at_clock(NcclOperation& op, TimePoint now) {
  if (op.state == NcclOperation::State::done || now < op.deadline) return;
  if (!op.mesh_succeeded() && now < op.deadline + kMeshFirst) return;
  std::string text = text_of(op) + op.timed_out(now) + ": " + what_it_waits_for(op);
  text += ". See what NCCL_DEBUG=INFO tells, or raise the timeout; the group is broken.";
  fail(Outcome(Errc::timeout, std::move(text)), true);
}

// ---- The comparison of the calls, on our mesh

std::string NcclGroup::call_text(const call::CallCode& code) const {
  return call::describe(code) + ((code[0] & kCapturedCall) != 0 ? " for a CUDA graph" : "");
}

void NcclGroup::begin_maximum(foreign::ForeignOperation& of) {
  auto& op = static_cast<NcclOperation&>(of);
  Collective call;
  call.kind = Kind::all_reduce;
  call.op = ReduceOp::max;
  call.timeout = op.call.timeout;
  call.input = TensorView(op.fingerprint.data(), DType::uint64, op.fingerprint.size());
  call.output = TensorView(op.greatest.data(), DType::uint64, op.greatest.size());
  op.mesh.start(*mesh_, call);
}

void NcclGroup::begin_lengths(foreign::ForeignOperation& of) {
  auto& op = static_cast<NcclOperation&>(of);
  Collective call;
  call.kind = Kind::all_to_all;
  call.timeout = op.call.timeout;
  call.input = TensorView(op.lengths_sent.data(), DType::uint64, op.lengths_sent.size());
  call.output = TensorView(op.lengths_got.data(), DType::uint64, op.lengths_got.size());
  op.lengths.start(*mesh_, call);
}

/// Rank 0 hears the calls of all ranks, and tells all.
void NcclGroup::begin_codes(foreign::ForeignOperation& of) {
  auto& op = static_cast<NcclOperation&>(of);
  Collective call;
  call.tag = kExplanationTag;
  call.timeout = op.call.timeout;
  if (rank_ != 0) {
    call.kind = Kind::send;
    call.input = TensorView(op.codes.front().data(), DType::uint64, op.code.size());
    return op.explanations.emplace_back().start(*mesh_, call);
  }
  for (int rank = 1; rank < size_; ++rank) {
    call.kind = Kind::recv;
    call.root = rank;
    call.output =
        TensorView(op.codes[static_cast<std::size_t>(rank)].data(), DType::uint64, op.code.size());
    op.explanations.emplace_back().start(*mesh_, call);
  }
}

bool NcclGroup::primitive_ended(const NcclOperation& op) const {
  switch (op.agreement) {
    case foreign::Agreement::comparing: return op.mesh.succeeded();
    case foreign::Agreement::measuring: return op.lengths.succeeded();
    case foreign::Agreement::explaining:
      return rank_ == 0 && std::ranges::all_of(op.explanations, &MeshCall::succeeded);
    default: return false;
  }
}

bool NcclGroup::agrees(NcclOperation& op) {
  while (!comparison_.settle(op)) {
    if (!primitive_ended(op)) return false;
    if (const Outcome found = comparison_.ended(op); !found.ok()) {
      fail(found, true);
      return false;
    }
  }
  return true;
}

// ---- The end

void NcclGroup::abort(const Outcome& cause) {
  std::unique_lock lock(mutex_);
  if (left_) return;
  fail(cause, true);
  wait_for_aborts(lock);
}

Outcome NcclGroup::health() {
  const std::lock_guard lock(mutex_);
  progress();
  return operations_.cause();
}

/// A stream may have been told to wait for what runs, so it must end.
bool NcclGroup::runs_on_gpu() const noexcept {
  return std::ranges::any_of(operations_.running(), [](const NcclOperation* op) {
    return op->state == NcclOperation::State::launching ||
           op->state == NcclOperation::State::running || op->state == NcclOperation::State::moved;
  });
}

void NcclGroup::leave() noexcept {
  std::unique_lock lock(mutex_);
  if (left_) return;
  for (progress(); aborting_ || (operations_.healthy() && runs_on_gpu()); progress())
    pause_unlocked(lock);
  const Outcome gone = foreign::destroyed(name_);
  const bool peaceful = operations_.healthy() && operations_.idle();
  operations_.each_running([&](NcclOperation& op) { end(op, gone); });
  (void)operations_.break_with(gone);
  if (peaceful) {
    each_channel([](Channel& channel) { channel.begin_close(); });
    const TimePoint until = std::chrono::steady_clock::now() + kCloseLimit;
    each_channel([&](Channel& channel) { channel.end_close(until); });
  }
  begin_aborts();
  wait_for_aborts(lock);
  channel_.reset();
  outgoing_.clear();
  incoming_.clear();
  // Its reference goes last: it uses memory of operations until then.
  for (NcclOperation& op : operations_.places()) op.drop_mesh_calls();
  id_call_.drop();
  child_ = {};
  left_ = true;
  mesh_->close(std::chrono::seconds(1));
  mesh_->drop_reference();
}

}  // namespace tutti::nccl
