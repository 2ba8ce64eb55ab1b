#include <algorithm>

#include "engine/engine.hpp"

// Passes each control frame to the part of the engine that it concerns.
namespace tutti::engine {

using transport::CreditFrame;
using transport::FrameHeader;
using transport::FrameType;

void Engine::on_control(int peer, const FrameHeader& header, std::span<const std::byte> payload) {
  Group* const group = groups_.find(header.group);
  switch (type_of(header)) {
    case FrameType::eager_credit: {
      channel_.eager_acknowledged(peer, decode<transport::EagerCreditFrame>(header));
      return;
    }
    case FrameType::credit: {
      if (group == nullptr) {
        if (!groups_.is_closed(header.group))
          channel_.keep_control(peer, header);  // the peer has made the group before us
        return;
      }
      const int rank = group->rank_of(peer);
      if (rank < 0) return;
      Op& op = group->window.at(header.seq);
      if (op.seq == header.seq && op.state == Op::State::running && op.streams.is_open()) {
        op.streams[rank].take_credit(decode<CreditFrame>(header).end);
      } else if (header.seq > group->window.started() && !group->broken) {
        channel_.keep_control(peer, header);
      }
      return;
    }
    case FrameType::want: {
      const int rank = group == nullptr ? -1 : group->rank_of(peer);
      if (group != nullptr && (rank < 0 || group->broken)) return;
      if (group != nullptr && group->window.at(header.seq).seq == header.seq) {
        channel_.control(peer, encode(CreditFrame{header.group, header.seq, kEagerPerStream}));
      } else if (group != nullptr ? header.seq > group->window.started()
                                  : !groups_.is_closed(header.group)) {
        channel_.keep_control(peer, header);
      }
      return;
    }
    case FrameType::abort: {
      if (group != nullptr ? group->rank_of(peer) < 0 : groups_.is_closed(header.group)) return;
      propagation_.on_abort(group, decode<transport::AbortFrame>(header), payload);
      return;
    }
    case FrameType::ping: {
      const int rank = group == nullptr || group->broken ? -1 : group->rank_of(peer);
      const auto ping = decode<transport::PingFrame>(header);
      if (rank >= 0) {
        Op& op = group->window.at(ping.seq);
        if (op.seq == ping.seq && op.seq > 0 && op.fingerprint != ping.fingerprint) {
          break_for(*group, agreement_.differs(op, rank, ping.call, ping.seq));
          return;
        }
      }
      if (rank >= 0 && ping.unreached_plus_1 > 0) return inquiry_.on_ping(*group, rank, ping);
      transport::PongFrame pong{ping.group};
      if (group != nullptr) {
        pong.last_seq = group->window.submitted();
        pong.passed = group->window.done_upto();
        pong.moved = moved_in(*group);
      }
      pong.given_up = groups_.is_closed(ping.group);
      pong.tells_doing = ping.asks_doing;
      std::string doing = ping.asks_doing ? running_text() : std::string();
      if (doing.size() > transport::kMostDoing) doing.resize(transport::kMostDoing);
      channel_.control(peer, encode(pong), std::move(doing));
      return;
    }
    case FrameType::pong: {
      const auto pong = decode<transport::PongFrame>(header);
      const int rank = group == nullptr ? -1 : group->rank_of(peer);
      if (rank < 0) return;
      if (pong.reaches_plus_1 > 0) {
        if (const auto loss = inquiry_.on_reached(*group, rank, pong)) report_loss(*loss);
        return;
      }
      inquiry_.on_pong(*group, rank);
      // Frames come in order, so all its frames of this group have come before.
      if (pong.given_up) group->members[static_cast<std::size_t>(rank)].given_up = true;
      detector_.on_pong(*group, rank, pong, payload);
      return;
    }
    case FrameType::token: {
      const int rank = group == nullptr ? -1 : group->rank_of(peer);
      if (group != nullptr && (rank < 0 || group->broken)) return;
      if (group != nullptr && header.seq <= group->window.started()) {
        Op& op = group->window.at(header.seq);
        if (op.seq == header.seq && op.state == Op::State::running)
          break_for(*group, agreement_.on_token(op, rank, decode<transport::TokenFrame>(header)));
      } else if (group != nullptr || !groups_.is_closed(header.group)) {
        channel_.keep_control(peer, header);
      }
      return;
    }
    case FrameType::history: {
      const int rank = group == nullptr || group->broken ? -1 : group->rank_of(peer);
      const auto history = decode<transport::HistoryFrame>(header);
      if (rank >= 0) break_for(*group, agreement_.on_history(*group, rank, history.seq, payload));
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

}  // namespace tutti::engine
