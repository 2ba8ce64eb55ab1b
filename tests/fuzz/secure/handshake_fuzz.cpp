// Whatever a stranger says, it is never taken for a rank of the job; and whatever somebody on the
// way changes is noticed.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "secure/handshake.hpp"

namespace {

using tutti::secure::Handshake;
using tutti::secure::Nonce;
using tutti::secure::Party;
using State = Handshake::State;
using Bytes = std::vector<std::byte>;

const Bytes kSecret(16, std::byte{0x6b});

void require(bool condition) {
  if (!condition) std::abort();
}

void check_bounds(const Handshake& handshake) {
  require(handshake.wanted() <= tutti::secure::kReplyBytes);
  require(handshake.outgoing().size() <= tutti::secure::kReplyBytes + tutti::secure::kVerdictBytes);
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

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::size_t step = 1 + data[0] % 100;
  std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data) + 2, size - 2);
  const bool encrypts = data[0] >= 128;
  const Party one{1, 4, 7, 2, kSecret, encrypts};
  const Party two{2, 4, 7, 2, kSecret, encrypts};
  Nonce first{};
  Nonce second{};
  second.fill(std::byte{9});
  Handshake acceptor = Handshake::acceptor(two, second);
  Handshake dialler = Handshake::dialler(one, 2, first);
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
  // An honest exchange, with bits changed on the way.
  bool changed = false;
  feed_all(acceptor, take_out(dialler, bytes, changed), step);
  feed_all(dialler, take_out(acceptor, bytes, changed), step);
  feed_all(acceptor, take_out(dialler, bytes, changed), step);
  require((acceptor.state() == State::proven) == !changed);
  require(acceptor.wants_encryption() == (encrypts && !changed));
  return 0;
}
