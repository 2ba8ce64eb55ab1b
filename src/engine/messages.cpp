#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/engine.hpp"
#include "engine/member_at.hpp"
#include "engine/names.hpp"
#include "engine/p2p_matcher.hpp"
#include "transport/shm/layout.hpp"

// Messages of operations: posts, credit, matching, frames that come early. docs/wire.md tells the
// rules.
namespace tutti::engine {

using plan::Space;
using plan::Step;
using transport::CreditFrame;
using transport::DataFrame;
using transport::FrameHeader;
using transport::FrameType;
using transport::type_of;

namespace {

constexpr std::size_t kControlQueue = 4096;
// A larger frame that is held keeps the buffer into which it came; a smaller one is copied.
constexpr std::size_t kCopied = std::size_t{16} * 1024;
// What may be held of one peer, in bytes of memory with the bookkeeping of each frame: so much at
// any time, and so much more for each operation with messages that runs here. Who keeps to the
// rules stays below, whatever the sizes of its frames: what comes unasked takes at most 9 times
// what it counts, of an operation that we have not begun there are three control frames at most
// (want, credit, token) from each of those that the peer has under way, and of one that runs here
// no more is held than comes without credit for its receives.
constexpr std::size_t kMostHeld = std::size_t{16} << 20;
constexpr std::size_t kMostHeldOfEach = std::size_t{1} << 20;
constexpr std::size_t kMostPerByte = 9;
static_assert(HeldFrames::kBookkeeping + FrameBuffers::size_for(1) <= kMostPerByte * kEagerLeast);
constexpr bool takes_at_most(std::size_t per_byte) {
  for (std::size_t i = 1; i < FrameBuffers::kSizes.size(); ++i) {
    const std::size_t least = FrameBuffers::kSizes[i - 1] + 1;  // that get a buffer of this size
    if (HeldFrames::kBookkeeping + FrameBuffers::kSizes[i] > per_byte * least) return false;
  }
  return true;
}
static_assert(takes_at_most(kMostPerByte));
static_assert(kMostPerByte * kEagerPerPeer + std::size_t{3} * transport::shm::kWindow *
                                                 transport::shm::kMaxGroups *
                                                 HeldFrames::kBookkeeping <=
              kMostHeld);
static_assert(kMostPerByte * kEagerPerStream <= kMostHeldOfEach);
// Control frames of one operation come soon after each other.
constexpr std::size_t kLookBack = 64;

int peer_of(const Step& step, const Op& op) noexcept {
  return member_at({step.peer, 1, 1}, 0, op.group->size, op);
}

/// Frames without payload that are held where the operation has not begun yet.
bool is_held_early(const FrameHeader& header) noexcept {
  const FrameType type = type_of(header);
  return type == FrameType::want || type == FrameType::credit || type == FrameType::token;
}

}  // namespace

void Engine::post_send(Op& op, const Step& step) {
  const plan::Range range = plan::range_of(step.src, op.plan->binding, op.var[0], op.var[1]);
  if (range.count == 0 && !op.plan->splits) return;
  const int rank = peer_of(step, op);
  Stream& stream = op.streams[static_cast<std::size_t>(rank)];
  const std::uint64_t begin = stream.send_end();
  Stream::Post post = post_of(op, step.src, range);
  post.begin = begin;
  post.end = begin + range.count * op.plan->binding.element;
  stream.sends.push_back(post);
  pump(op, rank);
}

void Engine::post_receive(Op& op, const Step& step) {
  const plan::Range range = plan::range_of(step.dst, op.plan->binding, op.var[0], op.var[1]);
  const int rank = peer_of(step, op);
  Stream& stream = op.streams[static_cast<std::size_t>(rank)];
  const std::uint64_t begin = stream.receive_end();
  Stream::Post post = post_of(op, step.dst, range);
  post.begin = begin;
  post.end = begin + range.count * op.plan->binding.element;
  stream.receives.push_back(post);  // an empty one too: await_recv counts them
  if (range.count > 0 || op.plan->splits) deliver_held(op, rank);
}

/// Where the bytes of a message lie: in a row, or in a view with strides.
Stream::Post Engine::post_of(Op& op, const plan::Operand& operand,
                             const plan::Range& range) const noexcept {
  Stream::Post post;
  if (range.count == 0) return post;
  if (strided(op, operand, range))
    post.elements = own(op, operand, range);
  else
    post.data = place(op, operand, op.group->rank, range);
  return post;
}

bool Engine::await_receives(Op& op, const Step& step) noexcept {
  for (; op.sub < step.ranks.count; ++op.sub) {
    const int rank = member_at(step.ranks, op.sub, op.group->size, op);
    if (rank == op.group->rank) continue;
    const Stream& stream = op.streams[static_cast<std::size_t>(rank)];
    const auto missing = static_cast<std::size_t>(step.value.at(op.var[0], op.var[1]));
    const std::size_t posts = stream.receives.size();
    if (op.plan->splits && !stream.heard) return false;
    if (posts > missing && stream.received < stream.receives[posts - 1 - missing].end) return false;
  }
  op.sub = 0;
  return true;
}

bool Engine::pump_all(Op& op) {
  bool moved = false;
  for (int rank = 0; rank < op.group->size; ++rank) {
    const Stream& stream = op.streams[static_cast<std::size_t>(rank)];
    if (stream.send_at < stream.sends.size()) moved |= pump(op, rank);
  }
  if (op.state == Op::State::running) grant(op);
  return moved;
}

bool Engine::pump(Op& op, int rank) {
  Stream& stream = op.streams[static_cast<std::size_t>(rank)];
  const int global = op.group->members[static_cast<std::size_t>(rank)].global;
  Peer& peer = peers_[static_cast<std::size_t>(global)];
  transport::Transport* const transport = world_.route[static_cast<std::size_t>(global)];
  const std::size_t element = op.plan->binding.element;
  bool moved = false;
  while (stream.send_at < stream.sends.size()) {
    if (peer.lost || peer.left) break;  // what cannot be sent any more is found by check_left
    if (!peer.control.empty() && !flush_control(global)) break;
    if (!transport->can_send(global)) break;
    const Stream::Post& post = stream.sends[stream.send_at];
    if (post.data == nullptr && !may_bounce(peer)) break;
    std::uint64_t room = stream.credit > stream.sent ? stream.credit - stream.sent : 0;
    const bool eager = room == 0;
    if (eager) {
      if (stream.sent < kEagerPerStream && peer.eager.room() >= kEagerLeast)
        room = std::min(kEagerPerStream - stream.sent, peer.eager.room());
    }
    // Whole elements: the receiver may have to place each on its own.
    const std::uint64_t most = std::min(room, std::uint64_t{transport::kMaxFramePayload});
    const std::uint64_t bytes = std::min(post.end - stream.sent, most / element * element);
    // The empty frame of a block without elements counts as well.
    if (post.end > stream.sent ? bytes == 0 : room == 0) {
      if (!stream.wanted && stream.sent < kEagerPerStream) {  // else credit comes unasked
        stream.wanted = true;
        control(global, encode(transport::WantFrame{op.group->id, op.seq}));
      }
      break;
    }
    DataFrame data{op.group->id, op.seq,        op.fingerprint,
                   stream.sent,  op.plan->code, static_cast<std::uint32_t>(bytes),
                   eager};
    if (op.plan->splits) data.call[2] = stream.send_end() / element;
    OutFrame frame;
    peer.out.make_room();  // before anything is counted
    frame.token = ++peer.token;
    frame.op = &op;
    frame.seq = op.seq;
    const std::uint64_t inside = stream.sent - post.begin;
    const std::byte* payload = post.data == nullptr ? nullptr : post.data + inside;
    if (post.data == nullptr && bytes > 0) {
      std::byte* const copy = bounce(peer, frame, bytes);
      post.elements.pack(copy, inside / element, bytes / element);
      payload = copy;
    }
    stream.sent += bytes;
    if (eager) peer.eager.send(eager_cost(bytes));
    if (stream.sent == post.end) ++stream.send_at;
    ++op.frames_out;
    peer.out.push_back(std::move(frame));
    transport->send(global, encode(data), payload, peer.token);
    moved = true;
    if (op.state != Op::State::running) break;  // the transport found the peer lost
  }
  return moved;
}

bool Engine::may_bounce(const Peer& peer) const noexcept {
  return peer.bounces == 0 || (peer.bounces < kMostBounces && bounced_ < kMostBounced);
}

std::byte* Engine::bounce(Peer& peer, OutFrame& frame, std::size_t bytes) {
  frame.bounce = buffers_.take(bytes);
  frame.bounced = true;
  ++peer.bounces;
  bounced_ += frame.bounce.size();
  return frame.bounce.data();
}

void Engine::grant(Op& op) {
  if (op.defers_output) return;
  for (int rank = 0; rank < op.group->size; ++rank) {
    Stream& stream = op.streams[static_cast<std::size_t>(rank)];
    const std::uint64_t end = stream.receive_end();
    if (end <= kEagerPerStream || end <= stream.granted) continue;
    stream.granted = end;
    control(op.group->members[static_cast<std::size_t>(rank)].global,
            encode(CreditFrame{op.group->id, op.seq, end}));
  }
}

Stream::Post* Engine::post_for(Stream& stream, const DataFrame& data) noexcept {
  // An empty frame stands for a block without elements.
  if (data.bytes == 0) {
    return !stream.receives.empty() && stream.receive_end() == 0 ? &stream.receives.front()
                                                                 : nullptr;
  }
  for (std::size_t i = stream.receive_at; i < stream.receives.size(); ++i) {
    Stream::Post& post = stream.receives[i];
    if (data.offset >= post.begin && data.offset < post.end)
      return data.offset + data.bytes <= post.end ? &post : nullptr;
  }
  return nullptr;
}

/// What a pair of ranks exchanges is compared where the bytes meet (decisions A2).
bool Engine::splits_differ(Op& op, int rank, const DataFrame& data) {
  if (!op.plan->splits) return false;
  const Stream& stream = op.streams[static_cast<std::size_t>(rank)];
  if (stream.receives.empty()) return false;  // not posted yet
  const std::uint64_t expected = stream.receive_end() / op.plan->binding.element;
  if (data.call[2] == expected) return false;
  Group& group = *op.group;
  break_group(group,
              Status(Errc::disagreement,
                     "ranks disagree in " + op_text(op) + ": " + name_of(world_, group, rank) +
                         " sends " + std::to_string(data.call[2]) + " elements to " +
                         name_of(world_, group, group.rank) + ", which expects " +
                         std::to_string(expected) +
                         ". What a rank sends another must be what that one expects from it; the "
                         "group is broken, make a new one."));
  return true;
}

void Engine::arrived(Op& op, int rank, const DataFrame& data, const std::byte* bounced) {
  Stream& stream = op.streams[static_cast<std::size_t>(rank)];
  Stream::Post* const post = post_for(stream, data);
  if (post == nullptr) return;  // cannot be: on_header looked
  stream.heard = true;
  if (bounced != nullptr && data.bytes > 0) {
    const std::uint64_t inside = data.offset - post->begin;
    if (post->data != nullptr) {
      std::memcpy(post->data + inside, bounced, data.bytes);
    } else {
      const std::size_t element = op.plan->binding.element;
      post->elements.unpack(inside / element, data.bytes / element, bounced);
    }
  }
  stream.received = data.offset + data.bytes;
  while (stream.receive_at < stream.receives.size() &&
         stream.receives[stream.receive_at].end <= stream.received) {
    ++stream.receive_at;
  }
  took(op.group->members[static_cast<std::size_t>(rank)].global, data);
}

/// A frame is used or dropped: what its sender sent before credit counts no longer.
void Engine::took(int global, const DataFrame& data) noexcept {
  if (!data.eager) return;
  Peer& peer = peers_[static_cast<std::size_t>(global)];
  peer.eager.take(eager_cost(data.bytes));
  if (!peer.eager.report_due()) return;
  try {
    control(global, encode(transport::EagerCreditFrame{peer.eager.taken()}));
    peer.eager.reported();
  } catch (const std::bad_alloc&) {  // the next report says it
  }
}

void Engine::drop_held(const Group& group) noexcept {
  for (std::size_t p = 0; p < peers_.size(); ++p) {
    peers_[p].held.erase_if([&](HeldFrames::Frame& held) {
      if (held.header.group != group.id) return false;
      if (type_of(held.header) == FrameType::data)
        took(static_cast<int>(p), decode<DataFrame>(held.header));
      buffers_.give(std::move(held.data));
      return true;
    });
  }
}

void Engine::hold_control(int peer, const FrameHeader& header) {
  HeldFrames& all = peers_[static_cast<std::size_t>(peer)].held;
  for (std::size_t back = 1; back <= std::min(all.size(), kLookBack); ++back) {
    HeldFrames::Frame& held = all[all.size() - back];
    if (!belongs_to(held.header, header.group, header.seq) || held.header.type != header.type)
      continue;
    if (type_of(header) == FrameType::credit) {  // the greater one says it all
      CreditFrame credit = decode<CreditFrame>(held.header);
      credit.end = std::max(credit.end, decode<CreditFrame>(header).end);
      held.header = encode(credit);
    }
    return;
  }
  all.push(header, {});
}

/// Is there room for one more, should it have to be held?
bool Engine::may_hold(const Peer& from, const FrameHeader& header) const noexcept {
  const std::size_t most = kMostHeld + static_cast<std::size_t>(message_ops_) * kMostHeldOfEach;
  return from.held.memory() + HeldFrames::memory_of(header) <= most;
}

bool Engine::is_closed(std::uint64_t id) const noexcept {
  return std::find(closed_ids_.begin(), closed_ids_.end(), id) != closed_ids_.end();
}

void Engine::deliver_held(Op& op, int rank) {
  const int global = op.group->members[static_cast<std::size_t>(rank)].global;
  Peer& peer = peers_[static_cast<std::size_t>(global)];
  Stream& stream = op.streams[static_cast<std::size_t>(rank)];
  bool waits = false;  // for a receive that is not posted yet; what follows must not overtake it
  for (auto it = peer.held.begin(); it != peer.held.end();) {
    if (!belongs_to(it->header, op.group->id, op.seq)) {
      ++it;
      continue;
    }
    if (type_of(it->header) == FrameType::credit) {
      stream.credit = std::max(stream.credit, decode<CreditFrame>(it->header).end);
      it = peer.held.erase(it);
      continue;
    }
    if (type_of(it->header) == FrameType::want) {
      control(global, encode(CreditFrame{op.group->id, op.seq, kEagerPerStream}));
      it = peer.held.erase(it);
      continue;
    }
    if (type_of(it->header) != FrameType::data) {  // a token, which begin_agreement takes
      ++it;
      continue;
    }
    const DataFrame data = decode<DataFrame>(it->header);
    if (data.fingerprint != op.fingerprint) {
      disagreement(op, rank, &data.call, data.seq);
      return;
    }
    if (splits_differ(op, rank, data)) return;
    stream.compared = !op.plan->splits || !stream.receives.empty();
    // Out of order it may come from a broken peer only: as if not posted.
    if (waits || op.defers_output || data.offset != stream.received ||
        post_for(stream, data) == nullptr) {
      waits = true;
      stream.kept = std::max(stream.kept, data.offset + data.bytes);
      ++it;
      continue;
    }
    arrived(op, rank, data, it->data.data());
    buffers_.give(std::move(it->data));
    it = peer.held.erase(it);
  }
}

void Engine::control(int peer, const FrameHeader& header, std::string payload) {
  Peer& to = peers_[static_cast<std::size_t>(peer)];
  if (to.lost || to.left || world_.route[static_cast<std::size_t>(peer)] == nullptr) return;
  if (to.control.size() >= kControlQueue)
    return;  // a peer that takes nothing for so long is blamed elsewhere
  push_control(peer, {header, std::move(payload)});
  to.control.back().header.payload_bytes =
      static_cast<std::uint32_t>(to.control.back().payload.size());
  flush_control(peer);
}

void Engine::push_control(int peer, Control frame) {
  Peer& to = peers_[static_cast<std::size_t>(peer)];
  if (!std::exchange(to.in_unflushed, true)) unflushed_.push_back(peer);
  to.control.push_back(std::move(frame));
}

/// A pass costs what there is to send, however large the world is.
bool Engine::flush_all_control() {
  bool moved = false;
  // By index: a transport that finds a peer lost makes frames for others.
  for (std::size_t i = 0; i < unflushed_.size();) {
    const int peer = unflushed_[i];
    Peer& to = peers_[static_cast<std::size_t>(peer)];
    if (!to.control.empty()) moved |= flush_control(peer);
    if (!to.control.empty()) {
      ++i;
      continue;
    }
    to.in_unflushed = false;
    unflushed_[i] = unflushed_.back();
    unflushed_.pop_back();
  }
  return moved;
}

bool Engine::flush_control(int peer) {
  Peer& to = peers_[static_cast<std::size_t>(peer)];
  transport::Transport* const transport = world_.route[static_cast<std::size_t>(peer)];
  bool moved = false;
  while (!to.control.empty() && transport->can_send(peer)) {
    const Control& frame = to.control.front();
    to.out.make_room();
    OutFrame out;
    const auto* text = reinterpret_cast<const std::byte*>(frame.payload.data());
    if (!frame.payload.empty()) out.bounce.assign(text, text + frame.payload.size());
    out.token = ++to.token;
    to.out.push_back(std::move(out));
    const FrameHeader header = frame.header;
    to.control.pop_front();
    // The bytes stay where they are when the frame moves within the queue.
    transport->send(peer, header, to.out.back().bounce.data(), to.token);
    moved = true;
    if (to.lost) break;
  }
  return moved || to.control.empty();
}

bool Engine::has_unsent() const noexcept {
  return std::any_of(peers_.begin(), peers_.end(),
                     [](const Peer& peer) { return !peer.control.empty() || !peer.out.empty(); });
}

Group* Engine::group_of(std::uint64_t id) noexcept {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : found->second;
}

int Engine::rank_of(const Group& group, int global) noexcept {
  for (int r = 0; r < group.size; ++r) {
    if (group.members[static_cast<std::size_t>(r)].global == global) return r;
  }
  return -1;
}

std::span<std::byte> Engine::on_header(int peer, const FrameHeader& header) noexcept {
  Peer& from = peers_[static_cast<std::size_t>(peer)];
  from.arriving = header;
  from.into = nullptr;
  from.keep = false;
  from.drop = false;
  try {
    return place_of_frame(peer, header);
  } catch (const std::bad_alloc&) {  // it is read all the same: its sender has done nothing wrong
    from.into = nullptr;
    from.into_matcher = nullptr;
    from.keep = false;
    from.drop = true;
    break_for_memory(nullptr);
    return {dropped_.get(), std::max<std::size_t>(header.payload_bytes, 1)};
  }
}

std::span<std::byte> Engine::place_of_frame(int peer, const FrameHeader& header) {
  Peer& from = peers_[static_cast<std::size_t>(peer)];
  if (header.payload_bytes > transport::kMaxFramePayload) return {};
  const auto into_buffer = [&]() -> std::span<std::byte> {
    const std::size_t bytes = std::max<std::size_t>(header.payload_bytes, 1);
    if (from.buffer.size() < bytes) buffers_.give(std::exchange(from.buffer, buffers_.take(bytes)));
    return {from.buffer.data(), bytes};
  };
  if (transport::is_p2p(header)) {
    std::span<std::byte> into;
    if (!expects_p2p(peer, header, into)) return {};
    return into.empty() ? into_buffer() : into;
  }
  if (type_of(header) != FrameType::data)
    return !is_held_early(header) || may_hold(from, header) ? into_buffer()
                                                            : std::span<std::byte>();
  const DataFrame data = decode<DataFrame>(header);
  Group* const group = group_of(data.group);
  if (data.eager && !from.eager.receive(eager_cost(data.bytes))) return {};
  if (group == nullptr) {
    from.keep = !is_closed(data.group);
  } else if (const int rank = rank_of(*group, peer); rank < 0) {
    return {};
  } else if (!group->broken) {
    Op& op = group->op_at(data.seq);
    if (data.seq > group->started) {
      from.keep = true;
    } else if (op.seq == data.seq && op.fingerprint != data.fingerprint) {
      disagreement(op, rank, &data.call, data.seq);
    } else if (op.seq == data.seq && op.state == Op::State::running && !op.streams.empty() &&
               op.disagreeing_rank < 0) {
      if (splits_differ(op, rank, data)) return into_buffer();
      Stream& stream = op.streams[static_cast<std::size_t>(rank)];
      const bool usable = data.offset == stream.received && !op.defers_output;
      Stream::Post* const post = usable ? post_for(stream, data) : nullptr;
      if (post != nullptr) {
        from.into = &op;
        if (post->data != nullptr) {
          return {post->data + (data.offset - post->begin), std::max<std::size_t>(data.bytes, 1)};
        }
      } else {
        from.keep = true;
        // A stream has no holes and repeats nothing, so what is held of it is bounded by its
        // credit.
        if (data.offset != std::max(stream.received, stream.kept)) return {};
        // Beyond what may come before it has a receive, credit was given for receives that are
        // posted: nothing of it has to wait.
        if (data.offset > kEagerPerStream || data.bytes > kEagerPerStream - data.offset) return {};
      }
    }
  }
  // Before we have begun an operation nobody has credit for it: only eager data is held.
  const bool early = group == nullptr || data.seq > group->started;
  if (from.keep && ((early && !data.eager) || !may_hold(from, header))) return {};
  return into_buffer();
}

void Engine::hold(Peer& from, const FrameHeader& header) {
  std::vector<std::byte> data;
  // What it takes is counted by size_for (HeldFrames::memory_of).
  if (header.payload_bytes > kCopied &&
      from.buffer.size() == FrameBuffers::size_for(header.payload_bytes)) {
    data = std::exchange(from.buffer, {});
  } else if (header.payload_bytes > 0) {
    data = buffers_.take(header.payload_bytes);
    std::memcpy(data.data(), from.buffer.data(), header.payload_bytes);
  }
  from.held.push(header, std::move(data));
}

void Engine::on_frame(int peer, const FrameHeader& header) noexcept {
  Peer& from = peers_[static_cast<std::size_t>(peer)];
  if (from.drop) {
    if (type_of(header) == FrameType::data) took(peer, decode<DataFrame>(header));
    return;
  }
  guarded(nullptr, [&] { take_frame(peer, header); });
}

void Engine::take_frame(int peer, const FrameHeader& header) {
  Peer& from = peers_[static_cast<std::size_t>(peer)];
  if (transport::is_p2p(header)) {
    on_p2p_frame(peer, header);
    return;
  }
  if (type_of(header) != FrameType::data) {
    on_control(peer, header, {from.buffer.data(), header.payload_bytes});
    return;
  }
  const DataFrame data = decode<DataFrame>(header);
  if (from.keep) {
    // Between its head and its end the operation may have begun, or the receive been posted, or the
    // group been made (without this peer), or broken.
    Group* const group = group_of(data.group);
    const int rank = group == nullptr ? -1 : rank_of(*group, peer);
    if (group == nullptr ? is_closed(data.group)
                         : rank < 0 || group->broken.load(std::memory_order_relaxed)) {
      took(peer, data);
      return;
    }
    hold(from, header);
    if (group == nullptr) return;
    Op& op = group->op_at(data.seq);
    if (op.seq == data.seq && op.state == Op::State::running && !op.streams.empty()) {
      Stream& stream = op.streams[static_cast<std::size_t>(rank)];
      // Behind others that wait: it waits with them, and none of them is looked at again.
      if (stream.kept > stream.received && stream.kept == data.offset &&
          op.fingerprint == data.fingerprint)
        stream.kept += data.bytes;
      else
        deliver_held(op, rank);
    }
    return;
  }
  Op* const op = std::exchange(from.into, nullptr);
  if (op == nullptr || op->seq != data.seq || op->state != Op::State::running) {
    took(peer, data);
    return;
  }
  const int rank = rank_of(*op->group, peer);
  const Stream::Post* const post = post_for(op->streams[static_cast<std::size_t>(rank)], data);
  const bool bounced = post != nullptr && post->data == nullptr;
  arrived(*op, rank, data, bounced ? from.buffer.data() : nullptr);
}

void Engine::on_sent(int peer, std::uint64_t token) noexcept {
  Peer& to = peers_[static_cast<std::size_t>(peer)];
  while (!to.out.empty() && to.out.front().token <= token) {
    OutFrame& frame = to.out.front();
    if (frame.op != nullptr && frame.op->seq == frame.seq && frame.op->frames_out > 0) {
      --frame.op->frames_out;
    }
    if (frame.matcher != nullptr) frame.matcher->on_sent(frame.seq);
    if (frame.bounced) {
      --to.bounces;
      bounced_ -= frame.bounce.size();
    }
    buffers_.give(std::move(frame.bounce));
    to.out.pop_front();
  }
}

void Engine::release_frames(Op& op) noexcept {
  for (std::size_t p = 0; p < peers_.size(); ++p) {
    bool any = false;
    for (OutFrame& frame : peers_[p].out) {
      if (frame.op != &op) continue;
      frame.op = nullptr;
      any = true;
    }
    if (any) world_.route[p]->keep_payloads(static_cast<int>(p));
    if (peers_[p].into == &op) {
      world_.route[p]->drop_arriving(static_cast<int>(p));
      peers_[p].into = nullptr;
      took(static_cast<int>(p), decode<DataFrame>(peers_[p].arriving));
    }
  }
  op.frames_out = 0;
  release_memory(op);
}

}  // namespace tutti::engine
