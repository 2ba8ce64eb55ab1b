#include "engine/engine.hpp"

#include <utility>

#include <tutti/backend/kinds.hpp>

#include "engine/p2p_matcher.hpp"

namespace tutti::engine {

Engine::Engine(World world)
    : world_(std::move(world)),
      channel_(world_.transports),
      detector_(world_, channel_),
      agreement_(world_, channel_),
      operations_(world_, groups_, channel_, propagation_, agreement_, completions_),
      groups_(world_, operations_.staging()),
      propagation_(*world_.regions, groups_.by_id(), world_.size, channel_, operations_),
      lost_(world_, groups_.by_id(), channel_, detector_, propagation_),
      watchdog_(world_, {groups_.by_id(), channel_, propagation_, detector_, agreement_,
                         operations_, p2p_}),
      p2p_({world_, channel_, detector_, watchdog_.stalls(), propagation_, completions_}, groups_),
      frames_(world_.transports,
              {groups_, channel_, propagation_, detector_, lost_, agreement_, operations_, p2p_}) {}

Result<Group*> Engine::add_group(const GroupSpec& spec) {
  Result<Group*> made = groups_.make(spec);
  if (!made.ok()) return made;
  if (world_.recorder != nullptr && spec.recorded)
    (*made)->record_place =
        world_.recorder->add_group(spec.id, spec.name, (*made)->rank, (*made)->size);
  lost_.check_new_group(**made);
  p2p_.adopt_early(**made);
  return made;
}

void Engine::remove_group(Group& group) noexcept {
  // The first cause wins. Other hosts must hear of a break before they hear that we have closed the
  // group.
  if (propagation_.breaks_to_see()) propagation_.check_breaks();
  propagation_.tell_the_rest(group);
  if (!group.broken) {
    Outcome cause = group.no_memory;
    propagation_.guarded(&group, [&] {
      cause = Outcome(Errc::aborted, "group '" + group.name + "' was destroyed");
    });
    propagation_.end(group, cause);
  }
  propagation_.guarded(nullptr, [&] { groups_.note_closed(group.id); });
  channel_.drop_held(group.id);
  p2p_.forget(group);
  if (world_.recorder != nullptr) world_.recorder->remove_group(group.record_place);
  groups_.retire(group);
}

std::uint64_t Engine::submit(Group& group, const Collective& call,
                             std::optional<std::uint64_t> record) noexcept {
  // In a group that another rank has broken no further operation may succeed.
  if (propagation_.breaks_to_see()) [[unlikely]]
    propagation_.check_breaks();
  if (!is_collective(call.kind)) [[unlikely]] {
    const std::uint64_t ticket = p2p_.submit(group, call, record);
    if (record && ticket == kRefusedTicket && world_.recorder != nullptr) [[unlikely]]
      world_.recorder->ended(*record, true, false);
    return ticket;
  }
  return operations_.submit(group, call);
}

std::optional<std::uint64_t> Engine::begin_short_recv(Group& group,
                                                      const Collective& call) noexcept {
  if (propagation_.breaks_to_see()) [[unlikely]]
    propagation_.check_breaks();
  if (operations_.busy() || channel_.has_control() || !p2p_.may_take_short(group, call))
    return std::nullopt;
  if (world_.recorder == nullptr) return 0;
  return world_.recorder->called(group.record_place, kDoneTicket, call,
                                 record::EntryState::running);
}

transport::ShortLook Engine::take_short(Group& group, const Collective& call,
                                        std::uint64_t record) noexcept {
  const transport::ShortLook look = group.matcher->take_short(call);
  if (look == transport::ShortLook::taken && world_.recorder != nullptr)
    world_.recorder->ended(record, false, false);
  return look;
}

bool Engine::progress_one(Group& group, std::uint64_t ticket) noexcept {
  if (is_p2p(ticket)) {
    const int sender = operations_.busy() ? -1 : p2p_.only_sender(group, ticket);
    if (sender < 0 || channel_.has_control()) return progress();
    return propagation_.guarded(nullptr, [&] { return channel_.take_in(sender); });
  }
  if (operations_.running().size() != 1 || channel_.operations() > 0 || p2p_.busy())
    return progress();
  Op& op = group.window.at(ticket);
  if (op.seq != ticket || op.state != Op::State::running) return progress();
  return propagation_.guarded(&group, [&] { return operations_.advance(op); });
}

bool Engine::progress() noexcept {
  if (propagation_.untold()) [[unlikely]]
    propagation_.tell_the_rest();
  return propagation_.guarded(nullptr, [&] { return pass(); });
}

bool Engine::pass() {
  if (propagation_.breaks_to_see()) [[unlikely]]
    propagation_.check_breaks();
  bool moved = frames_.poll();
  moved |= operations_.advance_all();
  moved |= p2p_.push();
  moved |= operations_.start_queued();
  moved |= channel_.flush_control();
  return moved;
}

void Engine::tick() noexcept {
  if (propagation_.untold()) propagation_.tell_the_rest();
  propagation_.check_breaks();
  propagation_.guarded(nullptr, [&] {
    const TimePoint now = world_.now();
    lost_.tick(now);
    watchdog_.tick(now);
  });
}

void Engine::local_peer_died(int local_index) noexcept {
  // Takes all that it had published or sent completely. One pass takes a part of a full ring, and
  // some 20 passes take the longest one.
  for (int pass = 0; pass < 64 && progress(); ++pass) {
  }
  lost_.process_ended(local_index);
}

bool Engine::is_done(Group& group, std::uint64_t ticket) noexcept {
  if (is_p2p(ticket)) [[unlikely]]
    return P2PTable::is_done(group, ticket);
  const Op& op = group.window.at(ticket);
  if (op.seq == ticket) return op.state == Op::State::done;
  return op.seq > ticket || group.broken;
}

std::optional<Outcome> Engine::outcome(Group& group, std::uint64_t ticket) noexcept {
  if (ticket == kDoneTicket) return Outcome();
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

std::string Engine::describe(Group& group, std::uint64_t ticket) {
  if (is_p2p(ticket)) return P2PTable::describe(group, ticket);
  if (const Op& op = group.window.at(ticket); op.seq == ticket) return op_text(op);
  return "group '" + group.name + "', operation " + std::to_string(ticket) +
         ", which waits for earlier ones";
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
    propagation_.break_for_memory(group);
    return false;
  }
}

}  // namespace tutti::engine
