#include "backend/nccl/group.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include <tutti/backend/kinds.hpp>
#include "base/deadline.hpp"
#include "call/call_side.hpp"
#include "cuda/pause.hpp"

// The life of an operation. group_messages.cpp has messages, group_capture.cpp CUDA graphs,
// group_ends.cpp the failures.
namespace tutti::nccl {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kShortPause = std::chrono::microseconds(20);
constexpr auto kLongPause = std::chrono::microseconds(300);
/// How long a caller sleeps in our mesh before it looks at NCCL again.
constexpr std::chrono::nanoseconds kOnMesh = std::chrono::milliseconds(20);

/// True of calls that run between the CPUs.
bool is_on_mesh(const Collective& call) noexcept {
  return !has_data(call.kind) || call.tag == kLibraryTag;
}

}  // namespace

NcclGroup::NcclGroup(Api& nccl, CudaApi& cuda, const Config& config, Backend* mesh,
                     std::string name)
    : nccl_(nccl),
      cuda_(cuda),
      config_(config),
      mesh_(mesh),
      name_(std::move(name)),
      rank_(mesh->rank()),
      size_(mesh->size()),
      comparison_(*this,
                  {.name = name_, .id = 1, .rank = rank_, .size = size_, .lengths_at_once = true},
                  config_),
      operations_(due_) {}

void NcclGroup::end(NcclOperation& op, Outcome outcome) {
  if (op.device != nullptr && op.state != NcclOperation::State::done) {
    op.device->release_event(op.start);
    op.device->release_event(op.end);
  }
  operations_.end(op, std::move(outcome));
}

// ---- The beginning

/// Fails this call only. Every rank that makes the same call fails it in the same way, so the group
/// stays usable.
void NcclGroup::refuse(NcclOperation& op, const std::string& why) {
  end(op, Outcome(Errc::unsupported, text_of(op) + ": " + why));
  operations_.tidy();
}

std::uint64_t NcclGroup::submit(const Collective& call) noexcept {
  std::unique_lock lock(mutex_);
  NcclOperation& op = operations_.add(call);
  const std::uint64_t ticket = operations_.ticket_of(op);
  op.call.details = nullptr;
  if (!operations_.healthy()) return ticket;
  if (is_on_mesh(call)) {
    if (call.kind == Kind::new_group) {
      const Child child = std::exchange(child_, {});
      op.child = child.group;
      op.color = child.color;
      op.key = child.key;
    }
    op.mesh.start(*mesh_, call);
    // Now, so that it has its place among the operations of the communicator on all ranks alike.
    if (call.kind == Kind::new_group && channel_ != nullptr) channel_->push(op);
    return ticket;
  }
  if (call.op == ReduceOp::premul_sum && traits_of(call.kind).reduces &&
      call.details->factor.count() != 1) {
    refuse(op,
           "NCCL multiplies by one factor, not by one for each element; multiply before the call");
    return ticket;
  }
  if (begin_on_device(op, call)) op.captured ? capture(op, lock) : begin(op);
  return ticket;
}

/// NCCL takes one device of each rank. `op`: for messages; null: the group is being made.
Device* NcclGroup::device_of(int index, const NcclOperation* op) {
  if (device_ != nullptr && device_->index() == index) return device_.get();
  Errc code = Errc::unsupported;
  std::string why;
  if (device_ == nullptr) {
    Result<std::unique_ptr<Device>> made = Device::open(cuda_, index);
    if (made) {
      device_ = std::move(*made);
      return device_.get();
    }
    code = made.status().code();
    why = made.status().message();
  } else {
    why = "its tensors are on cuda:" + std::to_string(index) +
          ", but the group works on cuda:" + std::to_string(device_->index()) +
          ": NCCL takes one device of each rank";
  }
  fail(Outcome(code, (op == nullptr ? "making group '" + name_ + "'" : text_of(*op)) + " on " +
                         name_of(rank_) + ": " + why + "; the group is broken")
           .with_culprit(rank_),
       true);
  return nullptr;
}

/// Takes from the caller during the call: lists, the factor, and where its stream is.
bool NcclGroup::begin_on_device(NcclOperation& op, const Collective& call) {
  op.device = device_of(call::reference_view(call).device().index, &op);
  if (op.device == nullptr) return false;
  op.extent = call::extent_of(call, rank_, size_);
  op.code = call::encode(call, op.extent);
  if (!is_collective(call.kind)) op.extent.count = call::reference_view(call).count();
  if (uses_input(call.kind, rank_, call.root) && call.kind != Kind::recv) op.in.take_input(call);
  if (uses_output(call.kind, rank_, call.root) && call.kind != Kind::send) op.out.take_output(call);
  if (call.details != nullptr) {
    op.caller = static_cast<Stream>(call.details->stream);
    const TensorView& factor = call.details->factor;
    if (factor.count() == 1 && factor.device().type == DeviceType::cuda)
      op.device_factor = factor.data();
    else if (factor.count() == 1)
      std::memcpy(op.factor.data(), factor.data(), size_of(factor.dtype()));
  }
  Calls calls(nccl_, cuda_);
  const Current current(cuda_, *op.device, calls);
  const cuda::Capture capture = cuda::capture_of(calls, cuda_, op.caller);
  op.captured = capture == cuda::Capture::this_stream;
  if (op.captured) {  // without events: the stream itself is the order
    op.code[0] |= kCapturedCall;
    return true;
  }
  if (capture == cuda::Capture::another) {
    refuse(op, cuda::text_of(capture) + "; call it outside of the capture");
    return false;
  }
  if (calls.ok() && op.device->acquire_event(calls, op.start) &&
      op.device->acquire_event(calls, op.end) &&
      calls.cuda("cuEventRecord", cuda_.record_event(op.start, op.caller)))
    return true;
  fail_calls(op, calls);
  return false;
}

void NcclGroup::begin(NcclOperation& op) {
  if (op.call.kind == Kind::send) return begin_send(op);
  if (op.call.kind == Kind::recv) return begin_receive(op);
  begin_collective(op);
}

/// It gets its number, and the ranks begin to compare it. False: no rank has elements, so NCCL is
/// not asked.
bool NcclGroup::begin_numbered(NcclOperation& op) {
  comparison_.take(op);
  comparison_.begin(op);
  if (op.extent.agreed == 0) op.state = NcclOperation::State::moved;
  return op.extent.agreed != 0;
}

void NcclGroup::begin_collective(NcclOperation& op) {
  if (!begin_numbered(op)) return;
  ensure_channel(op);
  if (!operations_.healthy()) return;
  channel_->push(op);
  advance(*channel_);
}

/// The communicator of the collectives.
void NcclGroup::ensure_channel(NcclOperation& op) {
  if (channel_ != nullptr) return;
  channel_ = std::make_unique<Channel>(nccl_, cuda_, *op.device, rank_, size_);
  Calls calls(nccl_, cuda_);
  if (rank_ == 0 && !calls.nccl("ncclGetUniqueId", nccl_.get_unique_id(id_)))
    return fail_calls(op, calls);
  Collective call;
  call.kind = Kind::broadcast;
  call.timeout = op.call.timeout;
  call.input = call.output = TensorView(id_.bytes.data(), DType::uint8, id_.bytes.size());
  id_call_.start(*mesh_, call);
}

// ---- Progress

bool NcclGroup::advance(Channel& channel) {
  Calls calls(nccl_, cuda_);
  if (channel.advance(calls)) return true;
  const auto& running = operations_.running();
  const auto its = std::ranges::find(running, &channel, &NcclOperation::channel);
  if (its != running.end()) fail_calls(**its, calls);
  return false;
}

void NcclGroup::progress() {
  if (left_) return;
  if (!operations_.healthy()) {
    end_aborts();
    return operations_.tidy();
  }
  const auto while_whole = [&](const auto& action) {
    operations_.each_running([&](NcclOperation& op) {
      if (operations_.healthy()) action(op);
    });
    return operations_.healthy();
  };
  // First what has ended well: it did, whatever happened to the group since.
  if (!while_whole([&](NcclOperation& op) { progress(op); })) return;
  look_at_mesh();
  if (!operations_.healthy()) return;
  if (id_call_.started() && id_call_.succeeded()) {
    id_call_.drop();
    channel_->make_of(id_);
  }
  progress_messages();
  each_channel([&](Channel& channel) {
    if (operations_.healthy()) advance(channel);
  });
  const TimePoint now = Clock::now();
  (void)while_whole([&](NcclOperation& op) {
    progress(op);
    if (operations_.healthy()) look_at_clock(op, now);
  });
  operations_.tidy();
}

void NcclGroup::progress(NcclOperation& op) {
  if (is_on_mesh(op.call)) {
    if (!op.mesh.succeeded()) return;
    if (op.call.kind == Kind::new_group) return end_new_group(op);
    op.source = op.mesh.source();
    return end(op, Outcome());
  }
  if (op.seq != 0 && !agrees(op)) return;
  if (op.state == NcclOperation::State::moved && op.mesh_succeeded()) end(op, Outcome());
}

/// The ranks mean the same; and if the group had a communicator at the call, it is split.
void NcclGroup::end_new_group(NcclOperation& op) {
  if (op.state != NcclOperation::State::on_mesh && op.state != NcclOperation::State::moved) return;
  const CommPlace made = std::exchange(op.made, nullptr);
  if (op.child != nullptr && made != nullptr && *made != Comm{})
    op.child->adopt(*made, channel_->device().index());
  op.child = nullptr;
  end(op, Outcome());
}

void NcclGroup::adopt(Comm comm, int device) {
  const std::lock_guard lock(mutex_);
  Device* const its = device_of(device, nullptr);
  if (its == nullptr) {
    others_.emplace_back(nccl_, comm);
    return;
  }
  channel_ = std::make_unique<Channel>(nccl_, cuda_, *its, rank_, size_);
  channel_->adopt(comm);
}

cuda::Progressable::Progress NcclGroup::make_progress(std::vector<cuda::Due>& due) {
  const std::lock_guard lock(mutex_);
  progress();
  std::ranges::move(due_, std::back_inserter(due));
  due_.clear();
  return operations_.settled() ? Progress::idle : Progress::waiting;
}

// ---- What the caller asks

bool NcclGroup::wait(std::uint64_t ticket, std::optional<std::chrono::nanoseconds> limit,
                     Outcome& outcome) {
  const TimePoint until = limit ? base::deadline_after(Clock::now(), *limit) : TimePoint::max();
  for (auto time = kShortPause;; time = std::min(2 * time, kLongPause)) {
    std::optional<Pending> on_mesh;
    {
      const std::lock_guard lock(mutex_);
      progress();
      NcclOperation* const op = operations_.find(ticket);
      if (op == nullptr || op->state == NcclOperation::State::done) {
        outcome = op == nullptr ? operations_.cause() : op->outcome;
        return true;
      }
      const bool on_stream = operations_.healthy() && (op->state == NcclOperation::State::running ||
                                                       op->state == NcclOperation::State::moved);
      if (!limit && on_stream && op->captured) {
        outcome = Outcome();
        return true;
      }
      if (!limit && on_stream && op->device != nullptr) {
        Calls calls(nccl_, cuda_);
        const Current current(cuda_, *op->device, calls);
        // A graph cannot wait for what is not in it: then the host waits.
        const bool in_graph = cuda::capture_of(calls, cuda_, op->caller) != cuda::Capture::none;
        if (calls.ok() && !in_graph &&
            calls.cuda("cuStreamWaitEvent", cuda_.wait_event(op->caller, op->end))) {
          outcome = Outcome();
          return true;
        }
        if (!calls.ok()) {
          fail_calls(*op, calls);
          continue;
        }
      }
      if (is_on_mesh(op->call) && op->mesh.pending()) on_mesh = op->mesh.get();
    }
    const TimePoint now = Clock::now();
    if (now >= until) return false;
    if (on_mesh) {
      Outcome its;
      (void)on_mesh->wait(std::min<std::chrono::nanoseconds>(kOnMesh, until - now), its);
    } else {
      cuda::pause(std::min<std::chrono::nanoseconds>(time, until - now));
    }
  }
}

std::optional<Outcome> NcclGroup::poll(std::uint64_t ticket) {
  const std::lock_guard lock(mutex_);
  progress();
  return operations_.outcome(ticket);
}

Received NcclGroup::received(std::uint64_t ticket) {
  const std::lock_guard lock(mutex_);
  return operations_.received(ticket);
}

Received NcclGroup::release(std::uint64_t ticket) noexcept {
  const std::lock_guard lock(mutex_);
  return operations_.release(ticket);
}

void NcclGroup::on_done(std::uint64_t ticket, Callback callback) {
  const std::lock_guard lock(mutex_);
  operations_.on_done(ticket, callback);
}

Result<std::shared_ptr<NcclGroup>> NcclGroup::make_child(std::span<const int> ranks,
                                                         std::string name) {
  const std::lock_guard lock(mutex_);
  child_ = {};
  Result<Backend*> mesh = mesh_->make_child(ranks, name);
  if (!mesh) return mesh.status();
  if (*mesh == nullptr) return std::shared_ptr<NcclGroup>();
  child_.group = std::make_shared<NcclGroup>(nccl_, cuda_, config_, *mesh, std::move(name));
  child_.color = *std::ranges::min_element(ranks);
  child_.key = child_.group->rank();
  return child_.group;
}

}  // namespace tutti::nccl
