#include "engine/mailbox.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/elements.hpp"
#include "engine/engine.hpp"
#include "kernels/copy.hpp"
#include "kernels/pack.hpp"

// Point to point: the slots of sends and recvs, and which message goes to which recv (decisions
// A8).
namespace tutti::engine {

namespace {

constexpr int kSlotBits = 24;
constexpr std::uint64_t kSlots = std::uint64_t{1} << kSlotBits;
constexpr std::uint64_t kMailTicket = std::uint64_t{1} << 63;

void fill(const TensorView& to, const std::byte* from, std::uint64_t bytes) noexcept {
  if (bytes == 0) return;
  if (to.contiguous())
    kernels::copy(to.data(), from, bytes);
  else
    kernels::unpack(to, 0, to.count(), from);
}

void collect(std::byte* to, const TensorView& from, std::uint64_t bytes) noexcept {
  if (bytes == 0) return;
  if (from.contiguous())
    std::memcpy(to, from.data(), bytes);
  else
    kernels::pack(to, from, 0, from.count());
}

/// From one tensor of this rank to another, which may be the same.
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

std::string tensor_text(DType dtype, std::uint64_t bytes) {
  return std::string(to_string(dtype)) + " x " + std::to_string(bytes / size_of(dtype));
}

}  // namespace

Mailbox::Mailbox(Engine& engine, Group& group)
    : engine_(engine),
      group_(group),
      pairs_(static_cast<std::size_t>(group.size)),
      waited_(static_cast<std::size_t>(group.size)) {
  pushing_.reserve(pairs_.size());
}

std::uint64_t Mailbox::index_of(std::uint64_t ticket) noexcept { return ticket & (kSlots - 1); }

Transfer* Mailbox::find(std::uint64_t ticket) noexcept {
  const std::uint64_t index = index_of(ticket);
  if (index >= transfers_.size()) return nullptr;
  Transfer& transfer = transfers_[index];
  return transfer.ticket == ticket && transfer.state != Transfer::State::free ? &transfer : nullptr;
}

Transfer& Mailbox::take_slot() {
  if (free_.empty()) {
    // Each can be given back without memory.
    if (free_.capacity() <= transfers_.size()) free_.reserve(2 * transfers_.size() + 16);
    transfers_.emplace_back();
    transfers_.back().ticket = kMailTicket | (transfers_.size() - 1);
    return transfers_.back();
  }
  Transfer& again = transfers_[free_.back()];
  free_.pop_back();
  // The next generation: a ticket that this slot has not had for 2^39 operations.
  again.ticket = kMailTicket | (again.ticket + kSlots);
  return again;
}

std::uint64_t Mailbox::submit(const Collective& call) {
  if (group_.broken.load(std::memory_order_relaxed)) return kRefusedTicket;  // the token is ours
  if (free_.empty() && transfers_.size() >= kSlots - 1) {
    engine_.break_group(
        group_, Status(Errc::resource, "group '" + group_.name + "': " + std::to_string(kSlots) +
                                           " sends and recvs are outstanding on this rank; wait "
                                           "for some. The group is broken."));
    return kRefusedTicket;
  }
  Transfer& transfer = take_slot();
  transfer.state = Transfer::State::running;
  transfer.kind = call.kind;
  transfer.failed = transfer.released = transfer.matched = false;
  transfer.rank = call.root;
  transfer.any = call.kind == Kind::recv && call.root == kAnySource;
  transfer.tag = call.tag;
  transfer.view = call.kind == Kind::send ? call.input : call.output;
  transfer.bytes = transfer.view.size_bytes();
  transfer.moved = transfer.number = transfer.theirs = 0;
  transfer.stamp = ++stamp_;
  transfer.frames_out = 0;
  transfer.timeout = call.timeout;
  transfer.deadline = transfer.asked = TimePoint{};
  if (running_++ == 0) inquired_ = TimePoint{};
  ++engine_.letters_;
  const std::uint64_t ticket = transfer.ticket;
  if (call.kind == Kind::send)
    post_send(transfer);
  else
    post_recv(transfer);
  return ticket;
}

bool Mailbox::is_done(std::uint64_t ticket) noexcept {
  const Transfer* const transfer = find(ticket);
  return transfer == nullptr || transfer->state == Transfer::State::done;
}

std::optional<Status> Mailbox::outcome(std::uint64_t ticket) noexcept {
  if (ticket == kRefusedTicket) return group_.cause;
  const Transfer* const transfer = find(ticket);
  if (transfer == nullptr) return Status();  // given back
  if (transfer->state == Transfer::State::running) return std::nullopt;
  return transfer->failed ? group_.cause : Status();
}

void Mailbox::on_done(std::uint64_t ticket, Callback callback) {
  find(ticket)->callbacks.push_back(callback);
}

int Mailbox::source(std::uint64_t ticket) noexcept {
  const Transfer* const transfer = find(ticket);
  const bool told = transfer != nullptr && transfer->kind == Kind::recv &&
                    transfer->state == Transfer::State::done && !transfer->failed;
  return told ? transfer->rank : -1;
}

void Mailbox::release(std::uint64_t ticket) noexcept {
  Transfer* const transfer = find(ticket);
  if (transfer == nullptr || transfer->released) return;
  transfer->released = true;
  if (transfer->state != Transfer::State::done) return;
  transfer->state = Transfer::State::free;
  free_.push_back(static_cast<std::uint32_t>(index_of(ticket)));
}

void Mailbox::finish(Transfer& transfer) noexcept {
  transfer.state = Transfer::State::done;
  --running_;
  --engine_.letters_;
  engine_.awaited_ -= transfer.callbacks.size();  // there is room for them
  for (const Callback& callback : transfer.callbacks)
    engine_.finished_.push_back({callback, transfer.failed ? group_.cause : Status()});
  transfer.callbacks.clear();
  if (!transfer.released) return;
  transfer.state = Transfer::State::free;
  free_.push_back(static_cast<std::uint32_t>(index_of(transfer.ticket)));
}

void Mailbox::post_send(Transfer& send) {
  if (send.rank == group_.rank) {
    send_to_self(send);
    return;
  }
  pairs_[static_cast<std::size_t>(send.rank)].waiting.push_back(
      static_cast<std::uint32_t>(index_of(send.ticket)));
  list(send.rank);
  push_to(send.rank);
}

void Mailbox::send_to_self(Transfer& send) {
  Arrival arrival;
  arrival.source = send.rank;
  arrival.tag = send.tag;
  arrival.dtype = send.view.dtype();
  arrival.bytes = send.bytes;
  arrival.number = send.number = ++pairs_[static_cast<std::size_t>(send.rank)].in;
  arrival.theirs = send.ticket;
  if (Transfer* const recv = posted_for(send.rank, send.tag)) {
    match(*recv, arrival, nullptr);  // ends both
    return;
  }
  const std::uint64_t cost = letter_cost(send.bytes);
  if (send.bytes > kUnasked || cost > kUnasked - std::min(kUnasked, self_bytes_)) {
    shelve(arrival, nullptr);  // waits for its recv
    return;
  }
  arrival.whole = true;
  self_bytes_ += cost;
  if (send.view.contiguous()) {
    shelve(arrival, static_cast<const std::byte*>(send.view.data()));
  } else {
    std::vector<std::byte> row(send.bytes);
    collect(row.data(), send.view, send.bytes);
    shelve(arrival, row.data());
  }
  finish(send);
}

/// The recv that a message goes to: the one called first.
Transfer* Mailbox::next_for(int source, int tag) {
  const std::uint32_t named = posted_.first({source, tag});
  const std::uint32_t any = posted_.first({kAnySource, tag});
  if (named == Shelves::kNone && any == Shelves::kNone) return nullptr;
  const bool take_any = named == Shelves::kNone ||
                        (any != Shelves::kNone && transfers_[any].stamp < transfers_[named].stamp);
  return &transfers_[take_any ? any : named];
}

/// The same; it leaves the queue.
Transfer* Mailbox::posted_for(int source, int tag) {
  Transfer* const recv = next_for(source, tag);
  if (recv != nullptr) posted_.pop({recv->any ? kAnySource : source, tag});
  return recv;
}

/// The message that a recv gets: of anybody's, the one that came first. It leaves the queue.
std::uint32_t Mailbox::arrival_for(const Transfer& recv) {
  if (unexpected_.size() == 0) return Shelves::kNone;
  std::uint32_t found = Shelves::kNone;
  if (!recv.any) {
    found = unexpected_.first({recv.rank, recv.tag});
  } else {
    for (int rank = 0; rank < group_.size; ++rank) {
      const std::uint32_t one = unexpected_.first({rank, recv.tag});
      if (one == Shelves::kNone) continue;
      if (found == Shelves::kNone || arrivals_[one].stamp < arrivals_[found].stamp) found = one;
    }
  }
  if (found != Shelves::kNone) unexpected_.pop({arrivals_[found].source, recv.tag});
  return found;
}

void Mailbox::post_recv(Transfer& recv) {
  const auto slot = static_cast<std::uint32_t>(index_of(recv.ticket));
  const std::uint32_t found = arrival_for(recv);
  if (found == Shelves::kNone) {
    posted_.push({recv.rank, recv.tag}, slot);
    return;
  }
  // Out of the pool first: a mismatch breaks the group, which empties it.
  Arrival arrival = std::move(arrivals_[found]);
  arrivals_[found].number = 0;
  free_arrivals_.push_back(found);
  const std::byte* const payload = arrival.data.empty() ? arrival.few.data() : arrival.data.data();
  match(recv, arrival, arrival.whole ? payload : nullptr);
  engine_.buffers_.give(std::move(arrival.data));
}

bool Mailbox::fits(const Transfer& recv, const Arrival& arrival) {
  if (recv.view.dtype() == arrival.dtype && recv.bytes == arrival.bytes) return true;
  std::string text = "ranks disagree in group '" + group_.name +
                     "': " + engine_.name_of(group_, group_.rank) + " receives " +
                     tensor_text(recv.view.dtype(), recv.bytes) + " with tag " +
                     std::to_string(recv.tag) + ", but " + engine_.name_of(group_, arrival.source) +
                     " sent it " + tensor_text(arrival.dtype, arrival.bytes) +
                     ". A recv must have the dtype and the number of elements of its send; the "
                     "group is broken, make a new one.";
  engine_.break_group(group_, Status(Errc::disagreement, std::move(text)));
  return false;
}

/// A recv has found its message. `payload`: its bytes, where they have come and do not lie in the
/// recv's buffer already.
void Mailbox::match(Transfer& recv, const Arrival& arrival, const std::byte* payload) {
  const bool own = arrival.source == group_.rank;
  const std::uint64_t cost = arrival.whole ? letter_cost(arrival.bytes) : 0;
  if (own)
    self_bytes_ -= cost;
  else
    engine_.took_letter(group_.members[static_cast<std::size_t>(arrival.source)].global, cost);
  if (!fits(recv, arrival)) return;
  recv.rank = arrival.source;
  recv.number = arrival.number;
  recv.theirs = arrival.theirs;
  recv.matched = true;
  if (arrival.whole) {
    if (payload != nullptr) fill(recv.view, payload, recv.bytes);
    finish(recv);
  } else if (own) {
    Transfer* const send = find(arrival.theirs);
    move_elements(recv.view, send->view, send->bytes);
    finish(*send);
    finish(recv);
  } else {
    const auto slot = static_cast<std::uint32_t>(index_of(recv.ticket));
    pairs_[static_cast<std::size_t>(recv.rank)].grants.push_back(slot);
    list(recv.rank);
    push_to(recv.rank);
  }
}

/// Keeps a message that no recv waits for.
void Mailbox::shelve(const Arrival& arrival, const std::byte* payload) {
  std::uint32_t at = 0;
  if (free_arrivals_.empty()) {
    at = static_cast<std::uint32_t>(arrivals_.size());
    arrivals_.emplace_back();
  } else {
    at = free_arrivals_.back();
    free_arrivals_.pop_back();
  }
  Arrival& kept = arrivals_[at];
  kept = arrival;
  kept.stamp = ++stamp_;
  if (kept.whole && kept.bytes > 0) {
    std::byte* to = kept.few.data();
    if (kept.bytes > kept.few.size()) {
      kept.data = engine_.buffers_.take(kept.bytes);
      to = kept.data.data();
    }
    std::memcpy(to, payload, kept.bytes);
  }
  unexpected_.push({kept.source, kept.tag}, at);
}

void Mailbox::fail() noexcept {
  for (std::size_t p = 0; p < engine_.peers_.size(); ++p) engine_.release_letters(*this, p);
  // What had come counts no longer against those who sent it.
  for (Arrival& arrival : arrivals_) {
    if (arrival.number == 0) continue;  // free
    if (arrival.source != group_.rank) {
      engine_.took_letter(group_.members[static_cast<std::size_t>(arrival.source)].global,
                          arrival.whole ? letter_cost(arrival.bytes) : 0);
    }
    engine_.buffers_.give(std::move(arrival.data));
  }
  arrivals_.clear();
  free_arrivals_.clear();
  posted_.clear();
  unexpected_.clear();
  for (Pair& pair : pairs_) {
    pair.waiting.clear();
    pair.streams.clear();
    pair.grants.clear();
    pair.listed = false;
  }
  pushing_.clear();
  self_bytes_ = 0;
  next_deadline_ = TimePoint::max();
  for (Transfer& transfer : transfers_) {
    if (transfer.state != Transfer::State::running) continue;
    transfer.failed = true;
    finish(transfer);
  }
}

}  // namespace tutti::engine
