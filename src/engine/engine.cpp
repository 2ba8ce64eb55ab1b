#include "engine/engine.hpp"
#include "engine/names.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <tutti/kinds.hpp>
#include "base/log.hpp"
#include "kernels/reduce.hpp"

namespace tutti::engine {

namespace shm = transport::shm;

namespace {

/// Multiplies `count` elements in a row by a factor: one for all, or one for each, whatever strides
/// those have.
void scale(std::byte* row, DType dtype, std::size_t count, const TensorView& factor) noexcept {
  const kernels::ScaleFn multiply = kernels::find_scale(dtype);
  const bool for_each = factor.count() > 1;
  if (!for_each || factor.contiguous()) return multiply(row, row, factor.data(), for_each, count);
  const Elements factors{&factor, nullptr, 0};
  const std::size_t element = size_of(dtype);
  alignas(16) std::array<std::byte, kBlockBytes> block;
  for (std::size_t at = 0; at < count; at += kBlockBytes / element) {
    const std::size_t some = std::min(count - at, kBlockBytes / element);
    factors.pack(block.data(), at, some);
    multiply(row + at * element, row + at * element, block.data(), true, some);
  }
}

/// Three compares: std::equal would call memcmp.
bool is_call(const call::CallCode& code, const std::uint64_t (&call)[3]) noexcept {
  return code[0] == call[0] && code[1] == call[1] && code[2] == call[2];
}

}  // namespace

Engine::Engine(World world)
    : world_(std::move(world)),
      regions_(*world_.regions, {world_.cpus, world_.publish_fence, world_.now, world_.populate}),
      groups_(world_, regions_.staging()),
      channel_(world_.route),
      propagation_(*world_.regions, groups_.by_id(), world_.size, channel_, *this),
      detector_(world_, channel_),
      inquiry_(world_, groups_, channel_, detector_),
      stalls_(world_, detector_),
      agreement_(world_, channel_),
      interpreter_(regions_, channel_),
      p2p_({world_, channel_, detector_, stalls_, propagation_, completions_}, groups_) {
  active_.reserve(256);
  ticked_.reserve(256);
  waiting_.reserve(static_cast<std::size_t>(world_.size));
  for (transport::Transport* transport : world_.route) {
    if (transport == nullptr) continue;
    if (std::find(transports_.begin(), transports_.end(), transport) == transports_.end()) {
      transports_.push_back(transport);
      transport->set_sink(this);
    }
  }
}

Engine::~Engine() = default;

std::uint64_t Engine::submit(Group& group, const Collective& call) noexcept {
  // In a group that another rank has broken no further operation may succeed.
  if (propagation_.breaks_to_see()) [[unlikely]]
    guarded(nullptr, [&] { propagation_.check_breaks(); });
  if (!is_collective(call.kind)) [[unlikely]] {
    std::uint64_t request = kRefusedTicket;
    guarded(&group, [&] { request = p2p_.submit(group, call); });
    return request;
  }
  const std::uint64_t ticket = group.window.number_call();
  if (group.broken) [[unlikely]]
    return ticket;
  guarded(&group, [&] {
    const bool waits = group.window.must_wait();
    const std::uint64_t record = world_.recorder == nullptr
                                     ? 0
                                     : world_.recorder->called(group.record_place, ticket, call,
                                                               waits ? record::EntryState::queued
                                                                     : record::EntryState::running);
    if (waits) [[unlikely]] {
      group.window.enqueue(call, record);
      ++queued_;
      start_queued(group);
    } else {
      start(group, call, record);
    }
  });
  return ticket;
}

bool Engine::start_queued(Group& group) {
  bool moved = false;
  while (group.window.has_queued() && !group.broken && group.window.has_room()) {
    Queued next = group.window.dequeue();
    --queued_;
    if (world_.recorder != nullptr) world_.recorder->began(next.record());
    start(group, next.call(), next.record());
    moved = true;
  }
  return moved;
}

void Engine::start(Group& group, const Collective& call, std::uint64_t record) {
  if (group.window.is_exhausted()) [[unlikely]] {
    break_group(group,
                Outcome(Errc::resource,
                        "group '" + group.name + "' has no numbers left for operations, after " +
                            std::to_string(kLastOperation) + " of them; make a new one"));
    return;
  }
  // If memory is missing, nothing has begun yet, or the operation is in `active_` and its end is
  // that of its group.
  const BoundPlan& bound = group.plans->find(call);
  Op& op = group.window.next();
  active_.push_back(&op);
  group.window.begin_next(bound);
  op.call = call;
  op.agreement.begin(bound.forwards_output || (group.strict && !group.one_host()));
  const bool messages = bound.schedule->messages || op.agreement.uses_tokens;
  if (messages) channel_.operation_began();
  if (call.details != nullptr || op.detailed) [[unlikely]]
    take_details(op, call.details);
  op.timer.deadline = TimePoint{};
  op.timer.record = record;
  shm::OperationSlot& slot = group.block->slots[op.seq % shm::kWindow];
  // Mostly the slot holds the same call already; a line that is not written need not be fetched.
  if (!is_call(bound.code, slot.cold.call))
    std::copy(bound.code.begin(), bound.code.end(), slot.cold.call);
  if (!interpreter_.begin(op) && !take_memory(op)) return;
  group.window.take_callbacks(op);
  if (op.agreement.uses_tokens && op.state == Op::State::running)
    break_for(group, agreement_.begin(op));
  if (op.state == Op::State::running) advance(op);
}

/// Copies the details that the caller need not keep until the operation is done.
void Engine::take_details(Op& op, const Details* details) {
  op.call.details = nullptr;
  op.detailed = details != nullptr;
  op.inputs.clear();
  op.outputs.clear();
  op.input_pieces.assign({});
  op.output_pieces.assign({});
  if (details == nullptr) return;
  op.inputs.assign(details->inputs.begin(), details->inputs.end());
  op.outputs.assign(details->outputs.begin(), details->outputs.end());
  op.input_pieces.assign(details->input_pieces);
  op.output_pieces.assign(details->output_pieces);
  if (op.call.op != ReduceOp::premul_sum || details->factor.count() == 0) return;
  // The output may be the same memory, and is not to be written before all agree.
  std::vector<Piece> pieces(details->input_pieces.begin(), details->input_pieces.end());
  for (const TensorView& view : op.inputs) pieces.push_back({view, 0, view.count()});
  if (pieces.empty()) pieces.push_back({op.call.input, 0, op.call.input.count()});
  op.input_pieces.assign(pieces);
  op.inputs.clear();
  const std::size_t count = op.input_pieces.count();
  op.scaled.resize(count * size_of(op.call.input.dtype()));
  op.input_pieces.pack(op.scaled.data(), 0, count);
  op.input_pieces.assign({});
  scale(op.scaled.data(), op.call.input.dtype(), count, details->factor);
  op.call.input = TensorView(op.scaled.data(), op.call.input.dtype(), count);
}

/// False: there is none, and the group is broken.
bool Engine::take_memory(Op& op) {
  Group& group = *op.group;
  if (const Outcome taken = interpreter_.take_memory(op); !taken.ok()) {
    break_group(group,
                Outcome(taken.code(), op_text(op) + ": " + name_of(world_, group, group.rank) +
                                          ": " + std::string(taken.message()))
                    .with_culprit(group.rank));
    return false;
  }
  if (!op.streams.is_open()) return true;
  for (int rank = 0; rank < group.size && op.state == Op::State::running; ++rank) {
    if (rank != group.rank) deliver_held(op, rank);
  }
  // For the ranks of our host to compare (Agreement::compare_both_ways), and to see how far we are.
  const bool shown = op.plan->schedule->region || group.local_members.empty();
  if (!shown && op.state == Op::State::running) regions_.publish(group, op.region);
  return true;
}

bool Engine::advance(Op& op) {
  if (op.agreement.disagreeing_rank >= 0) [[unlikely]]
    return false;
  bool moved = false;
  if (op.agreement.uses_tokens) [[unlikely]]
    moved = agreement_.advance(op);
  switch (interpreter_.run(op)) {
    case Interpreter::Progress::waits: return moved;
    case Interpreter::Progress::moved: return true;
    case Interpreter::Progress::done: finish(op); return true;
    case Interpreter::Progress::found: report(op, interpreter_.take_finding()); return true;
  }
  return moved;
}

void Engine::finish(Op& op) noexcept {
  Group& group = *op.group;
  end(op);
  group.window.note_done();
  regions_.tell_passed(group, group.window.done_upto());
  if (!op.callbacks.empty()) call_back(op, Outcome());
}

void Engine::end(Op& op) noexcept {
  op.state = Op::State::done;
  if (world_.recorder != nullptr)
    world_.recorder->ended(op.timer.record, op.failed, op.timer.deadline != TimePoint{});
  if (op.streams.is_open()) {
    op.streams.close();
    if (op.failed) channel_.let_go(op.streams);  // else nothing is on its way
  }
  release_memory(op);
  if (op.plan->schedule->messages || op.agreement.uses_tokens) channel_.operation_ended();
  if (active_.size() == 1)
    active_.clear();
  else
    std::erase(active_, &op);
}

/// Kept for the next call in this slot only where it is little.
void Engine::release_memory(Op& op) noexcept {
  constexpr std::size_t kKeptBytes = std::size_t{1} << 20;
  if (op.scaled.capacity() > kKeptBytes) std::vector<std::byte>().swap(op.scaled);
  interpreter_.release_memory(op);
}

void Engine::call_back(Op& op, const Outcome& status) noexcept {
  completions_.complete(op.callbacks, status);
  op.callbacks.clear();
}

bool Engine::progress_one(Group& group, std::uint64_t ticket) noexcept {
  if (active_.size() != 1 || uses_messages()) return progress();
  Op& op = group.window.at(ticket);
  if (op.seq != ticket || op.state != Op::State::running) return progress();
  return guarded(&group, [&] { return advance(op); });
}

bool Engine::progress() noexcept {
  if (propagation_.untold()) [[unlikely]]
    propagation_.tell_the_rest();
  return guarded(nullptr, [&] { return pass(); });
}

bool Engine::pass() {
  bool moved = false;
  if (propagation_.breaks_to_see()) [[unlikely]]
    propagation_.check_breaks();
  for (transport::Transport* transport : transports_) moved |= transport->poll();
  // By index and checked again: finishing or breaking changes the list under us.
  for (std::size_t i = 0; i < active_.size();) {
    Op* const op = active_[i];
    moved |= advance(*op);
    if (i < active_.size() && active_[i] == op) ++i;
  }
  moved |= p2p_.push();
  if (queued_ > 0) {
    for (const auto& [id, group] : groups_.by_id()) moved |= start_queued(*group);
  }
  moved |= channel_.flush_control();
  return moved;
}

bool Engine::is_done(Group& group, std::uint64_t ticket) noexcept {
  if (is_p2p(ticket)) [[unlikely]]
    return P2PTable::is_done(group, ticket);
  const Op& op = group.window.at(ticket);
  if (op.seq == ticket) return op.state == Op::State::done;
  return op.seq > ticket || group.broken;
}

std::optional<Outcome> Engine::outcome(Group& group, std::uint64_t ticket) noexcept {
  if (is_p2p(ticket)) [[unlikely]]
    return P2PTable::outcome(group, ticket);
  const Op& op = group.window.at(ticket);
  if (op.seq == ticket) {
    if (op.state != Op::State::done) return std::nullopt;
    return op.failed ? group.cause : Outcome();
  }
  if (op.seq > ticket) return Outcome();
  if (group.broken) return group.cause;
  return std::nullopt;
}

int Engine::release(Group& group, std::uint64_t ticket) noexcept {
  int source = -1;
  if (is_p2p(ticket)) guarded(&group, [&] { source = P2PTable::release(group, ticket); });
  return source;
}

bool Engine::on_done(Group& group, std::uint64_t ticket, Callback callback) noexcept {
  try {
    completions_.reserve();
    if (const std::optional<Outcome> known = outcome(group, ticket)) {
      completions_.add(callback, *known);
      return true;
    }
    if (is_p2p(ticket)) {
      P2PTable::on_done(group, ticket, callback);
    } else if (Op& op = group.window.at(ticket); op.seq == ticket) {
      op.callbacks.push_back(callback);
    } else {
      group.window.on_done_later(ticket, callback);
    }
    completions_.registered();
    return true;
  } catch (const std::bad_alloc&) {
    break_for_memory(&group);
    return false;
  }
}

}  // namespace tutti::engine
