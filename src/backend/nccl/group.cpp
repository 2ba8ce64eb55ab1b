#include "backend/nccl/group.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include <tutti/kinds.hpp>
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

Group::Group(Api& nccl, CudaApi& cuda, const Config& config, Backend* mesh, std::string name)
    : nccl_(nccl),
      cuda_(cuda),
      config_(config),
      mesh_(mesh),
      name_(std::move(name)),
      rank_(mesh->rank()),
      size_(mesh->size()),
      chain_(call::chain_start(1, call::hash_text(config.algorithms))) {}

/// Only when our mesh does not use its memory any more.
void Group::recycle(Operation& op) {
  if (op.mesh_pending()) {
    leaving_.push_back(&op);
    return;
  }
  operations_.recycle(op);
}

void Group::tidy() {
  if (left_) return;
  std::erase_if(active_, [](const Operation* op) { return op->state == Operation::State::done; });
  for (Operation* const op : std::exchange(leaving_, {})) recycle(*op);
}

void Group::end(Operation& op, Outcome outcome) {
  if (op.device != nullptr) {
    op.device->give_back(op.start);
    op.device->give_back(op.end);
  }
  op.state = Operation::State::done;
  op.outcome = std::move(outcome);
  for (const Callback& callback : std::exchange(op.callbacks, {}))
    due_.push_back({callback, op.outcome});
  if (op.released) recycle(op);
}

// ---- The beginning

/// Told to the caller alone: all ranks that make the same call are told, and the group is usable.
void Group::refuse(Operation& op, const std::string& why) {
  end(op, Outcome(Errc::unsupported, text_of(op) + ": " + why));
  tidy();
}

std::uint64_t Group::submit(const Collective& call) noexcept {
  std::unique_lock lock(mutex_);
  std::uint64_t ticket = 0;
  Operation& op = operations_.take();
  ticket = base::TicketTable<Operation>::ticket_of(op);
  op.state = Operation::State::on_mesh;
  op.call = call;
  op.call.details = nullptr;
  op.started = Clock::now();
  op.deadline = base::deadline_after(op.started, call.timeout);
  if (!cause_.ok()) {
    end(op, cause_);
    return ticket;
  }
  active_.push_back(&op);
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
Device* Group::device_of(int index, const Operation* op) {
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
bool Group::begin_on_device(Operation& op, const Collective& call) {
  op.device = device_of(call::telling_view(call).device().index, &op);
  if (op.device == nullptr) return false;
  op.extent = call::extent_of(call, size_);
  op.code = call::encode(call, op.extent);
  if (!is_collective(call.kind)) op.extent.count = call::telling_view(call).count();
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
  if (calls.ok() && op.device->take_event(calls, op.start) &&
      op.device->take_event(calls, op.end) &&
      calls.cuda("cuEventRecord", cuda_.record_event(op.start, op.caller)))
    return true;
  fail_calls(op, calls);
  return false;
}

void Group::begin(Operation& op) {
  if (op.call.kind == Kind::send) return begin_send(op);
  if (op.call.kind == Kind::recv) return begin_receive(op);
  begin_collective(op);
}

bool Group::compares() const noexcept { return size_ > 1 && config_.agree != Config::Agree::off; }

/// It gets its number, and the ranks begin to compare it. False: no rank has elements, so NCCL is
/// not asked.
bool Group::begin_numbered(Operation& op) {
  op.seq = ++seq_;
  chain_ = call::chain(chain_, op.code);
  if (compares()) begin_comparison(op);
  if (op.extent.agreed == 0) op.state = Operation::State::moved;
  return op.extent.agreed != 0;
}

void Group::begin_collective(Operation& op) {
  if (!begin_numbered(op)) return;
  ensure_channel(op);
  if (!cause_.ok()) return;
  channel_->push(op);
  advance(*channel_);
}

/// All ranks take the maximum of {h, ~h}: it is their own only if all have the same.
void Group::begin_comparison(Operation& op) {
  op.sent = {chain_, ~chain_};
  Collective call;
  call.kind = Kind::all_reduce;
  call.op = ReduceOp::max;
  call.timeout = op.call.timeout;
  call.input = TensorView(op.sent.data(), DType::uint64, op.sent.size());
  call.output = TensorView(op.greatest.data(), DType::uint64, op.greatest.size());
  op.mesh.start(*mesh_, call);
  if (op.extent.agreed != call::kSplits) return;
  // Each pair of ranks has a length of its own.
  std::size_t before = 0;
  for (const std::size_t end : op.extent.in_ends) {
    op.lengths_sent.push_back(end - before);
    before = end;
  }
  op.lengths_got.resize(op.lengths_sent.size());
  call.kind = Kind::all_to_all;
  call.input = TensorView(op.lengths_sent.data(), DType::uint64, op.lengths_sent.size());
  call.output = TensorView(op.lengths_got.data(), DType::uint64, op.lengths_got.size());
  op.lengths.start(*mesh_, call);
}

/// The communicator of the collectives.
void Group::ensure_channel(Operation& op) {
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

bool Group::advance(Channel& channel) {
  Calls calls(nccl_, cuda_);
  if (channel.advance(calls)) return true;
  const auto its = std::ranges::find(active_, &channel, &Operation::channel);
  if (its != active_.end()) fail_calls(**its, calls);
  return false;
}

void Group::progress() {
  if (left_) return;
  if (!cause_.ok()) return tidy();
  // First what has ended well: it did, whatever happened to the group since.
  for (std::size_t i = 0; i < active_.size() && cause_.ok(); ++i) progress(*active_[i]);
  if (!cause_.ok()) return;
  look_at_mesh();
  if (!cause_.ok()) return;
  if (id_call_.started() && id_call_.succeeded()) {
    id_call_.drop();
    channel_->make_of(id_);
  }
  progress_messages();
  each_channel([&](Channel& channel) {
    if (cause_.ok()) advance(channel);
  });
  const TimePoint now = Clock::now();
  for (std::size_t i = 0; i < active_.size() && cause_.ok(); ++i) {
    progress(*active_[i]);
    if (cause_.ok()) look_at_clock(*active_[i], now);
  }
  if (cause_.ok()) look_at_explanations();
  tidy();
}

void Group::progress(Operation& op) {
  if (op.state == Operation::State::done) return;
  if (is_on_mesh(op.call)) {
    if (!op.mesh.succeeded()) return;
    if (op.call.kind == Kind::new_group) return end_new_group(op);
    op.source = op.mesh.source();
    return end(op, Outcome());
  }
  if (op.seq != 0 && compares() && !op.compared) {
    if (!op.mesh.succeeded()) return;
    compare(op);
    if (!op.compared) return;
  }
  if (op.lengths.started() && op.lengths.succeeded()) {
    compare_lengths(op);
    if (!cause_.ok()) return;
    op.lengths.drop();
  }
  if (op.state == Operation::State::moved && op.mesh_succeeded()) end(op, Outcome());
}

/// The ranks mean the same; and if the group had a communicator at the call, it is split.
void Group::end_new_group(Operation& op) {
  if (op.state != Operation::State::on_mesh && op.state != Operation::State::moved) return;
  const CommPlace made = std::exchange(op.made, nullptr);
  if (op.child != nullptr && made != nullptr && *made != Comm{})
    op.child->adopt(*made, channel_->device().index());
  op.child = nullptr;
  end(op, Outcome());
}

void Group::adopt(Comm comm, int device) {
  const std::lock_guard lock(mutex_);
  Device* const its = device_of(device, nullptr);
  if (its == nullptr) {
    (void)Abort(nccl_, comm).wait(abort_deadline(nccl_));
    return;
  }
  channel_ = std::make_unique<Channel>(nccl_, cuda_, *its, rank_, size_);
  channel_->adopt(comm);
}

cuda::Passing::Progress Group::pass(std::vector<cuda::Due>& due) {
  const std::lock_guard lock(mutex_);
  progress();
  std::ranges::move(due_, std::back_inserter(due));
  due_.clear();
  return active_.empty() && leaving_.empty() ? Progress::idle : Progress::waiting;
}

// ---- What the caller asks

bool Group::wait(std::uint64_t ticket, std::optional<std::chrono::nanoseconds> limit,
                 Outcome& outcome) {
  const TimePoint until = limit ? base::deadline_after(Clock::now(), *limit) : TimePoint::max();
  for (auto time = kShortPause;; time = std::min(2 * time, kLongPause)) {
    std::optional<Pending> on_mesh;
    {
      const std::lock_guard lock(mutex_);
      progress();
      Operation* const op = operations_.find(ticket);
      if (op == nullptr || op->state == Operation::State::done) {
        outcome = op == nullptr ? cause_ : op->outcome;
        return true;
      }
      const bool on_stream =
          op->state == Operation::State::running || op->state == Operation::State::moved;
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

std::optional<Outcome> Group::poll(std::uint64_t ticket) {
  const std::lock_guard lock(mutex_);
  progress();
  const Operation* const op = operations_.find(ticket);
  if (op == nullptr) return cause_;
  if (op->state != Operation::State::done) return std::nullopt;
  return op->outcome;
}

int Group::source(std::uint64_t ticket) {
  const std::lock_guard lock(mutex_);
  const Operation* const op = operations_.find(ticket);
  return op == nullptr ? -1 : op->source;
}

int Group::release(std::uint64_t ticket) noexcept {
  const std::lock_guard lock(mutex_);
  Operation* const op = operations_.find(ticket);
  if (op == nullptr) return -1;
  const int from = op->source;
  op->released = true;
  if (op->state == Operation::State::done) {
    std::erase(active_, op);
    recycle(*op);
  }
  return from;
}

void Group::on_done(std::uint64_t ticket, Callback callback) {
  const std::lock_guard lock(mutex_);
  Operation* const op = operations_.find(ticket);
  if (op == nullptr || op->state == Operation::State::done)
    due_.push_back({callback, op == nullptr ? cause_ : op->outcome});
  else
    op->callbacks.push_back(callback);
}

Result<std::shared_ptr<Group>> Group::make_child(std::span<const int> ranks, std::string name) {
  const std::lock_guard lock(mutex_);
  child_ = {};
  Result<Backend*> mesh = mesh_->make_child(ranks, name);
  if (!mesh) return mesh.status();
  if (*mesh == nullptr) return std::shared_ptr<Group>();
  child_.group = std::make_shared<Group>(nccl_, cuda_, config_, *mesh, std::move(name));
  child_.color = *std::ranges::min_element(ranks);
  child_.key = child_.group->rank();
  return child_.group;
}

}  // namespace tutti::nccl
