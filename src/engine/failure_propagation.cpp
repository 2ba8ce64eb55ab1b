#include <algorithm>
#include <cstring>

#include <tutti/kinds.hpp>
#include "base/agreed_settings.hpp"
#include "base/shown.hpp"
#include "engine/engine.hpp"
#include "engine/extent.hpp"
#include "engine/names.hpp"
#include "engine/p2p_matcher.hpp"
#include "transport/shm/doorbell.hpp"

// How a group ends badly: who finds out, how the others learn it, and whom the message blames
// (decisions E5, E6; docs/errors.md).
namespace tutti::engine {

namespace shm = transport::shm;
using transport::AbortFrame;
using transport::CreditFrame;
using transport::FrameHeader;
using transport::FrameType;

namespace {

constexpr std::size_t kBrokenEarly = 256;
constexpr std::size_t kMostReason = 4096;  // bytes of the reason that an abort tells

}  // namespace

void Engine::break_group(Group& group, const Status& cause) noexcept {
  if (group.broken) return;
  guarded(&group, [&] { spread(group, claim(group, cause)); });
}

/// The break word that this rank, or another rank of its host, shows for the group; 0: none.
std::uint64_t Engine::shown_break(Group& group) noexcept {
  // acquire, here and below: pairs with claim and tell_local.
  const std::uint64_t ours =
      world_.regions->page().break_words[group.slot].load(std::memory_order_acquire);
  if (ours != 0) return ours;
  for (const int rank : group.local_members) {
    Member& member = group.members[static_cast<std::size_t>(rank)];
    if (member.block == nullptr && !find_block(group, member)) continue;
    const transport::RegionPeer& peer =
        world_.regions->peers[static_cast<std::size_t>(member.local)];
    const std::uint64_t word = peer.page->break_words[member.slot].load(std::memory_order_acquire);
    if (word != 0) return word;
  }
  return 0;
}

/// Shows `cause` in our page, or the first cause, if there is one; returns what is shown. `cause`
/// may only follow from a break: a rank has left over it. A rank shows a break before it tells
/// anybody or leaves, so the word is there for those that have seen what follows.
Status Engine::claim(Group& group, const Status& cause) {
  if (group.local_members.empty()) return cause;
  std::uint64_t word = shown_break(group);
  const bool first = word == 0;
  if (first) {
    shm::Note& note = group.block->note;
    const std::string_view text = base::cut(cause.message(), sizeof(note.text));
    note.length = static_cast<std::uint32_t>(text.size());
    std::memcpy(note.text, text.data(), note.length);
    word = shm::break_word(static_cast<std::uint8_t>(cause.code()), world_.regions->self,
                           cause.culprit().value_or(-1));
  }
  std::uint64_t shown = 0;
  // acq_rel: the note lies before it; pairs with shown_break and check_breaks.
  const bool ours = world_.regions->page().break_words[group.slot].compare_exchange_strong(
      shown, word, std::memory_order_acq_rel);
  if (ours && first) return cause;
  return cause_of(group, ours ? word : shown);
}

/// Tells everybody what `claim` has decided.
void Engine::spread(Group& group, const Status& cause) noexcept {
  tell_local(group);
  try_tell_remote(group, cause);
  fail_all(group, cause);
}

void Engine::fail_all(Group& group, const Status& cause) noexcept {
  if (group.broken) return;
  group.cause = cause;
  // release: pairs with the acquire of whoever reads `broken` without the driver lock, then the
  // cause with it.
  group.broken.store(true, std::memory_order_release);
  for (Op& op : group.window) {
    if (op.state != Op::State::running) continue;
    op.failed = true;
    end(op);
    call_back(op, cause);
  }
  if (group.matcher != nullptr) group.matcher->fail();
  for (const auto& [ticket, callback] : group.queued_callbacks)
    completions_.complete({&callback, 1}, cause);
  group.queued_callbacks.clear();
  queued_ -= static_cast<int>(group.queue.size());
  group.queue.clear();
  channel_.drop_held(group.id);
  // The handle may be kept for long. It must not hold back slots and staging of others.
  group.done_upto = kClosed;
  (void)settle(group);
}

/// Copies the word of our page into those of the other ranks of our host.
void Engine::tell_local(Group& group) noexcept {
  if (group.local_members.empty()) return;
  // relaxed: claim has read or written it.
  const std::uint64_t word =
      world_.regions->page().break_words[group.slot].load(std::memory_order_relaxed);
  for (const int rank : group.local_members) {
    Member& member = group.members[static_cast<std::size_t>(rank)];
    if (member.block == nullptr && !find_block(group, member)) continue;
    const transport::RegionPeer& peer =
        world_.regions->peers[static_cast<std::size_t>(member.local)];
    std::uint64_t none = 0;
    // acq_rel: the note lies before it; pairs with the acquire in check_breaks. First cause wins.
    if (peer.page->break_words[member.slot].compare_exchange_strong(none, word,
                                                                    std::memory_order_acq_rel)) {
      peer.page->breaks.fetch_add(1, std::memory_order_seq_cst);
      if (peer.page->park.load(std::memory_order_seq_cst) != 0) shm::wake(peer);
    }
  }
}

void Engine::tell_remote(Group& group, const Status& cause) {
  const AbortFrame abort{group.id, static_cast<std::uint64_t>(cause.code()),
                         static_cast<std::uint64_t>(cause.culprit().value_or(-1) + 1)};
  std::string text(base::cut(cause.message(), kMostReason));
  for (const Member& member : group.members) {
    if (member.local < 0) channel_.control(member.global, encode(abort), text);
  }
}

/// What a break word (see claim) and the note of its reporter say.
Status Engine::cause_of(Group& group, std::uint64_t word) const {
  const auto reporter = static_cast<int>(word >> 16 & 0xffff);
  std::string text = "group '" + group.name + "' was broken by another rank";
  for (Member& member : group.members) {
    if (member.local != reporter || (member.block == nullptr && !find_block(group, member)))
      continue;
    const shm::Note& note = member.block->note;
    if (note.length > 0)
      text = base::shown({note.text, std::min<std::size_t>(note.length, sizeof(note.text))});
  }
  const auto code = static_cast<std::uint8_t>(word & 0xff);
  Status cause(code > 0 && code <= static_cast<std::uint8_t>(Errc::internal)
                   ? static_cast<Errc>(code)
                   : Errc::internal,
               std::move(text));
  const auto culprit = static_cast<int>(word >> 32) - 1;
  if (culprit >= 0 && culprit < group.size) cause.with_culprit(culprit);
  return cause;
}

void Engine::check_breaks() {
  shm::Page& page = world_.regions->page();
  breaks_seen_ = page.breaks.load(std::memory_order_acquire);  // pairs with tell_local
  std::vector<Group*> alive;  // empty, without memory, while nothing is broken
  for (const auto& [id, group] : by_id_) {
    // acquire: as below.
    if (!group->broken && page.break_words[group->slot].load(std::memory_order_acquire) != 0)
      alive.push_back(group);
  }
  for (Group* const group : alive) {
    const std::uint64_t word =
        page.break_words[group->slot].load(std::memory_order_acquire);  // same
    if (word == 0) continue;
    const Status cause = cause_of(*group, word);
    try_tell_remote(*group, cause);
    fail_all(*group, cause);
  }
}

void Engine::on_control(int peer, const FrameHeader& header, std::span<const std::byte> payload) {
  Group* const group = group_of(header.group);
  switch (type_of(header)) {
    case FrameType::eager_credit: {
      channel_.eager_acknowledged(peer, decode<transport::EagerCreditFrame>(header));
      return;
    }
    case FrameType::credit: {
      if (group == nullptr) {
        if (!is_closed(header.group)) channel_.keep_control(peer, header);  // the peer was faster
        return;
      }
      const int rank = rank_of(*group, peer);
      if (rank < 0) return;
      Op& op = group->op_at(header.seq);
      if (op.seq == header.seq && op.state == Op::State::running && op.streams.is_open()) {
        op.streams[rank].take_credit(decode<CreditFrame>(header).end);
      } else if (header.seq > group->started && !group->broken) {
        channel_.keep_control(peer, header);
      }
      return;
    }
    case FrameType::want: {
      const int rank = group == nullptr ? -1 : rank_of(*group, peer);
      if (group != nullptr && (rank < 0 || group->broken)) return;
      if (group != nullptr && group->op_at(header.seq).seq == header.seq) {
        channel_.control(peer, encode(CreditFrame{header.group, header.seq, kEagerPerStream}));
      } else if (group != nullptr ? header.seq > group->started : !is_closed(header.group)) {
        channel_.keep_control(peer, header);
      }
      return;
    }
    case FrameType::abort: {
      if (group != nullptr && (group->broken || rank_of(*group, peer) < 0)) return;
      const auto [group_id, code, culprit] = decode<AbortFrame>(header);
      Status cause(code > 0 && code <= static_cast<std::uint64_t>(Errc::internal)
                       ? static_cast<Errc>(code)
                       : Errc::internal,
                   base::shown({reinterpret_cast<const char*>(payload.data()), payload.size()},
                               kMostReason));
      // A rank of the group, which we may not have made yet (break_if_lost_already).
      const int most = group != nullptr ? group->size : world_.size;
      if (culprit > 0 && culprit <= static_cast<std::uint64_t>(most))
        cause.with_culprit(static_cast<int>(culprit) - 1);
      if (group != nullptr) {
        break_group(*group, cause);
      } else if (!is_closed(group_id)) {
        broken_early_.emplace_back(group_id, cause);
        if (broken_early_.size() > kBrokenEarly) broken_early_.pop_front();
      }
      return;
    }
    case FrameType::ping: {
      const int rank = group == nullptr || group->broken ? -1 : rank_of(*group, peer);
      const auto ping = decode<transport::PingFrame>(header);
      if (rank >= 0) {
        Op& op = group->op_at(ping.seq);
        if (op.seq == ping.seq && op.seq > 0 && op.fingerprint != ping.fingerprint) {
          disagreement(op, rank, &ping.call, ping.seq);
          return;
        }
      }
      channel_.control(
          peer, encode(transport::PongFrame{ping.group, group == nullptr ? 0 : group->submitted,
                                            is_closed(ping.group)}));
      return;
    }
    case FrameType::pong: {
      const auto pong = decode<transport::PongFrame>(header);
      Peer& from = peers_[static_cast<std::size_t>(peer)];
      from.pong = world_.now();
      from.pong_seq = pong.last_seq;
      const int rank = group == nullptr ? -1 : rank_of(*group, peer);
      // Frames come in order, so whatever it had sent in this group has come before.
      if (rank >= 0 && pong.given_up)
        group->members[static_cast<std::size_t>(rank)].given_up = true;
      return;
    }
    case FrameType::token: {
      const int rank = group == nullptr ? -1 : rank_of(*group, peer);
      if (group != nullptr && (rank < 0 || group->broken)) return;
      if (group != nullptr && header.seq <= group->started) {
        Op& op = group->op_at(header.seq);
        if (op.seq == header.seq && op.state == Op::State::running)
          on_token(op, rank, decode<transport::TokenFrame>(header));
      } else if (group != nullptr || !is_closed(header.group)) {
        channel_.keep_control(peer, header);
      }
      return;
    }
    case FrameType::history: {
      const int rank = group == nullptr || group->broken ? -1 : rank_of(*group, peer);
      if (rank >= 0) on_history(*group, rank, decode<transport::HistoryFrame>(header).seq, payload);
      return;
    }
    case FrameType::data:
    case FrameType::leave:
    case FrameType::eager_message:
    case FrameType::rts:
    case FrameType::cts:
    case FrameType::p2p_data:
    case FrameType::p2p_credit: return;
  }
}

void Engine::disagreement_in_lines(Op& op, int other) {
  Group& group = *op.group;
  const shm::GroupBlock& theirs = *group.members[static_cast<std::size_t>(other)].block;
  // The chain differs: find the first call of the window that does.
  const std::uint64_t oldest = op.seq > shm::kWindow - 1 ? op.seq - (shm::kWindow - 1) : 1;
  for (std::uint64_t seq = oldest; seq <= op.seq; ++seq) {
    const shm::OperationSlot& slot = theirs.slots[seq % shm::kWindow];
    const shm::OperationSlot& ours = group.block->slots[seq % shm::kWindow];
    if (slot.line.epoch.load(std::memory_order_acquire) != seq) continue;  // pairs with publish
    CallCode code;
    std::copy(std::begin(slot.cold.call), std::end(slot.cold.call), code.begin());
    if (!std::equal(code.begin(), code.end(), std::begin(ours.cold.call))) {
      disagreement(op, other, &code, seq);
      return;
    }
  }
  if (op.state != Op::State::running || !ask_history(op, other))
    tell_disagreement(group, other, nullptr, op.seq);
}

void Engine::disagreement(Op& op, int other, const CallCode* theirs, std::uint64_t their_seq) {
  if (op.disagreeing_rank >= 0) return;  // the answer will tell
  Group& group = *op.group;
  Member& member = group.members[static_cast<std::size_t>(other)];
  CallCode agreed{};
  if (theirs != nullptr) {
    agreed = agreed_part(*theirs);
    theirs = &agreed;
  }
  if (theirs != nullptr && *theirs == op.plan->code && their_seq == op.seq) {
    // The difference lies further back.
    if (member.local >= 0 && (member.block != nullptr || find_block(group, member))) {
      disagreement_in_lines(op, other);
      return;
    }
    if (op.state == Op::State::running && ask_history(op, other)) return;
  }
  tell_disagreement(group, other, theirs, their_seq);
}

/// Breaks the group: as operation `seq` the other rank called `theirs`; nullptr: it is not known
/// which call before it differs.
void Engine::tell_disagreement(Group& group, int other, const CallCode* theirs, std::uint64_t seq) {
  std::string text = "ranks disagree in group '" + group.name + "': ";
  const shm::OperationSlot& slot = group.block->slots[seq % shm::kWindow];
  CallCode ours;
  std::copy(std::begin(slot.cold.call), std::end(slot.cold.call), ours.begin());
  if (theirs != nullptr && *theirs != ours) {
    const std::string our_call = engine::describe(ours);
    const std::string their_call = engine::describe(*theirs);
    text += "as operation " + std::to_string(seq) + " " + name_of(world_, group, group.rank) +
            " called " + our_call + " but " + name_of(world_, group, other) + " called " +
            their_call;
    // Digests have no words.
    if (our_call == their_call)
      text += has_data(static_cast<Kind>(ours[0] & 0xff)) ? " of other sizes" : " of other ranks";
  } else {
    text += "the calls of " + name_of(world_, group, group.rank) + " and " +
            name_of(world_, group, other) + " before operation " + std::to_string(seq) + " " +
            engine::describe(ours) + " or their settings (" + std::string(base::kAgreedSettings) +
            ") differ";
  }
  text +=
      ". All ranks must call the same operations in the same order with the same dtype, count, "
      "root and reduce op; the group is broken, make a new one.";
  break_group(group, Status(Errc::disagreement, std::move(text)));
}

void Engine::local_peer_died(int local_index) noexcept {
  transport::RegionPeer& peer = world_.regions->peers[static_cast<std::size_t>(local_index)];
  // What it had published or sent whole still counts; a pass takes a part of a full ring, and
  // some 20 take the longest one.
  for (int pass = 0; pass < 64 && progress(); ++pass) {
  }
  // acquire: pairs with leaving; its last lines lie before it.
  peer.died = true;
  if (peer.header().left.load(std::memory_order_acquire) != 0) return;
  channel_.clear_control(peer.rank);  // nobody takes it any more
  guarded(nullptr, [&] { lost(peer.rank, Status(Errc::peer_lost, "its process died")); });
}

void Engine::on_lost(int peer, const Status& why) noexcept {
  channel_.connection_ended(peer);
  if (why.code() == Errc::peer_left) {
    channel_.set_left(peer);
    return;
  }
  guarded(nullptr, [&] { lost(peer, why); });
}

/// A new group may have members that are gone, or be broken by somebody who made it earlier.
void Engine::break_if_lost_already(Group& group) {
  const auto early = std::find_if(broken_early_.begin(), broken_early_.end(),
                                  [&](const auto& entry) { return entry.first == group.id; });
  if (early != broken_early_.end()) {
    Status cause = early->second;
    broken_early_.erase(early);
    if (cause.culprit().value_or(-1) >= group.size)
      cause = Status(cause.code(), std::string(cause.message()));
    break_group(group, cause);
    return;
  }
  for (int rank = 0; rank < group.size; ++rank) {
    if (!channel_.is_lost(group.member(rank).global)) continue;
    break_group(group, Status(Errc::peer_lost,
                              "group '" + group.name + "': " + name_of(world_, group, rank) +
                                  " was lost before the group was made; make one of "
                                  "the survivors.")
                           .with_culprit(rank));
    return;
  }
}

void Engine::lost(int peer, const Status& why) {
  if (!channel_.set_lost(peer)) return;
  std::vector<std::pair<Group*, Status>> concerned;
  for (const auto& [id, group] : by_id_) {
    if (!group->broken && rank_of(*group, peer) >= 0) concerned.emplace_back(group, Status());
  }
  for (auto& [group, cause] : concerned) {
    const int rank = rank_of(*group, peer);
    std::string text = group->matcher != nullptr ? group->matcher->running_text() : std::string();
    if (text.empty()) text = "group '" + group->name + "'";
    for (const Op& op : group->window) {
      if (op.state == Op::State::running) {
        text = op_text(op);
        break;
      }
    }
    Blame blame(std::move(text), 0, group->size,
                [&, in = group](int one) { return name_of(world_, *in, one); });
    // It was our memory that lacked for what goes to it.
    blame.lost(rank, why, why.code() == Errc::resource ? group->rank : rank);
    cause = claim(*group, blame.loss());
  }
  // Only now: a rank that hears of the first group may leave, and be missed in the next one.
  for (const auto& [group, cause] : concerned) spread(*group, cause);
}

}  // namespace tutti::engine
