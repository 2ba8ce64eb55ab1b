#include "engine/agreement.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include <tutti/backend/kinds.hpp>

#include "base/agreed_settings.hpp"
#include "base/element_unit.hpp"
#include "base/index.hpp"
#include "engine/detector_times.hpp"
#include "engine/names.hpp"

// docs/design/fingerprint.md says which comparison happens when. The interpreter compares blocks
// that come directly from many ranks (Interpreter::release_deferred).
namespace tutti::engine {

namespace shm = transport::shm;
using transport::FrameType;
using transport::TokenFrame;

namespace {

/// The window keeps the calls of the last kWindow that have begun.
std::uint64_t oldest_kept(const Group& group) noexcept {
  return group.window.started() > shm::kWindow ? group.window.started() - shm::kWindow + 1 : 1;
}

/// One of the last calls, as it stands in the payload of a history.
struct PastCall {
  std::uint64_t seq = 0;
  call::CallCode code{};
};
constexpr std::size_t kPastBytes = 32;
static_assert(sizeof(call::CallCode) + sizeof(std::uint64_t) == kPastBytes);

}  // namespace

Agreement::Cause Agreement::begin(Op& op) {
  Group& group = *op.group;
  op.agreement.token_round = 0;
  op.agreement.token_sent = false;
  op.agreement.tokens = 0;
  for (int rank = 0; rank < group.size; ++rank) {
    if (rank == group.rank) continue;
    const auto token =
        channel_.held(group.member(rank).global).take(FrameType::token, group.id, op.seq);
    if (!token) continue;
    if (Cause cause = on_token(op, rank, transport::decode<TokenFrame>(*token))) return cause;
    if (op.state != Op::State::running || op.agreement.disagreeing_rank >= 0) break;
  }
  return std::nullopt;
}

Agreement::Cause Agreement::on_token(Op& op, int rank, const TokenFrame& token) {
  if (token.fingerprint != op.fingerprint) return differs(op, rank, token.call, token.seq);
  if (token.round < static_cast<std::uint64_t>(AgreementState::rounds_of(op.group->size)))
    op.agreement.tokens |= std::uint32_t{1} << token.round;
  return std::nullopt;
}

bool Agreement::advance(Op& op) {
  Group& group = *op.group;
  bool moved = false;
  while (!op.agreement.has_all_tokens(group.size)) {
    if (!op.agreement.token_sent) {
      const int to = op.agreement.token_to(group.rank, group.size);
      op.agreement.token_sent = true;
      channel_.control(
          base::at(group.members, to).global,
          encode(TokenFrame{group.id, op.seq, op.fingerprint,
                            static_cast<std::uint64_t>(op.agreement.token_round), op.plan->code}));
      moved = true;
      if (op.state != Op::State::running) return true;
    }
    if ((op.agreement.tokens >> op.agreement.token_round & 1) == 0) return moved;
    ++op.agreement.token_round;
    op.agreement.token_sent = false;
    moved = true;
  }
  return moved;
}

bool Agreement::ask_history(Op& op, int rank) {
  Group& group = *op.group;
  const int peer = group.member(rank).global;
  if (!channel_.is_open(peer)) return false;
  op.agreement.disagreeing_rank = rank;
  op.timer.history_until = world_.now() + kHistoryTime;
  std::string payload;
  for (std::uint64_t seq = oldest_kept(group); seq <= op.seq; ++seq) {
    const call::CallCode call = shm::recorded_call(group.block->call(seq));
    payload.append(reinterpret_cast<const char*>(&seq), sizeof(seq));
    payload.append(reinterpret_cast<const char*>(call.data()), sizeof(call));
  }
  channel_.control(peer, encode(transport::HistoryFrame{group.id, op.seq}), std::move(payload));
  return true;
}

Agreement::Cause Agreement::check_history(const Op& op, TimePoint now) const {
  const Group& group = *op.group;
  const bool left = channel_.has_left(group.member(op.agreement.disagreeing_rank).global);
  if (now < op.timer.history_until && now < op.timer.deadline && !left) return std::nullopt;
  return cause_of(group, op.agreement.disagreeing_rank, nullptr, op.seq);
}

Agreement::Cause Agreement::on_history(Group& group, int rank, std::uint64_t seq,
                                       std::span<const std::byte> payload) const {
  if (payload.size() > kPastBytes * shm::kWindow || payload.size() % kPastBytes != 0)
    return std::nullopt;
  for (std::size_t at = 0; at < payload.size(); at += kPastBytes) {
    PastCall past;
    std::memcpy(&past.seq, payload.data() + at, sizeof(past.seq));
    std::memcpy(past.code.data(), payload.data() + at + sizeof(past.seq), sizeof(past.code));
    if (past.seq > group.window.started() || past.seq + shm::kWindow <= group.window.started() ||
        past.seq == 0)
      continue;
    if (past.code == shm::recorded_call(group.block->call(past.seq))) continue;
    return cause_of(group, rank, &past.code, past.seq);
  }
  // An older call differs, which nobody remembers any more.
  return cause_of(group, rank, nullptr,
                  std::min(std::max(seq, oldest_kept(group)), group.window.started()));
}

Agreement::Cause Agreement::first_difference(const Group& group, int other,
                                             std::uint64_t end) const {
  const shm::GroupBlock& theirs = *group.member(other).block;
  for (std::uint64_t seq = end - std::min<std::uint64_t>(end - 1, shm::kLines); seq < end; ++seq) {
    if (!shm::has_come(theirs.line(seq), seq)) continue;
    const call::CallCode code = shm::recorded_call(theirs.call(seq));
    if (code == shm::recorded_call(group.block->call(seq))) continue;
    const call::CallCode agreed = call::agreed_part(code);
    return cause_of(group, other, &agreed, seq);
  }
  return std::nullopt;
}

Outcome Agreement::differs_behind(const Group& group, int other) const {
  const std::uint64_t started = group.window.started();
  return first_difference(group, other, started + 1)
      .value_or(cause_of(group, other, nullptr, started));
}

Agreement::Cause Agreement::differs_in_lines(Op& op, int other) {
  Group& group = *op.group;
  if (op.agreement.disagreeing_rank >= 0) return std::nullopt;  // see check_history
  if (Cause cause = first_difference(group, other, op.seq + 1)) return cause;
  if (op.state == Op::State::running && ask_history(op, other)) return std::nullopt;
  return cause_of(group, other, nullptr, op.seq);
}

Agreement::Cause Agreement::differs(Op& op, int other, const call::CallCode& theirs,
                                    std::uint64_t seq) {
  if (op.agreement.disagreeing_rank >= 0) return std::nullopt;  // see check_history
  Group& group = *op.group;
  Member& member = group.member(other);
  const call::CallCode agreed = call::agreed_part(theirs);
  if (agreed == op.plan->code && seq == op.seq) {
    // This call is equal, so an earlier one differs.
    if (member.local >= 0 && (member.block != nullptr || find_block(group, member)))
      return differs_in_lines(op, other);
    if (op.state == Op::State::running && ask_history(op, other)) return std::nullopt;
  }
  return cause_of(group, other, &agreed, seq);
}

/// Sizes between a pair of ranks are compared where the bytes meet.
Outcome Agreement::splits_differ(const Op& op, int rank, const transport::DataFrame& data) const {
  const Group& group = *op.group;
  const std::uint64_t expected = op.streams[rank].receive_end() / op.plan->binding.element;
  const base::ElementUnit unit = base::unit_of(op.call.output, expected, data.call[2]);
  return Outcome(Errc::disagreement,
                 "ranks disagree in " + op_text(op) + ": " + name_of(world_, group, rank) +
                     " sends " + std::to_string(data.call[2] / unit.size) + " " +
                     std::string(unit.name) + " to " + name_of(world_, group, group.rank) +
                     ", which expects " + std::to_string(expected / unit.size) +
                     ". A rank must send another what that one expects from it; the "
                     "group is broken, make a new one.");
}

Agreement::Cause Agreement::compare_both_ways(Op& op) {
  Group& group = *op.group;
  for (const int rank : group.local_members) {
    Member& member = group.member(rank);
    if (member.block == nullptr && !find_block(group, member)) continue;
    const shm::Arrival& line = member.block->line(op.seq);
    if (!shm::has_come(line, op.seq)) continue;
    if (line.fingerprint != op.fingerprint) return differs_in_lines(op, rank);
  }
  if (op.plan->schedule->messages) return std::nullopt;  // frames are compared as they are used
  for (int rank = 0; rank < group.size; ++rank) {
    HeldFrames& held = channel_.held(group.member(rank).global);
    const auto found = held.find(FrameType::data, group.id, op.seq);
    if (found == held.end()) continue;
    const call::CallCode theirs = transport::decode<transport::DataFrame>(found->header).call;
    return differs(op, rank, theirs, op.seq);
  }
  return std::nullopt;
}

bool Agreement::next_call_differs(const Op& op, int rank) {
  HeldFrames& held = channel_.held(op.group->member(rank).global);
  const auto found = held.find(FrameType::data, op.group->id, op.seq + 1);
  if (found == held.end()) return false;
  const auto data = transport::decode<transport::DataFrame>(found->header);
  return data.fingerprint != call::chain(op.fingerprint, call::agreed_part(data.call));
}

/// Makes the cause. `theirs`: the call of the other rank with number `seq`. nullptr: an earlier
/// call differs, and it is not known which.
Outcome Agreement::cause_of(const Group& group, int other, const call::CallCode* theirs,
                            std::uint64_t seq) const {
  const call::CallCode ours = shm::recorded_call(group.block->call(seq));
  const std::string us = name_of(world_, group, group.rank);
  const std::string them = name_of(world_, group, other);
  if (theirs != nullptr && *theirs != ours) {
    return call::ranks_disagree(group.name, call::difference(seq, ours, us, call::describe(ours),
                                                             them, call::describe(*theirs)));
  }
  return call::ranks_disagree(group.name, "the calls of " + us + " and " + them +
                                              " before operation " + std::to_string(seq) + " " +
                                              call::describe(ours) + " or their settings (" +
                                              std::string(base::kAgreedSettings) + ") differ");
}

}  // namespace tutti::engine
