#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/message_channel.hpp"

// Streams of operations: what is posted, framing, credit, and frames that come early.
namespace tutti::engine {

using transport::CreditFrame;
using transport::DataFrame;
using transport::decode;
using transport::FrameHeader;
using transport::FrameType;
using transport::type_of;

void MessageChannel::post_send(StreamState& state, int rank, Stream::Post post,
                               std::uint64_t bytes) {
  Stream& stream = state[rank];
  post.begin = stream.send_end();
  post.end = post.begin + bytes;
  stream.sends.push_back(post);
  pump(state, stream);
}

void MessageChannel::post_receive(StreamState& state, int rank, Stream::Post post,
                                  std::uint64_t bytes) {
  Stream& stream = state[rank];
  post.begin = stream.receive_end();
  post.end = post.begin + bytes;
  stream.receives.push_back(post);
}

bool MessageChannel::pump(StreamState& state) {
  bool moved = false;
  for (Stream& stream : state) {
    if (!stream.all_sent()) moved |= pump(state, stream);
  }
  if (state.is_open()) grant(state);
  return moved;
}

bool MessageChannel::pump(StreamState& state, Stream& stream) {
  const StreamCall& call = state.call();
  CreditAccount& pool = at(stream.peer).eager;
  bool moved = false;
  while (state.is_open() && !stream.all_sent()) {
    // If the peer is gone, no frame can be sent any more; Watchdog::check_left notices that.
    if (!can_send(stream.peer)) break;
    const Stream::Post& post = stream.sends[stream.send_at];
    if (post.data == nullptr && !may_bounce(stream.peer)) break;
    std::uint64_t room = stream.credit > stream.sent ? stream.credit - stream.sent : 0;
    const bool eager = room == 0;
    if (eager && stream.sent < windows_.stream && pool.room() >= kEagerLeast)
      room = std::min(windows_.stream - stream.sent, pool.room());
    // Whole elements: the receiver may have to place each on its own.
    const std::uint64_t most = std::min(room, std::uint64_t{transport::kMaxFramePayload});
    const std::uint64_t bytes =
        std::min(post.end - stream.sent, most / call.element * call.element);
    // The empty frame of a block without elements counts as well.
    if (post.end > stream.sent ? bytes == 0 : room == 0) {
      if (!stream.wanted &&
          stream.sent < windows_.stream) {  // else the receiver grants credit by itself
        stream.wanted = true;
        control(stream.peer, encode(transport::WantFrame{call.group, call.seq}));
      }
      break;
    }
    DataFrame data{call.group,  call.seq,  call.fingerprint,
                   stream.sent, call.code, static_cast<std::uint32_t>(bytes),
                   eager};
    if (call.splits) data.call[2] = stream.send_end() / call.element;
    const std::uint64_t inside = stream.sent - post.begin;
    OutFrame frame = post.data != nullptr
                         ? prepare(stream.peer, post.data + inside)
                         : prepare(stream.peer, post.elements, call.element, inside, bytes);
    stream.sent += bytes;
    if (eager) pool.send(eager_cost(bytes));
    if (stream.sent == post.end) ++stream.send_at;
    state.count_frame();
    send(stream.peer, encode(data), std::move(frame), &state, call.seq);
    moved = true;
  }
  return moved;
}

void MessageChannel::grant(StreamState& state) {
  if (state.deferred) return;
  for (Stream& stream : state) {
    const std::uint64_t end = stream.receive_end();
    if (end <= windows_.stream || end <= stream.granted) continue;
    stream.granted = end;
    control(stream.peer, encode(CreditFrame{state.call().group, state.call().seq, end}));
  }
}

bool MessageChannel::splits_differ(const StreamState& state, int rank,
                                   const DataFrame& data) noexcept {
  const Stream& stream = state[rank];
  if (!state.call().splits || stream.receives.empty()) return false;  // not posted yet
  return data.call[2] != stream.receive_end() / state.call().element;
}

std::span<std::byte> MessageChannel::place_in_stream(int peer, StreamState& state, int rank,
                                                     const DataFrame& data) {
  Stream& stream = state[rank];
  const bool usable = data.offset == stream.received && !state.deferred;
  const Stream::Post* const post = usable ? stream.post_for(data.offset, data.bytes) : nullptr;
  if (post == nullptr) {
    // A stream has no holes and repeats nothing, so its credit bounds the bytes that are held.
    if (data.offset != std::max(stream.received, stream.kept)) return {};
    // Beyond the eager bytes we have given credit only for receives that are posted, so a frame
    // that finds none is a violation.
    if (data.offset > windows_.stream || data.bytes > windows_.stream - data.offset) return {};
    return place_kept(peer);
  }
  std::span<std::byte> into;
  if (post->data != nullptr)
    into = {post->data + (data.offset - post->begin), std::max<std::size_t>(data.bytes, 1)};
  const std::span<std::byte> place = place_for(peer, state, into);
  at(peer).arriving.stream = &stream;
  return place;
}

void MessageChannel::stream_arrived(int peer, const FrameHeader& header) {
  const Peer& from = at(peer);
  const DataFrame data = decode<DataFrame>(header);
  // Only a stream's state is bound to data frames.
  auto* const state = static_cast<StreamState*>(take_owner(peer));
  if (state == nullptr || !state->is_open() || state->call().seq != data.seq) {
    consumed(peer, header);
    return;
  }
  Stream& stream = *from.arriving.stream;
  const Stream::Post* const post = stream.post_for(data.offset, data.bytes);
  const bool bounced = post != nullptr && post->data == nullptr;
  arrived_in(stream, data, state->call().element, bounced ? from.buffer.data() : nullptr);
}

void MessageChannel::arrived_in(Stream& stream, const DataFrame& data, std::size_t element,
                                const std::byte* bounced) {
  const Stream::Post* const post = stream.post_for(data.offset, data.bytes);
  if (post == nullptr) return;  // cannot be: place_in_stream looked
  stream.heard = true;
  if (bounced != nullptr && data.bytes > 0) {
    const std::uint64_t inside = data.offset - post->begin;
    if (post->data != nullptr)
      std::memcpy(post->data + inside, bounced, data.bytes);
    else
      post->elements.unpack(inside / element, data.bytes / element, bounced);
  }
  stream.received = data.offset + data.bytes;
  while (stream.receive_at < stream.receives.size() &&
         stream.receives[stream.receive_at].end <= stream.received) {
    ++stream.receive_at;
  }
  if (data.eager) take_eager(stream.peer, eager_cost(data.bytes));
}

bool MessageChannel::keep_in_stream(int peer, StreamState& state, int rank, const DataFrame& data) {
  keep(peer, at(peer).arriving.header);
  Stream& stream = state[rank];
  // If it follows frames that are held already, deliver_held need not look at them again.
  if (stream.kept <= stream.received || stream.kept != data.offset ||
      state.call().fingerprint != data.fingerprint)
    return true;
  stream.kept += data.bytes;
  return false;
}

std::optional<DataFrame> MessageChannel::deliver_held(StreamState& state, int rank) {
  const StreamCall& call = state.call();
  Stream& stream = state[rank];
  HeldFrames& held = at(stream.peer).held;
  bool waits = false;  // for a receive that is not posted yet; what follows must not overtake it
  for (auto it = held.begin(); it != held.end();) {
    if (!belongs_to(it->header, call.group, call.seq)) {
      ++it;
      continue;
    }
    if (type_of(it->header) == FrameType::credit) {
      stream.credit = std::max(stream.credit, decode<CreditFrame>(it->header).end);
      it = held.erase(it);
      continue;
    }
    if (type_of(it->header) == FrameType::want) {
      control(stream.peer, encode(CreditFrame{call.group, call.seq, windows_.stream}));
      it = held.erase(it);
      continue;
    }
    if (type_of(it->header) != FrameType::data) {  // a token: Agreement takes it
      ++it;
      continue;
    }
    const DataFrame data = decode<DataFrame>(it->header);
    if (data.fingerprint != call.fingerprint || splits_differ(state, rank, data)) return data;
    stream.compared = !call.splits || !stream.receives.empty();
    // Only a broken peer sends out of order; such a frame is held as if no receive were posted.
    if (waits || state.deferred || data.offset != stream.received ||
        stream.post_for(data.offset, data.bytes) == nullptr) {
      waits = true;
      stream.kept = std::max(stream.kept, data.offset + data.bytes);
      ++it;
      continue;
    }
    arrived_in(stream, data, call.element, it->data.data());
    buffers_.release(std::move(it->data));
    it = held.erase(it);
  }
  return std::nullopt;
}

}  // namespace tutti::engine
