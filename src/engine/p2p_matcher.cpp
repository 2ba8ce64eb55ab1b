#include "engine/p2p_matcher.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/element_unit.hpp"
#include "engine/elements.hpp"
#include "engine/names.hpp"
#include "kernels/copy.hpp"
#include "kernels/pack.hpp"

// Point to point: the slots of sends, recvs and probes, and which message goes to which recv.
namespace tutti::engine {

namespace {

constexpr std::uint64_t kP2PTicket = std::uint64_t{1} << 63;

/// Puts the first bytes of a message, which are whole elements, in their place.
void fill(const TensorView& to, const std::byte* from, std::uint64_t bytes) noexcept {
  if (bytes == 0) return;
  if (to.contiguous())
    kernels::copy(to.data(), from, bytes);
  else
    kernels::unpack(to, 0, bytes / size_of(to.dtype()), from);
}

void collect(std::byte* to, const TensorView& from, std::uint64_t bytes) noexcept {
  if (bytes == 0) return;
  if (from.contiguous())
    std::memcpy(to, from.data(), bytes);
  else
    kernels::pack(to, from, 0, from.count());
}

/// Copies one tensor of this rank to another, which may be the same.
void move_elements(const TensorView& to, const TensorView& from, std::uint64_t bytes) noexcept {
  if (bytes == 0) return;
  if (to.contiguous() && from.contiguous()) {
    std::memmove(to.data(), from.data(), bytes);
    return;
  }
  alignas(64) std::byte block[kBlockBytes];
  const std::size_t step = kBlockBytes / size_of(to.dtype());
  for (std::size_t at = 0; at < to.count(); at += step) {
    const std::size_t n = std::min(step, to.count() - at);
    kernels::pack(block, from, at, n);
    kernels::unpack(to, at, n, block);
  }
}

/// recv: which message it was, once done.
Received received_by(const P2PRequest& request) noexcept {
  const bool told =
      request.kind == Kind::recv && request.state == P2PRequest::State::done && !request.failed;
  return told ? Received{request.rank, request.tag} : Received();
}

/// As a buffer of `size` bytes each, if these are structs.
std::string tensor_text(DType dtype, std::uint64_t bytes, std::size_t size) {
  return base::elements_text(size > 1 && dtype == DType::uint8
                                 ? TensorView::of_structs(nullptr, bytes / size, size)
                                 : TensorView(nullptr, dtype, bytes / size_of(dtype)));
}

bool are_bytes(DType one, DType other) noexcept {
  return one != other && size_of(one) == 1 && size_of(other) == 1;
}
constexpr const char* kBytesText =
    " (a std::string has int8, std::byte and unsigned char are uint8: take one type on both sides)";

bool is_large(const P2PRequest& request) noexcept {
  return request.kind != Kind::probe && request.bytes >= kLargeBytes;
}

}  // namespace

P2PMatcher::P2PMatcher(P2PShared& shared, Group& group)
    : shared_(shared),
      channel_(shared.channel),
      group_(group),
      pairs_(static_cast<std::size_t>(group.size)),
      waited_(static_cast<std::size_t>(group.size)) {
  pushing_.reserve(pairs_.size());
}

P2PRequest& P2PMatcher::take_slot() {
  if (free_.empty()) {
    // Reserves a place in free_ for each slot, so that giving one back needs no memory.
    if (free_.capacity() <= requests_.size()) free_.reserve(2 * requests_.size() + 16);
    requests_.push_back(std::make_unique<P2PRequest>());
    requests_.back()->ticket = kP2PTicket | (requests_.size() - 1);
    return *requests_.back();
  }
  P2PRequest& again = *requests_[free_.back()];
  free_.pop_back();
  // The next generation: a ticket that this slot has not had for 2^39 operations.
  again.ticket = kP2PTicket | (again.ticket + kRequests);
  return again;
}

std::uint64_t P2PMatcher::submit(const Collective& call, std::optional<std::uint64_t> record) {
  // relaxed: the driver lock is ours.
  if (group_.broken.load(std::memory_order_relaxed)) return kRefusedTicket;
  if (free_.empty() && requests_.size() >= kRequests - 1) {
    shared_.propagation.break_group(
        group_,
        Outcome(Errc::resource, "group '" + group_.name + "': " + std::to_string(kRequests) +
                                    " sends and recvs are outstanding on this rank; wait "
                                    "for some. The group is broken."));
    return kRefusedTicket;
  }
  P2PRequest& request = take_slot();
  request.state = P2PRequest::State::running;
  request.kind = call.kind;
  request.failed = request.released = request.matched = request.lands = request.spared = false;
  request.rank = call.root;
  request.any = call.kind != Kind::send && call.root == any_source;
  request.tag = call.tag;
  request.every_tag = call.kind != Kind::send && call.tag == any_tag;
  request.view = call.kind == Kind::send ? call.input : call.output;
  request.gpu = call.details == nullptr ? nullptr : call.details->gpu_message;
  request.bytes = request.view.size_bytes();
  request.moved = request.unasked = request.number = request.theirs = 0;
  request.stamp = ++stamp_;
  request.frames_out = 0;
  request.timeout = call.timeout;
  request.deadline = request.asked = TimePoint{};
  if (record)
    request.record = *record;
  else if (shared_.world.recorder != nullptr)
    request.record = shared_.world.recorder->called(group_.record_place, request.ticket, call,
                                                    record::EntryState::running);
  if (running_++ == 0) pinged_blocking_ = TimePoint{};
  ++shared_.running;
  if (is_large(request)) ++shared_.large;
  const std::uint64_t ticket = request.ticket;
  if (call.kind == Kind::send)
    post_send(request);
  else if (call.kind == Kind::probe)
    post_probe(request);
  else
    post_recv(request, call.details == nullptr ? 0 : call.details->probed);
  if (call.kind == Kind::send && request.state == P2PRequest::State::done && !request.failed &&
      request.gpu == nullptr) {
    free_slot(request);
    return kDoneTicket;
  }
  return ticket;
}

std::optional<Outcome> P2PMatcher::outcome(std::uint64_t ticket) const noexcept {
  if (ticket == kRefusedTicket) return group_.cause;
  const P2PRequest* const request = find(ticket);
  if (request == nullptr) return Outcome();  // given back
  if (request->state == P2PRequest::State::running) return std::nullopt;
  return request->failed ? group_.cause : Outcome();
}

void P2PMatcher::on_done(std::uint64_t ticket, Callback callback) {
  find(ticket)->callbacks.push_back(callback);
}

Received P2PMatcher::received(std::uint64_t ticket) const noexcept {
  const P2PRequest* const request = find(ticket);
  return request == nullptr ? Received() : received_by(*request);
}

std::optional<ProbedMessage> P2PMatcher::probed(std::uint64_t ticket) const noexcept {
  const P2PRequest* const request = find(ticket);
  if (request == nullptr || request->kind != Kind::probe || !request->matched) return std::nullopt;
  return ProbedMessage{request->rank, request->tag, request->view.dtype(), request->view.count()};
}

bool P2PMatcher::holds_message(std::uint64_t ticket) const noexcept {
  const P2PRequest* const request = find(ticket);
  return request != nullptr && request->kind == Kind::probe &&
         unexpected_.first(held_key(*request)) != MatchQueues::kNone;
}

Received P2PMatcher::release(std::uint64_t ticket) {
  P2PRequest* const request = find(ticket);
  if (request == nullptr) return {};
  const Received received = received_by(*request);
  if (std::exchange(request->released, true)) return received;
  if (request->kind == Kind::probe) put_back(*request);
  if (request->state == P2PRequest::State::done) free_slot(*request);
  return received;
}

bool P2PMatcher::cancel(std::uint64_t ticket) {
  P2PRequest* const recv = find(ticket);
  if (recv == nullptr || recv->kind != Kind::recv || recv->state != P2PRequest::State::running ||
      recv->matched || recv->lands)
    return false;
  posted_.erase({recv->rank, recv->tag}, static_cast<std::uint32_t>(index_of(ticket)));
  every_tags_ -= recv->every_tag ? 1 : 0;
  anys_ -= recv->any ? 1 : 0;
  shared_.completions.complete(
      recv->callbacks, Outcome(Errc::aborted, text_of(*recv) + ": this rank has cancelled it"));
  recv->callbacks.clear();
  finish(*recv);
  return true;
}

std::string P2PMatcher::describe(std::uint64_t ticket) const {
  const P2PRequest* const request = find(ticket);
  return request == nullptr ? "group '" + group_.name + "'" : text_of(*request);
}

void P2PMatcher::free_slot(P2PRequest& request) noexcept {
  request.state = P2PRequest::State::free;
  free_.push_back(static_cast<std::uint32_t>(index_of(request.ticket)));
}

void P2PMatcher::finish(P2PRequest& request) noexcept {
  request.state = P2PRequest::State::done;
  if (shared_.world.recorder != nullptr)
    shared_.world.recorder->ended(request.record, request.failed, request.deadline != TimePoint{});
  --running_;
  --shared_.running;
  if (is_large(request)) --shared_.large;
  if (!request.callbacks.empty()) [[unlikely]] {
    shared_.completions.complete(request.callbacks, request.failed ? group_.cause : Outcome());
    request.callbacks.clear();
  }
  if (request.released) free_slot(request);
}

void P2PMatcher::post_send(P2PRequest& send) {
  if (send.rank == group_.rank) {
    send_to_self(send);
    return;
  }
  Pair& pair = pairs_[static_cast<std::size_t>(send.rank)];
  if (!pair.idle() || !may_push(send.rank) || !announce(send))
    pair.waiting.push_back(static_cast<std::uint32_t>(index_of(send.ticket)));
  if (pair.idle()) return;
  list(send.rank);
  push_to(send.rank);
}

void P2PMatcher::send_to_self(P2PRequest& send) {
  ArrivedMessage message;
  message.source = send.rank;
  message.tag = send.tag;
  message.dtype = send.view.dtype();
  message.bytes = send.bytes;
  message.number = send.number = ++pairs_[static_cast<std::size_t>(send.rank)].in;
  message.theirs = send.ticket;
  P2PRequest* const taker = posted_for(send.rank, send.tag);
  if (taker != nullptr && taker->kind == Kind::recv) {
    match(*taker, message, nullptr);  // ends both; without bytes only the recv
    if (send.bytes == 0 && send.state == P2PRequest::State::running) finish(send);
    return;
  }
  const std::uint64_t cost = unexpected_cost(send.bytes);
  if (send.bytes > kEagerLimit || cost > kEagerLimit - std::min(kEagerLimit, self_bytes_)) {
    keep_unexpected(message, nullptr, taker);  // waits for its recv
    return;
  }
  message.unasked = message.here = send.bytes;
  self_bytes_ += cost;
  if (send.view.contiguous()) {
    keep_unexpected(message, static_cast<const std::byte*>(send.view.data()), taker);
  } else {
    std::vector<std::byte> row(send.bytes);
    collect(row.data(), send.view, send.bytes);
    keep_unexpected(message, row.data(), taker);
  }
  finish(send);
}

/// A recv or probe waits for its message.
void P2PMatcher::post(P2PRequest& taker) {
  posted_.push({taker.rank, taker.tag}, static_cast<std::uint32_t>(index_of(taker.ticket)));
  every_tags_ += taker.every_tag ? 1 : 0;
  anys_ += taker.any ? 1 : 0;
}

/// The recv or probe that a message goes to: the one called first.
P2PRequest* P2PMatcher::next_for(int source, int tag) {
  P2PRequest* taker = nullptr;
  const auto look = [&](MatchQueues::Key key) {
    const std::uint32_t one = posted_.first(key);
    if (one != MatchQueues::kNone && (taker == nullptr || requests_[one]->stamp < taker->stamp))
      taker = requests_[one].get();
  };
  look({source, tag});
  if (anys_ > 0) look({any_source, tag});
  if (every_tags_ > 0 && fits_any_tag(tag)) {
    look({source, any_tag});
    look({any_source, any_tag});
  }
  return taker;
}

/// The same, and takes it out of the queue.
P2PRequest* P2PMatcher::posted_for(int source, int tag) {
  const bool wild = anys_ + every_tags_ > 0;
  while (true) {
    P2PRequest* taker = nullptr;
    if (wild) {
      taker = next_for(source, tag);
      if (taker != nullptr) posted_.pop({taker->rank, taker->tag});
    } else if (const std::uint32_t one = posted_.take({source, tag}); one != MatchQueues::kNone) {
      taker = requests_[one].get();
    }
    if (taker == nullptr) return nullptr;
    every_tags_ -= taker->every_tag ? 1 : 0;
    anys_ -= taker->any ? 1 : 0;
    if (taker->kind == Kind::recv || !taker->released) return taker;
    finish(*taker);  // a probe that was given up: its message would be lost
  }
}

/// Takes the message that a recv gets out of the queue. With any_source or any_tag it is the one
/// that came first.
std::uint32_t P2PMatcher::unexpected_for(const P2PRequest& recv) {
  if (unexpected_.size() == 0) return MatchQueues::kNone;
  std::uint32_t found = MatchQueues::kNone;
  const auto look = [&](std::uint32_t one) {
    if (one != MatchQueues::kNone &&
        (found == MatchQueues::kNone ||
         unexpected_messages_[one].stamp < unexpected_messages_[found].stamp))
      found = one;
  };
  if (recv.every_tag) {
    unexpected_.each_first([&](MatchQueues::Key key, std::uint32_t one) {
      if (key.rank != kHeld && fits_any_tag(key.tag) && (recv.any || key.rank == recv.rank))
        look(one);
    });
  } else if (recv.any) {
    for (int rank = 0; rank < group_.size; ++rank) look(unexpected_.first({rank, recv.tag}));
  } else {
    look(unexpected_.first({recv.rank, recv.tag}));
  }
  if (found != MatchQueues::kNone)
    unexpected_.pop({unexpected_messages_[found].source, unexpected_messages_[found].tag});
  return found;
}

void P2PMatcher::post_recv(P2PRequest& recv, std::uint64_t probed) {
  const std::uint32_t found = probed != 0 ? take_held(probed) : unexpected_for(recv);
  if (found != MatchQueues::kNone) {
    take(recv, found);
  } else if (probed == 0) {
    post(recv);
  } else {
    shared_.propagation.break_group(
        group_, Outcome(Errc::internal, text_of(recv) + ": the probe has no message for it"));
  }
}

/// A recv gets a message that has left its queue.
void P2PMatcher::take(P2PRequest& recv, std::uint32_t place) {
  // Out of the pool first: a mismatch breaks the group, which empties it.
  UnexpectedMessage message = std::move(unexpected_messages_[place]);
  unexpected_messages_[place].number = 0;
  free_unexpected_.push_back(place);
  const std::byte* const payload = message.data.empty() ? message.few.data() : message.data.data();
  Ahead& ahead = pairs_[static_cast<std::size_t>(message.source)].ahead;
  if (ahead.left > 0 && ahead.recv == kNoSlot && ahead.place == place)
    ahead.recv = static_cast<std::uint32_t>(index_of(recv.ticket));
  match(recv, message, payload);
  free_bytes(message);
}

/// Gives back the memory of a message that nobody reads any more. Only that of an eager one is a
/// buffer of the pool, which never shrinks.
void P2PMatcher::free_bytes(UnexpectedMessage& message) noexcept {
  if (message.unasked <= kEagerLimit) channel_.buffers().release(std::move(message.data));
}

void P2PMatcher::post_probe(P2PRequest& probe) {
  const std::uint32_t found = unexpected_for(probe);
  if (found != MatchQueues::kNone)
    hold(probe, found);
  else if (probe.timeout > std::chrono::nanoseconds(0))
    post(probe);
  else
    finish(probe);
}

/// A probe has found its message, which has left its queue: no other recv or probe gets it.
void P2PMatcher::hold(P2PRequest& probe, std::uint32_t place) {
  unexpected_.push(held_key(probe), place);
  ++held_;
  const UnexpectedMessage& message = unexpected_messages_[place];
  probe.rank = message.source;
  probe.tag = message.tag;
  probe.bytes = message.bytes;
  probe.view = TensorView(nullptr, message.dtype, message.bytes / size_of(message.dtype));
  probe.matched = true;
  finish(probe);
}

/// Takes the message that a probe holds away from it.
std::uint32_t P2PMatcher::take_held(std::uint64_t probe) {
  const P2PRequest* const request = find(probe);
  if (request == nullptr || request->kind != Kind::probe) return MatchQueues::kNone;
  const std::uint32_t place = unexpected_.first(held_key(*request));
  if (place == MatchQueues::kNone) return place;
  unexpected_.pop(held_key(*request));
  --held_;
  return place;
}

/// The message that this probe holds goes to the recv or probe that waits for it, else back to its
/// old place in the queue.
void P2PMatcher::put_back(const P2PRequest& probe) {
  const std::uint32_t place = take_held(probe.ticket);
  if (place == MatchQueues::kNone) return;  // received, or the group is broken
  const UnexpectedMessage& message = unexpected_messages_[place];
  P2PRequest* const taker = posted_for(message.source, message.tag);
  if (taker == nullptr) {
    unexpected_.insert({message.source, message.tag}, place, [&](std::uint32_t other) {
      return unexpected_messages_[other].number > message.number;
    });
  } else if (taker->kind == Kind::probe) {
    hold(*taker, place);
  } else {
    take(*taker, place);
  }
}

bool P2PMatcher::fits(const P2PRequest& recv, const ArrivedMessage& message) {
  if (recv.view.dtype() == message.dtype && recv.bytes == message.bytes) return true;
  const std::size_t unit = base::unit_of(recv.view, recv.bytes, message.bytes).size;
  std::string text = "ranks disagree in group '" + group_.name +
                     "': " + name_of(shared_.world, group_, group_.rank) + " receives " +
                     tensor_text(recv.view.dtype(), recv.bytes, unit) + " with tag " +
                     std::to_string(message.tag) + ", but " +
                     name_of(shared_.world, group_, message.source) + " sent it " +
                     tensor_text(message.dtype, message.bytes, unit) +
                     (are_bytes(recv.view.dtype(), message.dtype) ? kBytesText : "") +
                     ". A recv must have the dtype and the number of elements of its send; the "
                     "group is broken, make a new one.";
  shared_.propagation.break_group(group_, Outcome(Errc::disagreement, std::move(text)));
  return false;
}

/// A recv has found its message. `payload`: the bytes that are here, unless they are already in the
/// recv's buffer.
void P2PMatcher::match(P2PRequest& recv, const ArrivedMessage& message, const std::byte* payload) {
  const bool own = message.source == group_.rank;
  const std::uint64_t cost = unexpected_cost(message.unasked);
  if (own)
    self_bytes_ -= cost;
  else
    channel_.message_consumed(global(message.source), cost);
  if (!fits(recv, message)) return;
  recv.rank = message.source;
  recv.tag = message.tag;
  recv.number = message.number;
  recv.theirs = message.theirs;
  recv.matched = true;
  recv.unasked = message.unasked;
  recv.moved = message.here;
  if (recv.gpu != nullptr && message.here > 0)
    recv.early.assign(payload, payload + message.here);
  else if (payload != nullptr)
    fill(recv.view, payload, message.here);
  if (message.here == message.bytes && recv.gpu == nullptr) {
    finish(recv);
  } else if (recv.gpu != nullptr && !message.on_gpu) {
    request_from_caller(recv, call::GpuMessage::State::needs_memory);
  } else if (recv.gpu != nullptr &&
             // relaxed: nothing that the caller wrote before is read.
             !recv.gpu->stream_came.load(std::memory_order_relaxed)) {
    request_from_caller(recv, call::GpuMessage::State::needs_stream);
  } else if (own) {
    move_to_self(recv);
  } else if (recv.unasked < recv.bytes) {
    const auto slot = static_cast<std::uint32_t>(index_of(recv.ticket));
    pairs_[static_cast<std::size_t>(recv.rank)].grants.push_back(slot);
    list(recv.rank);
    push_to(recv.rank);
  }
}

/// A recv has the message of a send of this rank to itself.
void P2PMatcher::move_to_self(P2PRequest& recv) {
  P2PRequest* const send = find(recv.theirs);
  move_elements(recv.view, send->view, send->bytes);
  finish(*send);
  finish(recv);
}

/// Keeps a message that no recv waits for, and returns its place. `probe`: the probe that waits for
/// it, or nullptr.
std::uint32_t P2PMatcher::keep_unexpected(const ArrivedMessage& message, const std::byte* payload,
                                          P2PRequest* probe) {
  std::uint32_t at = 0;
  if (free_unexpected_.empty()) {
    at = static_cast<std::uint32_t>(unexpected_messages_.size());
    unexpected_messages_.emplace_back();
  } else {
    at = free_unexpected_.back();
    free_unexpected_.pop_back();
  }
  UnexpectedMessage& kept = unexpected_messages_[at];
  static_cast<ArrivedMessage&>(kept) = message;
  kept.stamp = ++stamp_;
  if (kept.unasked > kEagerLimit) {
    kept.data.reserve(kept.unasked);
    kept.data.insert(kept.data.end(), payload, payload + kept.here);
  } else if (kept.unasked > kept.few.size()) {
    kept.data = channel_.buffers().acquire(kept.unasked);
    std::memcpy(kept.data.data(), payload, kept.here);
  } else if (kept.here > 0) {
    std::memcpy(kept.few.data(), payload, kept.here);
  }
  if (probe != nullptr)
    hold(*probe, at);
  else
    unexpected_.push({kept.source, kept.tag}, at);
  return at;
}

void P2PMatcher::fail() noexcept {
  channel_.let_go(*this);
  // Gives the credit of messages that had come back to their senders.
  for (UnexpectedMessage& message : unexpected_messages_) {
    if (message.number == 0) continue;  // free
    if (message.source != group_.rank) {
      channel_.message_consumed(global(message.source), unexpected_cost(message.unasked));
    }
    free_bytes(message);
  }
  unexpected_messages_.clear();
  free_unexpected_.clear();
  posted_.clear();
  every_tags_ = anys_ = 0;
  unexpected_.clear();
  held_ = 0;
  for (Pair& pair : pairs_) {
    pair.waiting.clear();
    pair.streams.clear();
    pair.grants.clear();
    pair.ahead = {};
    pair.ahead_out = kNoSlot;
    pair.listed = false;
  }
  pushing_.clear();
  waiting_for_caller_.clear();
  self_bytes_ = 0;
  next_deadline_ = TimePoint::max();
  for (const auto& request : requests_) {
    if (request->state != P2PRequest::State::running) continue;
    request->failed = true;
    finish(*request);
  }
}

}  // namespace tutti::engine
