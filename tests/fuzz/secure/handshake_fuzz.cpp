// A foreign peer is never taken for a rank of the job, and a change on the way is always noticed.

#include <algorithm>
#include <span>
#include <vector>

#include "fuzz/fuzzer.hpp"
#include "secure/handshake.hpp"

namespace tutti::fuzz::handshake_parser {

using namespace tutti::secure;
using State = Handshake::State;
using Bytes = std::vector<std::byte>;

// Where connections arrive.
const os::Address kPlace = os::Address::parse("127.0.0.1", 4567).value();
const Bytes kSecret(16, std::byte{0x6b});

void check_bounds(const Handshake& handshake) {
  require(handshake.wanted() <= kLongestFrame);
  require(handshake.outgoing().size() <= kReplyBytes + kOriginBytes);
  require((handshake.state() == State::failed) <= !handshake.failure().ok());
}

/// All of the input, a few bytes at a time.
void feed_all(Handshake& handshake, std::span<const std::byte> bytes, std::size_t step) {
  while (!bytes.empty() && handshake.state() == State::running) {
    const std::size_t count =
        std::min({step, bytes.size(), std::max(handshake.wanted(), std::size_t{1})});
    handshake.feed(bytes.first(count));
    check_bounds(handshake);
    bytes = bytes.subspan(count);
  }
}

Bytes take_out(Handshake& from, std::span<const std::byte>& noise, bool& changed) {
  Bytes bytes(from.outgoing().begin(), from.outgoing().end());
  from.sent(bytes.size());
  for (std::byte& b : bytes) {
    if (noise.empty()) break;
    b ^= noise.front();
    changed = changed || noise.front() != std::byte{0};
    noise = noise.subspan(1);
  }
  return bytes;
}

/// Ways in which two ranks may not belong together.
enum class Mismatch {
  none,
  no_secret,
  secret,
  other_secret,
  job,
  generation,
  peer,
  rank,
  relay,
  count
};

/// A rank of the job; for a store all are 0.
Party party_of(int rank, bool encrypts, Purpose purpose) {
  return {{purpose == Purpose::store ? 0 : rank, 4, 7, 2, kSecret}, encrypts, purpose};
}

/// The dialler as it would be with that mismatch.
Party dialler_with(Mismatch mismatch, bool encrypts, Purpose purpose) {
  static const Bytes kOtherSecret(16, std::byte{0x6c});
  Party party = party_of(1, encrypts, purpose);
  if (mismatch == Mismatch::no_secret) party.identity.secret = {};
  if (mismatch == Mismatch::other_secret) party.identity.secret = kOtherSecret;
  if (mismatch == Mismatch::job) party.identity.job = 8;
  if (mismatch == Mismatch::generation) party.identity.generation = 3;
  if (mismatch == Mismatch::rank) party.identity.rank = 4;
  return party;
}

/// The address that is dialled with that mismatch.
os::Address way_with(Mismatch mismatch) {
  os::Address dialled = kPlace;
  if (mismatch == Mismatch::relay) dialled.set_port(4568);
  return dialled;
}

/// An exchange of two that keep the rules, with bits changed on the way.
void exchange(Mismatch mismatch, bool encrypts, Purpose purpose, Refusal verdict,
              std::span<const std::byte> noise, std::size_t step) {
  const bool store = purpose == Purpose::store;
  if (store && (mismatch == Mismatch::peer || mismatch == Mismatch::rank))
    mismatch = Mismatch::none;
  Party two = party_of(2, encrypts, purpose);
  if (mismatch == Mismatch::secret) two.identity.secret = {};
  Nonce nonce{};
  const int dialled = store ? 0 : mismatch == Mismatch::peer ? 3 : 2;
  Handshake dialler = Handshake::dialler(dialler_with(mismatch, encrypts, purpose), dialled, nonce,
                                         way_with(mismatch));
  nonce.fill(std::byte{9});
  Handshake acceptor = Handshake::acceptor(two, nonce, kPlace);
  bool changed = false;
  feed_all(acceptor, take_out(dialler, noise, changed), step);
  feed_all(dialler, take_out(acceptor, noise, changed), step);
  feed_all(acceptor, take_out(dialler, noise, changed), step);
  const bool right = !changed && mismatch == Mismatch::none;
  require(acceptor.wants_encryption() == (encrypts && right));
  if (store && acceptor.wants_encryption()) {
    require(acceptor.state() == State::running && acceptor.wanted() == 0);
    acceptor.repeat();
    dialler.repeat();
    feed_all(acceptor, take_out(dialler, noise, changed), step);
  }
  const bool proven = acceptor.state() == State::proven;
  require(proven == (!changed && mismatch == Mismatch::none));
  if (!proven) {
    require(dialler.state() != State::accepted && dialler.state() != State::crossed);
    return;
  }
  acceptor.conclude(verdict);
  feed_all(dialler, take_out(acceptor, noise, changed), step);
  if (changed) return;
  require((dialler.state() == State::accepted) == (verdict == Refusal::none));
  require((dialler.state() == State::crossed) == (verdict == Refusal::crossed));
}

TUTTI_FUZZER(handshake_fuzz)(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::size_t step = 1 + data[0] % 100;
  std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data) + 2, size - 2);
  const bool encrypts = data[0] >= 128;
  const Purpose purpose = data[1] >= 128 ? Purpose::store : Purpose::ranks;
  Handshake acceptor = Handshake::acceptor(party_of(2, encrypts, purpose), {}, kPlace);
  Handshake dialler = Handshake::dialler(dialler_with(Mismatch::none, encrypts, purpose),
                                         purpose == Purpose::store ? 0 : 2, {}, kPlace);
  switch (data[1] % 3) {
    case 0:
      feed_all(acceptor, bytes, step);
      require(acceptor.state() != State::proven && acceptor.state() != State::accepted);
      return 0;
    case 1:
      dialler.sent(dialler.outgoing().size());
      feed_all(dialler, bytes, step);
      require(dialler.state() != State::accepted && dialler.state() != State::crossed);
      return 0;
    default: break;
  }
  const auto mismatch = static_cast<Mismatch>(data[1] / 3 % static_cast<unsigned>(Mismatch::count));
  exchange(mismatch, encrypts, purpose, static_cast<Refusal>(data[0] % 19), bytes, step);
  return 0;
}

}  // namespace tutti::fuzz::handshake_parser
