#include "engine/engine.hpp"
#include "engine/names.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <tutti/kinds.hpp>
#include "base/log.hpp"
#include "engine/p2p_matcher.hpp"
#include "kernels/reduce.hpp"

namespace tutti::engine {

namespace shm = transport::shm;

/// Finds the lines of a member on our host. False while it has not made the group yet.
bool find_block(const Group& group, Member& member) noexcept {
  const transport::RegionPeer& peer = group.regions->peers[static_cast<std::size_t>(member.local)];
  for (int slot = 0; slot < shm::kMaxGroups; ++slot) {
    // acquire: pairs with the release in add_group, so that the cleared lines are seen.
    if (peer.group_id(slot).load(std::memory_order_acquire) == group.id) {
      member.block = &peer.group(slot);
      member.slot = slot;
      return true;
    }
  }
  return false;
}

bool is_gone(const Group& group, const Member& member) noexcept {
  const transport::RegionPeer& peer = group.regions->peers[static_cast<std::size_t>(member.local)];
  // acquire: pairs with leaving.
  return peer.died || peer.header().left.load(std::memory_order_acquire) != 0;
}

namespace {

/// Have all members of the group that share our host passed `seq`?
bool passed_by_all(Group& group, std::uint64_t seq) {
  if (group.peers_done >= seq && group.done_upto >= seq) return true;
  std::uint64_t least = ~std::uint64_t{0};
  for (const int rank : group.local_members) {
    Member& member = group.members[static_cast<std::size_t>(rank)];
    if (member.block == nullptr && !find_block(group, member)) return false;
    // acquire: pairs with the release in finish(): its reads of our memory lie behind it.
    least = std::min(least, member.block->done.value.load(std::memory_order_acquire));
  }
  group.peers_done = least;
  return least >= seq && group.done_upto >= seq;
}

/// ... or will never read what we staged for it? (See Staging.)
bool is_read_by_all(Group& group, std::uint64_t seq) {
  if (passed_by_all(group, seq)) return true;
  if (group.done_upto < seq) return false;
  return std::all_of(group.local_members.begin(), group.local_members.end(), [&](int rank) {
    Member& member = group.members[static_cast<std::size_t>(rank)];
    if (is_gone(group, member)) return true;
    if (member.block == nullptr && !find_block(group, member)) return false;
    // acquire: as in passed_by_all.
    return member.block->done.value.load(std::memory_order_acquire) >= seq;
  });
}

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

}  // namespace

/// The ranks of a host share its caches: all their rings together are to fit where two whole ones
/// do.
constexpr std::size_t staging_cycle(std::size_t ranks) noexcept {
  return std::max<std::size_t>(2 * shm::kStagingBytes / std::max<std::size_t>(ranks, 2),
                               512 * 1024);
}

void Stream::clear() noexcept {
  sends.clear();
  send_at = 0;
  sent = 0;
  credit = 0;
  wanted = false;
  receives.clear();
  receive_at = 0;
  received = 0;
  kept = 0;
  heard = false;
  compared = false;
  granted = 0;
}

Engine::Engine(World world)
    : world_(std::move(world)),
      staging_(world_.regions->arena, is_read_by_all, world_.populate,
               staging_cycle(world_.regions->peers.size())),
      cache_distance_(oversubscribed()) {
  peers_.reserve(static_cast<std::size_t>(world_.size));
  for (int rank = 0; rank < world_.size; ++rank) peers_.emplace_back(&pool_);
  unflushed_.reserve(peers_.size());
  groups_.resize(shm::kMaxGroups);
  active_.reserve(256);
  ticked_.reserve(256);
  retired_.reserve(shm::kMaxGroups);
  dropped_ = std::make_unique_for_overwrite<std::byte[]>(transport::kMaxFramePayload);
  waiting_.reserve(peers_.size());
  for (transport::Transport* transport : world_.route) {
    if (transport == nullptr) continue;
    if (std::find(transports_.begin(), transports_.end(), transport) == transports_.end()) {
      transports_.push_back(transport);
      transport->set_sink(this);
    }
  }
}

Engine::~Engine() = default;

/// Looks for the lines of every member of our host, and says so once all are found. Each is looked
/// for, whatever becomes of the others: one that is passed over could use its slot anew before we
/// look again.
bool Engine::settle(Group& group) noexcept {
  std::atomic<std::uint64_t>& done = group.block->done.value;
  if (done.load(std::memory_order_relaxed) == kSettled) return true;  // ours alone to write
  bool all = true;
  for (const int rank : group.local_members) {
    Member& member = group.members[static_cast<std::size_t>(rank)];
    if (member.block == nullptr && !find_block(group, member) && !is_gone(group, member))
      all = false;
  }
  // release: pairs with given_up_by_all and has_closed.
  done.store(all ? kSettled : kClosed, std::memory_order_release);
  return all;
}

/// Of a group that is settled.
bool Engine::given_up_by_all(const Group& group) const noexcept {
  return std::all_of(group.local_members.begin(), group.local_members.end(), [&](int rank) {
    const Member& member = group.members[static_cast<std::size_t>(rank)];
    if (is_gone(group, member)) return true;
    const transport::RegionPeer& peer =
        world_.regions->peers[static_cast<std::size_t>(member.local)];
    // Its slot may serve another group by now: then it has given this one up too.
    if (peer.group_id(member.slot).load(std::memory_order_acquire) != group.id) return true;
    // acquire: pairs with settle; its reads of our memory lie before it.
    return member.block->done.value.load(std::memory_order_acquire) == kSettled;
  });
}

void Engine::sweep_retired() noexcept {
  for (const std::unique_ptr<Group>& group : groups_) {
    if (group != nullptr && group->broken) (void)settle(*group);
  }
  std::erase_if(retired_, [&](const std::unique_ptr<Group>& group) {
    if (!settle(*group) || !given_up_by_all(*group)) return false;
    staging_.forget(*group);
    return true;
  });
}

/// A slot for a new group, or -1.
int Engine::free_slot() noexcept {
  sweep_retired();
  for (int slot = 0; slot < shm::kMaxGroups; ++slot) {
    const bool retired = std::any_of(retired_.begin(), retired_.end(),
                                     [&](const auto& group) { return group->slot == slot; });
    if (groups_[static_cast<std::size_t>(slot)] == nullptr && !retired) return slot;
  }
  return -1;
}

Result<Group*> Engine::add_group(const GroupSpec& spec) {
  const int free = free_slot();
  if (free < 0) {
    return Status(Errc::resource, "this rank has " + std::to_string(shm::kMaxGroups) +
                                      " groups already; destroy some");
  }
  auto group = std::make_unique<Group>();
  group->id = spec.id;
  group->name = spec.name;
  group->size = static_cast<int>(spec.ranks.size());
  group->slot = free;
  group->timeout = spec.timeout;
  group->strict = spec.strict;
  group->regions = world_.regions;
  std::vector<int> hosts;
  for (int r = 0; r < group->size; ++r) {
    Member member;
    member.global = spec.ranks[static_cast<std::size_t>(r)];
    member.local = world_.local_of[static_cast<std::size_t>(member.global)];
    hosts.push_back(world_.host_of[static_cast<std::size_t>(member.global)]);
    if (member.global == world_.rank)
      group->rank = r;
    else if (member.local >= 0)
      group->local_members.push_back(r);
    group->members.push_back(member);
  }
  group->no_memory =
      Status(Errc::resource, "group '" + spec.name + "': " + name_of(world_, *group, group->rank) +
                                 " has no memory for an operation: the system refused it. Allow it "
                                 "more (ulimit -v, the limit of its cgroup), or use smaller "
                                 "tensors; the group is broken, make a new one.")
          .with_culprit(group->rank);
  group->chain = chain_start(spec.id, world_.settings);
  group->plans = std::make_unique<PlanCache>(group->rank, plan::make_topology(std::move(hosts)),
                                             world_.cpus, world_.algorithms);
  const auto size = static_cast<std::size_t>(group->size);
  for (Op& op : group->window) {
    op.group = group.get();
    op.stage_of.resize(size);
    op.sources.resize(size);
  }
  group->block = &world_.regions->group(group->slot);
  // Where memory lacks, a touch would end the process.
  auto* const word = reinterpret_cast<std::byte*>(&world_.regions->page().break_words[group->slot]);
  auto* const lines = reinterpret_cast<std::byte*>(group->block);
  auto* const id = reinterpret_cast<std::byte*>(&world_.regions->group_id(group->slot));
  for (const auto& [data, bytes] :
       {std::pair(word, sizeof(std::uint64_t)), std::pair(lines, sizeof(shm::GroupBlock)),
        std::pair(id, sizeof(std::uint64_t))}) {
    if (world_.populate == nullptr) break;
    if (Status s = world_.populate(data, bytes); !s.ok()) return s;
  }
  shm::GroupBlock& block = *group->block;
  // The block may have served another group: its lines must not be taken for ours, so the id goes
  // first and comes back last.
  world_.regions->group_id(group->slot).store(0, std::memory_order_seq_cst);
  // relaxed: published by the release of the id below.
  for (shm::OperationSlot& slot : block.slots) {
    slot.line.epoch.store(0, std::memory_order_relaxed);  // pairs with await_lines
    for (shm::Counter& counter : slot.counters) {
      counter.value.store(0, std::memory_order_relaxed);  // pairs with await_counters
    }
  }
  block.done.value.store(0, std::memory_order_relaxed);  // pairs with passed_by_all
  block.note.length = 0;
  world_.regions->page().break_words[group->slot].store(0, std::memory_order_relaxed);
  // release: pairs with the acquire in find_block.
  world_.regions->group_id(group->slot).store(spec.id, std::memory_order_release);
  Member& self = group->members[static_cast<std::size_t>(group->rank)];
  self.block = &block;
  self.slot = group->slot;
  by_id_[spec.id] = group.get();
  Group* const made = group.get();
  groups_[static_cast<std::size_t>(free)] = std::move(group);
  break_if_lost_already(*made);
  adopt_early(*made);
  return made;
}

void Engine::remove_group(Group& group) noexcept {
  // First cause wins; other hosts hear of a break before they hear that we have closed the group.
  guarded(nullptr, [&] {
    if (breaks_to_see()) [[unlikely]]
      check_breaks();
  });
  if (group.untold) try_tell_remote(group, group.cause);
  if (!group.broken) {
    Status cause = group.no_memory;
    guarded(&group,
            [&] { cause = Status(Errc::aborted, "group '" + group.name + "' was destroyed"); });
    fail_all(group, cause);
  }
  // Peers may still look for our last lines, so these and the id stay until the group has ended for
  // all (E7).
  guarded(nullptr, [&] {
    closed_ids_.push_back(group.id);
    if (closed_ids_.size() > 4096) closed_ids_.pop_front();
  });
  drop_held(group);
  forget_matcher(group);
  by_id_.erase(group.id);
  retired_.push_back(std::move(groups_[static_cast<std::size_t>(group.slot)]));
  sweep_retired();
}

bool Engine::window_has_room(Group& group) noexcept {
  const std::uint64_t seq = group.started + 1;
  if (group.op_at(seq).state == Op::State::running) return false;
  if (seq <= shm::kWindow || group.local_members.empty()) return true;
  return passed_by_all(group, seq - shm::kWindow);
}

std::uint64_t Engine::submit(Group& group, const Collective& call, bool asynchronous) noexcept {
  // A group that others have broken shall not complete one more operation that could.
  if (breaks_to_see()) [[unlikely]]
    guarded(nullptr, [&] { check_breaks(); });
  if (!is_collective(call.kind)) [[unlikely]] {
    std::uint64_t request = kRefusedTicket;
    guarded(&group, [&] { request = submit_p2p(group, call); });
    return request;
  }
  const std::uint64_t ticket = ++group.submitted;
  if (group.broken) [[unlikely]]
    return ticket;
  guarded(&group, [&] {
    if (!group.queue.empty() || !window_has_room(group)) [[unlikely]] {
      group.queue.emplace_back(call, asynchronous);
      ++queued_;
      start_queued(group);
    } else {
      start(group, call, asynchronous);
    }
  });
  return ticket;
}

bool Engine::start_queued(Group& group) {
  bool moved = false;
  while (!group.queue.empty() && !group.broken && window_has_room(group)) {
    Queued next = std::move(group.queue.front());
    group.queue.pop_front();
    --queued_;
    start(group, next.call(), next.asynchronous());
    moved = true;
  }
  return moved;
}

bool Engine::start(Group& group, const Collective& call, bool asynchronous) {
  if (group.started == kLastOperation) [[unlikely]] {
    break_group(group,
                Status(Errc::resource,
                       "group '" + group.name + "' has no numbers left for operations, after " +
                           std::to_string(kLastOperation) + " of them; make a new one"));
    return false;
  }
  // What may lack memory comes before the operation has begun, or after it is known to all that
  // ends it.
  const BoundPlan& bound = group.plans->find(call);
  Op& op = group.op_at(group.started + 1);
  active_.push_back(&op);
  const std::uint64_t seq = ++group.started;
  group.chain = chain(group.chain, bound.code);
  op.state = Op::State::running;
  op.seq = seq;
  op.fingerprint = group.chain;
  op.plan = &bound;
  op.call = call;
  op.stage_offset = 0;
  op.frames_out = 0;
  op.failed = false;
  op.strict = bound.forwards_output || (group.strict && !group.one_host());
  const bool messages = bound.schedule->messages || op.strict;
  if (messages) ++message_ops_;
  if (call.details != nullptr || op.detailed) [[unlikely]]
    take_details(op, call.details);
  op.pc = 0;
  op.sub = 0;
  op.winner = -1;
  op.depth = 0;
  op.agreed = false;
  op.defers_output = bound.compares_all_headers;
  op.disagreeing_rank = -1;
  op.home = {};
  op.asynchronous = asynchronous;
  op.fused = bound.shape != Shape::none && call.input.contiguous() && call.output.contiguous() &&
             op.output_pieces.empty();
  choose_staging_mode(op);
  // In place, each line of the output is in the cache when it is written: it has just been read.
  const bool in_place = traits_of(call.kind).layout == Layout::same &&
                        traits_of(call.kind).reduces && call.input.data() == call.output.data();
  op.stream_out = bound.stream_out && !in_place;
  op.deadline = TimePoint{};
  shm::OperationSlot& slot = group.block->slots[seq % shm::kWindow];
  // Mostly the slot holds the same call already; a line that is not written need not be fetched.
  if (!std::equal(bound.code.begin(), bound.code.end(), slot.cold.call))
    std::copy(bound.code.begin(), bound.code.end(), slot.cold.call);
  if (bound.inline_stage && !messages) {
    op.stage = slot.line.payload.data;
    op.stage_of[static_cast<std::size_t>(group.rank)] = op.stage;
  } else {
    Status why;
    if (!prepare_memory(*this, op, why)) {
      break_group(
          group, Status(why.code(), op_text(op) + ": " + name_of(world_, group, group.rank) + ": " +
                                        std::string(why.message()))
                     .with_culprit(group.rank));
      return false;
    }
  }
  op.callbacks.reserve(group.queued_callbacks.size());  // or none of them is moved
  for (auto& [ticket, callback] : group.queued_callbacks) {
    if (ticket == seq) op.callbacks.push_back(callback);
  }
  if (!group.queued_callbacks.empty()) {
    std::erase_if(group.queued_callbacks, [&](const auto& entry) { return entry.first == seq; });
  }
  if (op.strict && op.state == Op::State::running) begin_agreement(op);
  if (op.state == Op::State::running) advance(op);
  return true;
}

/// What the caller need not keep until the operation is done.
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

bool Engine::prepare_memory(Engine& engine, Op& op, Status& why) {
  const BoundPlan& bound = *op.plan;
  Group& group = *op.group;
  if (bound.inline_stage) {
    op.stage = group.block->slots[op.seq % shm::kWindow].line.payload.data;
  } else if (bound.stage_bytes > 0 && bound.own_stage) {
    Result<std::size_t> taken = engine.staging_.take(group, op.seq, bound.stage_bytes);
    if (!taken) {
      why = taken.status();
      return false;
    }
    op.stage_offset = *taken;
    op.stage = engine.world_.regions->arena + op.stage_offset;
  } else {
    op.stage_offset = 0;
    op.stage = nullptr;
  }
  op.stage_of[static_cast<std::size_t>(group.rank)] = op.stage;
  if (op.scratch.size() < bound.scratch_bytes) engine.scratch_.fit(op.scratch, bound.scratch_bytes);
  if (bound.schedule->messages) {
    if (op.streams.empty()) op.streams.resize(static_cast<std::size_t>(group.size));
    for (Stream& stream : op.streams) stream.clear();
    for (int rank = 0; rank < group.size && op.state == Op::State::running; ++rank) {
      if (rank != group.rank) engine.deliver_held(op, rank);
    }
    // For the ranks of our host to compare (check_calls), and to see how far we are.
    const bool shown = bound.schedule->region || group.local_members.empty();
    if (!shown && op.state == Op::State::running) engine.publish(op);
  }
  return true;
}

void Engine::finish(Op& op) noexcept {
  Group& group = *op.group;
  end(op);
  while (group.done_upto < group.started) {
    const Op& next = group.op_at(group.done_upto + 1);
    if (next.seq != group.done_upto + 1 || next.state != Op::State::done) break;
    ++group.done_upto;
  }
  // release: pairs with the acquire in passed_by_all: our reads of peers' memory lie before it.
  group.block->done.value.store(group.done_upto, std::memory_order_release);
  ring_all(group);  // somebody may sleep until a slot of the window is free
  if (!op.callbacks.empty()) call_back(op, Status());
}

void Engine::end(Op& op) noexcept {
  op.state = Op::State::done;
  if (op.frames_out == 0) release_memory(op);  // else with them: release_frames
  if (op.plan->schedule->messages || op.strict) --message_ops_;
  if (active_.size() == 1)
    active_.clear();
  else
    std::erase(active_, &op);
}

/// Kept for the next call in this slot only where it is little.
void Engine::release_memory(Op& op) noexcept {
  constexpr std::size_t kKeptBytes = std::size_t{1} << 20;
  if (op.scaled.capacity() > kKeptBytes) std::vector<std::byte>().swap(op.scaled);
  if (op.scratch.size() > ScratchPool::kSmall) scratch_.give(std::move(op.scratch));
}

void Engine::call_back(Op& op, const Status& status) noexcept {
  // There is room: make_room_for_callback.
  awaited_ -= op.callbacks.size();
  for (const Callback& callback : op.callbacks) finished_.push_back({callback, status});
  op.callbacks.clear();
}

bool Engine::progress_one(Group& group, std::uint64_t ticket) noexcept {
  if (active_.size() != 1 || uses_messages()) return progress();
  Op& op = group.op_at(ticket);
  if (op.seq != ticket || op.state != Op::State::running) return progress();
  return guarded(&group, [&] { return advance(op); });
}

bool Engine::progress() noexcept {
  if (untold_) [[unlikely]]
    tell_the_rest();
  return guarded(nullptr, [&] { return pass(); });
}

bool Engine::pass() {
  bool moved = false;
  if (breaks_to_see()) [[unlikely]]
    check_breaks();
  for (transport::Transport* transport : transports_) moved |= transport->poll();
  // By index and checked again: finishing or breaking changes the list under us.
  for (std::size_t i = 0; i < active_.size();) {
    Op* const op = active_[i];
    moved |= advance(*op);
    if (i < active_.size() && active_[i] == op) ++i;
  }
  if (!matchers_.empty()) moved |= push_p2p();
  if (queued_ > 0) {
    for (const auto& [id, group] : by_id_) moved |= start_queued(*group);
  }
  moved |= flush_all_control();
  return moved;
}

bool Engine::is_done(Group& group, std::uint64_t ticket) noexcept {
  if (is_p2p(ticket)) [[unlikely]]
    return p2p_done(group, ticket);
  const Op& op = group.op_at(ticket);
  if (op.seq == ticket) return op.state == Op::State::done;
  return op.seq > ticket || group.broken;
}

std::optional<Status> Engine::outcome(Group& group, std::uint64_t ticket) noexcept {
  if (is_p2p(ticket)) [[unlikely]]
    return p2p_outcome(group, ticket);
  const Op& op = group.op_at(ticket);
  if (op.seq == ticket) {
    if (op.state != Op::State::done) return std::nullopt;
    return op.failed ? group.cause : Status();
  }
  if (op.seq > ticket) return Status();
  if (group.broken) return group.cause;
  return std::nullopt;
}

}  // namespace tutti::engine
