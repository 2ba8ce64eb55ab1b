// Whatever a stranger says to a store, or one that plays a store to us, it is never believed to
// know the secret; and whatever is changed on the way is noticed.

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "fuzz/fuzzer.hpp"
#include "fuzz/input.hpp"
#include "fuzz/require.hpp"
#include "store/handshake.hpp"

using namespace tutti::store;
using tutti::fuzz::Input;
using tutti::fuzz::require;

namespace tutti::fuzz::store_handshake_parser {

const std::vector<std::byte> kSecret(32, std::byte{0x6b});

/// Whether a byte was changed.
template <class Frame>
bool disturb(Frame& frame, Input& input) {
  const std::size_t at = input.number<std::uint8_t>() % frame.size();
  const auto noise = input.number<std::byte>();
  frame[at] ^= noise;
  return noise != std::byte{0};
}

void honest_with_noise(Input& input, const Credentials& server, const Credentials& client) {
  Hello said = make_hello(client).value();
  Hello heard = said;
  bool changed = disturb(heard, input);
  auto answer = answer_hello(heard, server);
  require(answer.ok());
  if (answer->refusal != Refusal::none) return;
  Reply reply = answer->reply;
  changed = disturb(reply, input) || changed;
  if (!check_reply(said, reply, client).ok()) {
    require(changed);
    return;
  }
  auto proof = make_client_proof(said, reply, client);
  require(proof.ok());
  changed = disturb(*proof, input) || changed;
  auto proven = check_client_proof(heard, answer->reply, *proof, server);
  require(proven.ok() && *proven == !changed);
}

TUTTI_FUZZER(store_handshake_fuzz)(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  const auto kind = input.number<std::uint8_t>();
  const Credentials with{kSecret, "job", static_cast<std::uint32_t>((kind >> 2) & 1)};
  const Credentials without{{}, "job", 1};
  const Credentials& mine = (kind & 1) != 0 ? with : without;
  if ((kind & 2) != 0) {
    honest_with_noise(input, with, with);
    return 0;
  }
  auto hello = input.array<Hello>();
  const bool possible = may_be_hello(std::span<const std::byte>(hello).first(size % kHelloBytes));
  // With the magic of a hello, or hardly any would get further.
  if (possible || (kind & 8) != 0) {
    const Hello good = make_hello(mine).value();
    std::copy_n(good.begin(), (kind & 16) != 0 ? 32 : 8, hello.begin());
    require(may_be_hello(hello));
  }
  auto answer = answer_hello(hello, mine);
  require(answer.ok());
  const auto proof = input.array<Proof>();
  auto proven = check_client_proof(hello, answer->reply, proof, mine);
  require(proven.ok() && (!*proven || mine.secret.empty()));
  auto reply = input.array<Reply>();
  if ((kind & 32) != 0) std::copy_n(answer->reply.begin(), 12, reply.begin());
  const auto status = check_reply(hello, reply, mine);
  require(!status.ok() || mine.secret.empty());
  require(status.message().size() < 500);
  auto verdict = input.array<Verdict>();
  if ((kind & 64) != 0) std::copy_n(make_verdict(Refusal::none).begin(), 4, verdict.begin());
  require(check_verdict(verdict).ok() == (verdict == make_verdict(Refusal::none)));
  return 0;
}

}  // namespace tutti::fuzz::store_handshake_parser
