#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include <tutti/kinds.hpp>
#include "backend/nccl/group.hpp"
#include "base/deadline.hpp"
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

}  // namespace

std::string Group::name_of(int rank) const {
  return "rank " + std::to_string(rank) + " on " + mesh_->location(rank);
}

std::string Group::text_of(const Operation& op) const {
  std::string text = describe(op.call) + " in group '" + name_ + "'";
  if (op.seq != 0) text += ", operation " + std::to_string(op.seq);
  return text;
}

namespace {

const char* what_it_waits_for(const Operation& op) {
  if (op.device == nullptr) return "not all ranks have called it";
  if (op.state == Operation::State::on_mesh) return "the other rank is not ready for the message";
  if (op.mesh_pending())
    return op.seq == 0 ? "the other rank has not confirmed the message"
                       : "the CPUs of the ranks have not ended the comparison of the calls";
  switch (op.state) {
    case Operation::State::queued:
      return "its communicator is not ready, or an operation before it has not ended";
    case Operation::State::launching: return "NCCL has not put it on the stream";
    default: return "all ranks have made the call, and NCCL has not ended it";
  }
}

}  // namespace

void Group::fail(const Outcome& cause, bool tell) {
  if (!cause_.ok()) return;
  cause_ = cause;
  if (tell) mesh_->abort(cause);
  const bool over = abort_channels();
  for (std::size_t i = 0; i < active_.size(); ++i) {
    Operation& op = *active_[i];
    if (op.state == Operation::State::done) continue;
    if (op.state == Operation::State::moved && op.device != nullptr && op.mesh_succeeded() &&
        (op.seq == 0 || !compares() || op.compared)) {
      end(op, Outcome());
      continue;
    }
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
  }
  explained_ = nullptr;
  tidy();
}

bool Group::abort_channels() noexcept {
  each_channel([](Channel& channel) { channel.begin_abort(); });
  std::vector<Abort> splits;  // that have ended: nobody has taken what they made
  for (Operation* const op : active_) {
    if (op->state != Operation::State::moved || op->made == nullptr) continue;
    if (const Comm made = *std::exchange(op->made, nullptr); !channel_->driver_gone())
      splits.emplace_back(nccl_, made);
  }
  const TimePoint until = abort_deadline(nccl_);
  bool over = true;
  each_channel([&](Channel& channel) { over = channel.end_abort(until) && over; });
  for (Abort& split : splits) (void)split.wait(until);
  return over;
}

void Group::fail_calls(const Operation& op, const Calls& calls) {
  fail(Outcome(Errc::internal,
               text_of(op) + " on " + name_of(rank_) + ": " + calls.failure() +
                   ". NCCL_DEBUG=INFO tells more; the group is broken, make a new one.")
           .with_culprit(rank_),
       true);
}

/// A rank that is late, gone, or has aborted the group is told by our mesh.
void Group::look_at_mesh() {
  for (const Operation* const op : active_) {
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

void Group::look_at_clock(Operation& op, TimePoint now) {
  if (op.state == Operation::State::done || now < op.deadline) return;
  if (!op.mesh_succeeded() && now < op.deadline + kMeshFirst) return;
  std::string text = text_of(op) + " timed out after " + base::seconds_text(now - op.started) +
                     " (timeout " + base::seconds_text(op.call.timeout) + "): ";
  text += what_it_waits_for(op);
  text += ". See what NCCL_DEBUG=INFO tells, or raise the timeout; the group is broken.";
  fail(Outcome(Errc::timeout, std::move(text)), true);
}

// ---- Calls that differ

void Group::compare(Operation& op) {
  if (op.greatest == op.sent) {
    op.compared = true;
    return;
  }
  if (explained_ == nullptr) explain(op);
}

/// Rank 0 hears the calls of all ranks, and tells all.
void Group::explain(Operation& op) {
  explained_ = &op;
  calls_.assign(static_cast<std::size_t>(size_), op.code);
  Collective call;
  call.tag = kExplanationTag;
  call.timeout = op.call.timeout;
  if (rank_ != 0) {
    call.kind = Kind::send;
    call.input = TensorView(calls_.front().data(), DType::uint64, op.code.size());
    explanations_.emplace_back().start(*mesh_, call);
    return;
  }
  for (int rank = 1; rank < size_; ++rank) {
    call.kind = Kind::recv;
    call.root = rank;
    call.output =
        TensorView(calls_[static_cast<std::size_t>(rank)].data(), DType::uint64, op.code.size());
    explanations_.emplace_back().start(*mesh_, call);
  }
}

void Group::look_at_explanations() {
  if (explained_ == nullptr || rank_ != 0) return;
  for (const MeshCall& one : explanations_) {
    if (!one.succeeded()) return;
  }
  tell_difference(*explained_);
}

void Group::tell_difference(const Operation& op) {
  std::string text = "ranks disagree in group '" + name_ + "': ";
  const auto other =
      std::ranges::find_if(calls_, [&](const call::CallCode& code) { return code != op.code; });
  if (other == calls_.end()) {
    text += "the calls of the ranks before operation " + std::to_string(op.seq) + " " +
            call::describe(op.code) + " or their settings (TUTTI_ALGO) differ";
  } else {
    const auto described = [](const call::CallCode& code) {
      return call::describe(code) + ((code[0] & kCapturedCall) != 0 ? " for a CUDA graph" : "");
    };
    const std::string ours = described(op.code);
    const std::string theirs = described(*other);
    text += "as operation " + std::to_string(op.seq) + " " + name_of(rank_) + " called " + ours +
            " but " + name_of(static_cast<int>(other - calls_.begin())) + " called " + theirs;
    if (ours == theirs) text += call::unseen_difference(op.code);
  }
  text +=
      ". All ranks must call the same operations in the same order with the same dtype, count, "
      "root and reduce op; the group is broken, make a new one.";
  fail(Outcome(Errc::disagreement, std::move(text)), true);
}

void Group::compare_lengths(Operation& op) {
  std::size_t before = 0;
  for (std::size_t r = 0; r < op.lengths_got.size(); ++r) {
    const std::size_t expected = op.extent.out_ends[r] - before;
    before = op.extent.out_ends[r];
    if (op.lengths_got[r] == expected) continue;
    return fail(Outcome(Errc::disagreement,
                        "ranks disagree in " + text_of(op) + ": " + name_of(static_cast<int>(r)) +
                            " sends " + std::to_string(op.lengths_got[r]) + " elements to " +
                            name_of(rank_) + ", which expects " + std::to_string(expected) +
                            ". Each rank must send another as many elements as that one expects; "
                            "the group is broken, make a new one."),
                true);
  }
}

// ---- The end

void Group::abort(const Outcome& cause) {
  const std::lock_guard lock(mutex_);
  if (!left_) fail(cause, true);
}

Outcome Group::health() {
  const std::lock_guard lock(mutex_);
  progress();
  return cause_;
}

/// A stream may have been told to wait for what runs, so it must end.
bool Group::runs_on_gpu() const noexcept {
  return std::ranges::any_of(active_, [](const Operation* op) {
    return op->state == Operation::State::launching || op->state == Operation::State::running ||
           op->state == Operation::State::moved;
  });
}

void Group::leave() noexcept {
  std::unique_lock lock(mutex_);
  if (left_) return;
  progress();
  while (cause_.ok() && runs_on_gpu()) {
    lock.unlock();
    cuda::pause(kEndPause);
    lock.lock();
    progress();
  }
  const Outcome gone(Errc::aborted, "group '" + name_ + "' was destroyed while the operation ran");
  const bool peaceful = cause_.ok() && active_.empty();
  for (std::size_t i = 0; i < active_.size(); ++i) {
    if (active_[i]->state != Operation::State::done) end(*active_[i], gone);
  }
  if (cause_.ok()) cause_ = gone;
  if (peaceful) {
    each_channel([](Channel& channel) { channel.begin_close(); });
    const TimePoint until = std::chrono::steady_clock::now() + kCloseLimit;
    each_channel([&](Channel& channel) { channel.end_close(until); });
  }
  (void)abort_channels();
  channel_.reset();
  outgoing_.clear();
  incoming_.clear();
  // Its reference goes last: it uses memory of operations until then.
  for (Operation& op : operations_) {
    op.mesh.drop();
    op.lengths.drop();
    op.clearance.drop();
  }
  id_call_.drop();
  explanations_.clear();
  child_ = {};
  left_ = true;
  mesh_->close(std::chrono::seconds(1));
  mesh_->drop_reference();
}

}  // namespace tutti::nccl
