#include "engine/operation_runner.hpp"

#include <algorithm>
#include <utility>

#include <tutti/backend/kinds.hpp>

#include "engine/names.hpp"
#include "engine/p2p_matcher.hpp"
#include "transport/shm/doorbell.hpp"

namespace tutti::engine {

namespace shm = transport::shm;

OperationRunner::OperationRunner(const World& world, GroupTable& groups, MessageChannel& channel,
                                 FailurePropagation& propagation, Agreement& agreement,
                                 CompletionQueue& completions)
    : world_(world),
      recorder_(world.recorder),
      groups_(groups),
      channel_(channel),
      propagation_(propagation),
      agreement_(agreement),
      completions_(completions),
      regions_(*world.regions,
               {world.cpus, world.publish_fence, world.now, world.populate, world.core_cache}),
      interpreter_(regions_, channel) {
  active_.reserve(256);
}

std::uint64_t OperationRunner::submit(Group& group, const Collective& call) noexcept {
  const std::uint64_t ticket = group.window.number_call();
  if (group.broken) [[unlikely]]
    return ticket;
  propagation_.guarded(&group, [&] {
    const BoundPlan* const bound = group.window.has_queued() ? nullptr : &group.plans->find(call);
    const bool begins = bound != nullptr && may_begin(group, call, *bound);
    if (group.broken) [[unlikely]]
      return;
    const std::uint64_t record =
        recorder_ == nullptr
            ? 0
            : recorder_->called(group.record_place, ticket, call,
                                begins ? record::EntryState::running : record::EntryState::queued);
    if (begins) [[likely]]
      return start(group, call, *bound, record);
    group.window.enqueue(call, record);
    ++queued_;
    start_queued(group);
  });
  return ticket;
}

bool OperationRunner::may_begin(Group& group, const Collective& call, const BoundPlan& bound) {
  const bool may = group.window.may_begin(call, bound);
  if (const int other = group.window.disagreeing(); other >= 0) [[unlikely]]
    propagation_.break_group(group, agreement_.differs_behind(group, other));
  return may && !group.broken;
}

bool OperationRunner::start_queued() {
  bool moved = false;
  if (queued_ > 0) {
    for (const auto& [id, group] : groups_.by_id()) moved |= start_queued(*group);
  }
  return moved;
}

bool OperationRunner::start_queued(Group& group) {
  bool moved = false;
  while (group.window.has_queued() && !group.broken) {
    Queued& first = group.window.first_queued();
    if (first.plan == nullptr) first.plan = &group.plans->find(first.call());
    if (!may_begin(group, first.call(), *first.plan)) break;
    Queued next = group.window.dequeue();
    --queued_;
    if (recorder_ != nullptr) recorder_->began(next.record());
    start(group, next.call(), *next.plan, next.record());
    moved = true;
  }
  return moved;
}

void OperationRunner::start(Group& group, const Collective& call, const BoundPlan& bound,
                            std::uint64_t record) {
  if (group.window.is_exhausted()) [[unlikely]] {
    propagation_.break_group(
        group, Outcome(Errc::resource,
                       "group '" + group.name + "' has no numbers left for operations, after " +
                           std::to_string(kLastOperation) + " of them; make a new one"));
    return;
  }
  // If memory is missing, nothing has begun yet, or the operation is in `active_` and its end is
  // that of its group.
  Op& op = group.window.next();
  active_.push_back(&op);
  group.window.begin_next(bound);
  op.call = call;
  op.agreement.begin(bound.forwards_output || (group.strict && !group.one_host()));
  const bool messages = bound.schedule->messages || op.agreement.uses_tokens;
  if (messages) channel_.operation_began();
  if (call.details != nullptr || op.detailed) [[unlikely]]
    op.take_details(call.details);
  op.timer.deadline = TimePoint{};
  op.timer.record = record;
  shm::record_call(group.block->call(op.seq), bound.code);
  if (!interpreter_.begin(op) && !take_memory(op)) return;
  group.window.take_callbacks(op);
  if (op.agreement.uses_tokens && op.state == Op::State::running)
    propagation_.break_for(group, agreement_.begin(op));
  if (op.state == Op::State::running) advance(op);
}

/// False: there is none, and the group is broken.
bool OperationRunner::take_memory(Op& op) {
  Group& group = *op.group;
  if (const Outcome taken = interpreter_.take_memory(op); !taken.ok()) {
    propagation_.break_group(
        group, Outcome(taken.code(), op_text(op) + ": " + name_of(world_, group, group.rank) +
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

bool OperationRunner::advance(Op& op) {
  if (op.agreement.disagreeing_rank >= 0) [[unlikely]]
    return false;
  bool moved = false;
  if (op.agreement.uses_tokens) [[unlikely]]
    moved = agreement_.advance(op);
  switch (interpreter_.run(op)) {
    case Interpreter::Progress::waits: return moved;
    case Interpreter::Progress::moved: return true;
    case Interpreter::Progress::done: return pass(op);
    case Interpreter::Progress::found: report(op, interpreter_.take_finding()); return true;
  }
  return moved;
}

bool OperationRunner::advance_all() {
  bool moved = false;
  // By index and checked again: finishing or breaking changes the list under us.
  for (std::size_t i = 0; i < active_.size();) {
    Op* const op = active_[i];
    moved |= advance(*op);
    if (i < active_.size() && active_[i] == op) ++i;
  }
  return moved;
}

void OperationRunner::deliver_held(Op& op, int rank) {
  if (!interpreter_.deliver_held(op, rank)) report(op, interpreter_.take_finding());
}

/// Breaks the group of an operation that cannot go on, or asks another rank for its last calls.
void OperationRunner::report(Op& op, const Interpreter::Finding& finding) {
  using What = Interpreter::Finding::What;
  Group& group = *op.group;
  const transport::DataFrame& frame = finding.frame;
  switch (finding.what) {
    case What::line:
      propagation_.break_for(group, agreement_.differs_in_lines(op, finding.rank));
      break;
    case What::frame:
      propagation_.break_for(group, agreement_.differs(op, finding.rank, frame.call, frame.seq));
      break;
    case What::splits:
      propagation_.break_group(group, agreement_.splits_differ(op, finding.rank, frame));
      break;
    case What::outside:
      propagation_.break_group(
          group, Outcome(Errc::internal, op_text(op) + ": " + name_of(world_, group, finding.rank) +
                                             " exposes staging outside its arena"));
      break;
    case What::unmapped: propagation_.break_for_memory(group); break;
  }
}

std::string OperationRunner::running_text() const {
  return active_.empty() ? std::string() : op_text(*active_.front());
}

/// All steps are done. True: the operation has moved on.
bool OperationRunner::pass(Op& op) {
  if (op.region.borrows && !op.passed) [[unlikely]] {
    check_borrowed(op);
    if (op.state != Op::State::running) return true;
  }
  if (!op.region.lends) [[likely]] {
    finish(op);
    return true;
  }
  Group& group = *op.group;
  const bool first = !std::exchange(op.passed, true);
  if (first) {
    group.window.note_passed();
    regions_.tell_passed(group, op);
  }
  if (!group.window.is_read_by_all(op.seq)) return first;
  finish(op);
  return true;
}

/// Breaks the group if a rank may have changed its input while we read it: its operation has ended
/// without us. It has shown that before, by its break word or the end of the group. Another rank
/// that breaks the group may have told it, and not us yet, so our own break word is not enough.
void OperationRunner::check_borrowed(Op& op) {
  Group& group = *op.group;
  shm::fence_if_needed(true);  // between our reads and the look; pairs with end_all
  const auto ended = std::ranges::find_if(group.local_members, [&](int rank) {
    return op.region.input_of(rank) != nullptr && has_closed(*group.member(rank).block);
  });
  // A rank ends a broken group, too, and has shown the break before.
  if (propagation_.hear_of_break(group) || ended == group.local_members.end()) return;
  propagation_.break_group(
      group, Outcome(Errc::peer_left,
                     op_text(op) + ": " + name_of(world_, group, *ended) +
                         " has destroyed the group while its input was read. Wait for the Work of "
                         "an operation before its group ends; the group is broken.")
                 .with_culprit(*ended));
}

void OperationRunner::finish(Op& op) noexcept {
  Group& group = *op.group;
  const bool told = op.passed;
  end(op);
  if (!told) {
    group.window.note_passed();
    regions_.tell_passed(group, op);
  }
  if (!op.callbacks.empty()) call_back(op, Outcome());
}

void OperationRunner::end(Op& op) noexcept {
  op.group->window.end(op);
  if (recorder_ != nullptr)
    recorder_->ended(op.timer.record, op.failed, op.timer.deadline != TimePoint{});
  if (op.streams.is_open()) {
    op.streams.close();
    if (op.failed) channel_.let_go(op.streams);  // else nothing is on its way
  }
  release_memory(op);
  op.region.forget_inputs();
  if (op.plan->schedule->messages || op.agreement.uses_tokens) channel_.operation_ended();
  if (active_.size() == 1)
    active_.clear();
  else
    std::erase(active_, &op);
}

/// Kept for the next call in this slot only where it is little.
void OperationRunner::release_memory(Op& op) noexcept {
  constexpr std::size_t kKeptBytes = std::size_t{1} << 20;
  if (op.scaled.capacity() > kKeptBytes) std::vector<std::byte>().swap(op.scaled);
  interpreter_.release_memory(op);
}

void OperationRunner::call_back(Op& op, const Outcome& status) noexcept {
  completions_.complete(op.callbacks, status);
  op.callbacks.clear();
}

void OperationRunner::end_all(Group& group) noexcept {
  for (Op& op : group.window) {
    if (op.state != Op::State::running) continue;
    op.failed = true;
    end(op);
    call_back(op, group.cause);
  }
  if (group.matcher != nullptr) group.matcher->fail();
  queued_ -= group.window.fail_queue(completions_, group.cause);
  channel_.drop_held(group.id);
  group.window.close();
  (void)groups_.settle(group);
  // Before callers write inputs that others may be reading; pairs with check_borrowed.
  shm::fence_if_needed(true);
}

}  // namespace tutti::engine
