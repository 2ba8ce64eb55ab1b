#include "secure/handshake.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "os/host.hpp"

namespace tutti::secure {
namespace {

using State = Handshake::State;
using Bytes = std::vector<std::byte>;
using testing::AllOf;
using testing::HasSubstr;

Bytes secret_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

/// Where all are dialled, and where they arrive.
const os::Address kPlace = os::Address::parse("127.0.0.1", 4567).value();

Nonce nonce_of(int value) {
  Nonce nonce;
  nonce.fill(static_cast<std::byte>(value));
  return nonce;
}

Bytes take_out(Handshake& from) {
  Bytes bytes(from.outgoing().begin(), from.outgoing().end());
  from.sent(bytes.size());
  return bytes;
}

/// Both sides and what they say to each other, `step` bytes at a time.
struct Parties {
  Bytes dialler_secret = secret_of("0123456789abcdef");
  Bytes acceptor_secret = dialler_secret;
  Party dialler_party{1, 4, 77, 5, {}};
  Party acceptor_party{2, 4, 77, 5, {}};
  int dialled = 2;
  os::Address address = kPlace;
  os::Address arrived = kPlace;

  struct Sides {
    Handshake dialler;
    Handshake acceptor;
  };
  Sides start() {
    dialler_party.identity.secret = dialler_secret;
    acceptor_party.identity.secret = acceptor_secret;
    return {Handshake::dialler(dialler_party, dialled, nonce_of(1), address),
            Handshake::acceptor(acceptor_party, nonce_of(2), arrived)};
  }
  Sides run(Refusal verdict = Refusal::none, std::size_t step = 1000) {
    Sides sides = start();
    for (int i = 0; i < 1000; ++i) {
      const bool moved =
          move(sides.dialler, sides.acceptor, step) | move(sides.acceptor, sides.dialler, step);
      if (sides.acceptor.state() == State::proven)
        sides.acceptor.conclude(verdict);
      else if (!moved)
        break;
    }
    return sides;
  }
  static bool move(Handshake& from, Handshake& to, std::size_t step) {
    const std::size_t count = std::min({step, from.outgoing().size(), to.wanted()});
    if (count == 0) return false;
    to.feed(from.outgoing().first(count));
    from.sent(count);
    return true;
  }
};

TEST(Handshake, MakesTwoRanksOfOneJobKnownToEachOther) {
  for (const std::size_t step : {1UL, 7UL, 1000UL}) {
    Parties pair;
    auto [dialler, acceptor] = pair.run(Refusal::none, step);
    EXPECT_EQ(dialler.state(), State::accepted) << dialler.failure().message();
    EXPECT_EQ(acceptor.state(), State::accepted) << acceptor.failure().message();
    EXPECT_EQ(dialler.peer(), 2);
    EXPECT_EQ(acceptor.peer(), 1);
    EXPECT_TRUE(dialler.outgoing().empty());
    EXPECT_TRUE(acceptor.outgoing().empty());
    EXPECT_EQ(dialler.wanted(), 0U);
  }
}

TEST(Handshake, ComparesTheJobFirst) {
  Parties pair;
  pair.dialler_secret[3] ^= std::byte{1};
  const auto one_job = pair.run();
  pair.dialler_party.identity.job ^= 1;
  const auto two_jobs = pair.run();
  for (const Handshake* side : {&one_job.dialler, &one_job.acceptor}) {
    EXPECT_EQ(side->refusal(), Refusal::other_key);
    EXPECT_TRUE(differs_within_job(side->refusal()));
  }
  for (const Handshake* side : {&two_jobs.dialler, &two_jobs.acceptor}) {
    EXPECT_EQ(side->refusal(), Refusal::other_job);
    EXPECT_FALSE(differs_within_job(side->refusal()));
  }
}

TEST(Handshake, WorksWithoutASecret) {
  Parties pair;
  pair.dialler_secret.clear();
  pair.acceptor_secret.clear();
  auto [dialler, acceptor] = pair.run();
  EXPECT_EQ(dialler.state(), State::accepted);
  EXPECT_EQ(acceptor.state(), State::accepted);
}

TEST(Handshake, TellsTheDiallerWhichVerdictItGot) {
  Parties pair;
  EXPECT_EQ(pair.run(Refusal::crossed).dialler.state(), State::crossed);
  EXPECT_EQ(pair.run(Refusal::connected).dialler.state(), State::failed);
  EXPECT_EQ(pair.run(Refusal::connected).dialler.failure().code(), Errc::peer_lost);
  EXPECT_EQ(pair.run(Refusal::gone).dialler.failure().code(), Errc::peer_lost);
  EXPECT_EQ(pair.run(Refusal::leaving).dialler.failure().code(), Errc::peer_left);
}

TEST(Handshake, RefusesWhoeverDoesNotBelong) {
  using Mismatch = std::tuple<const char*, void (*)(Parties&), const char*>;
  const std::vector<Mismatch> cases = {
      {"job", [](Parties& p) { p.dialler_party.identity.job ^= 1; }, "another job"},
      {"job, top bit", [](Parties& p) { p.dialler_party.identity.job ^= 1ULL << 63; },
       "another job"},
      {"generation", [](Parties& p) { ++p.dialler_party.identity.generation; },
       "another start of this job"},
      {"dialled the wrong rank", [](Parties& p) { p.dialled = 3; }, "another rank listens"},
      {"rank outside", [](Parties& p) { p.dialler_party.identity.rank = 4; }, "cannot have a peer"},
      {"the acceptor's own rank", [](Parties& p) { p.dialler_party.identity.rank = 2; },
       "cannot have a peer"},
      {"negative rank", [](Parties& p) { p.dialler_party.identity.rank = -1; },
       "cannot have a peer"},
      {"other secret", [](Parties& p) { p.dialler_secret[3] ^= std::byte{1}; }, "another secret"},
      {"shorter secret", [](Parties& p) { p.dialler_secret.pop_back(); }, "another secret"},
      {"no secret here", [](Parties& p) { p.dialler_secret.clear(); }, "asks for the job's secret"},
      {"no secret there", [](Parties& p) { p.acceptor_secret.clear(); }, "has no secret"},
  };
  for (const auto& [name, change, message] : cases) {
    SCOPED_TRACE(name);
    Parties pair;
    change(pair);
    auto [dialler, acceptor] = pair.run();
    EXPECT_EQ(dialler.state(), State::failed);
    EXPECT_NE(acceptor.state(), State::accepted);
    EXPECT_NE(acceptor.state(), State::proven);
    EXPECT_EQ(dialler.failure().code(), Errc::refused);
    EXPECT_THAT(dialler.failure().message(), HasSubstr(message));
  }
}

os::Address at(const char* endpoint) { return os::Address::parse_endpoint(endpoint).value(); }

TEST(Handshake, RefusesAConnectionThatAProgramPassesOn) {
  using Way = std::tuple<const char*, const char*, const char*, bool>;
  constexpr const char* kNone = "0.0.0.0:0";
  const std::vector<Way> ways = {
      {"127.0.0.1:4567", "127.0.0.1:4567", kNone, false},
      {"[::1]:4567", "[::1]:4567", kNone, false},
      {"127.0.0.1:4566", "127.0.0.1:4567", kNone, true},
      {"127.0.0.2:4567", "127.0.0.1:4567", kNone, true},
      {"[::1]:4567", "127.0.0.1:4567", kNone, true},
      {"127.0.0.1:4567", "192.0.2.9:4567", kNone, true},
      // No address of this host: forwarded by the network, to any port unless one is told.
      {"192.0.2.1:4567", "127.0.0.1:4567", kNone, false},
      {"192.0.2.1:9000", "127.0.0.1:4567", kNone, false},
      {"[2001:db8::1]:9000", "127.0.0.1:4567", kNone, false},
      {"192.0.2.1:4567", "127.0.0.1:4567", "0.0.0.0:4567", false},
      {"192.0.2.1:9000", "127.0.0.1:4567", "0.0.0.0:4567", true},
      {"192.0.2.1:9000", "127.0.0.1:4567", "192.0.2.1:9000", false},
      {"192.0.2.1:9001", "127.0.0.1:4567", "192.0.2.1:9000", true},
      // Told by the program, that forwards it itself.
      {"127.0.0.2:9000", "127.0.0.1:4567", "127.0.0.2:9000", false},
      {"127.0.0.3:9000", "127.0.0.1:4567", "127.0.0.2:9000", true},
  };
  for (const Purpose purpose : {Purpose::ranks, Purpose::store}) {
    for (const auto& [dialled, arrived, told, relayed] : ways) {
      SCOPED_TRACE(dialled);
      Parties pair;
      pair.address = at(dialled);
      pair.arrived = at(arrived);
      pair.acceptor_party.told = at(told);
      pair.dialler_party.purpose = pair.acceptor_party.purpose = purpose;
      auto [dialler, acceptor] = pair.run();
      EXPECT_EQ(acceptor.refusal() == Refusal::relayed, relayed);
      EXPECT_EQ(dialler.state() == State::accepted, !relayed);
      if (!relayed) continue;
      EXPECT_EQ(dialler.failure().code(), Errc::refused);
      for (const Handshake* side : {&dialler, &acceptor})
        EXPECT_THAT(side->failure().message(),
                    HasSubstr(std::string(dialled) +
                              " was dialled, and the connection has arrived at " + arrived));
    }
  }
}

TEST(Handshake, RanksAreDialledOnlyWhereTheyHaveTold) {
  for (const Purpose purpose : {Purpose::ranks, Purpose::store}) {
    Parties pair;
    pair.address = at("192.0.2.1:4567");  // by somebody who has changed what the acceptor has told
    pair.acceptor_party.told = pair.arrived = at("127.0.0.1:4567");
    pair.dialler_party.purpose = pair.acceptor_party.purpose = purpose;
    auto [dialler, acceptor] = pair.run();
    EXPECT_EQ(acceptor.refusal() == Refusal::relayed, purpose == Purpose::ranks);
  }
}

TEST(Handshake, SeesARelayThatSaysWhatTheAcceptorWantsToHear) {
  Parties pair;
  pair.address = at("127.0.0.1:4566");
  auto [dialler, acceptor] = pair.start();
  Bytes hello = take_out(dialler);
  constexpr std::size_t kPortAt = 12;
  hello[kPortAt] = static_cast<std::byte>(4567 & 0xff);
  acceptor.feed(hello);
  EXPECT_EQ(acceptor.state(), State::running);
  dialler.feed(take_out(acceptor));
  EXPECT_EQ(dialler.state(), State::failed);
  EXPECT_THAT(dialler.failure().message(), HasSubstr("pass the connection on"));
}

TEST(Handshake, RefusesAHelloOfAnotherVersionThoughItMayBeShorter) {
  for (const std::size_t first : {kLeastHelloBytes - 1, kHelloBytes}) {
    auto [dialler, acceptor] = Parties().start();
    Bytes hello = take_out(dialler);
    hello[8] = std::byte{9};  // version
    acceptor.feed(std::span(hello).first(first));
    if (first < kLeastHelloBytes) {
      EXPECT_EQ(acceptor.state(), State::running);
      acceptor.feed(std::span(hello).subspan(first, 1));
    }
    EXPECT_EQ(acceptor.state(), State::failed);
    EXPECT_EQ(acceptor.refusal(), Refusal::version);
    const Bytes reply = take_out(acceptor);
    ASSERT_EQ(reply.size(), kReplyBytes);
    dialler.feed(reply);
    EXPECT_EQ(dialler.state(), State::failed);
    EXPECT_THAT(dialler.failure().message(), HasSubstr("another version"));
  }
}

TEST(Handshake, BelievesNobodyWithoutAProofThatThePeerIsGone) {
  const Bytes secret = secret_of("s");
  constexpr std::size_t kRefusalAt = 12;
  // Said in a reply, by whoever listens there now, and not in a verdict behind the peer's proof.
  for (const Refusal said : {Refusal::leaving, Refusal::gone, Refusal::connected}) {
    auto dialler = Handshake::dialler({1, 4, 77, 5, secret}, 2, nonce_of(1), kPlace);
    auto other = Handshake::acceptor({2, 4, 78, 5, {}}, nonce_of(2), kPlace);
    other.feed(take_out(dialler));
    Bytes reply = take_out(other);
    ASSERT_EQ(reply.size(), kReplyBytes);
    ASSERT_NE(reply[kRefusalAt], std::byte{0});
    reply[kRefusalAt] = static_cast<std::byte>(said);
    dialler.feed(reply);
    EXPECT_EQ(dialler.state(), State::failed) << to_string(said);
    EXPECT_EQ(dialler.failure().code(), Errc::refused) << to_string(said);
  }
}

TEST(Handshake, SeesEveryChangedBit) {
  // A bit is changed on the way, in each message that carries a proof or is signed by one: the two
  // never both believe that they are connected as before.
  for (int message = 0; message < 3; ++message) {
    const std::size_t size = message == 0 ? kHelloBytes : message == 1 ? kReplyBytes : kProofBytes;
    for (std::size_t bit = 0; bit < size * 8; ++bit) {
      auto [dialler, acceptor] = Parties().start();
      for (int number = 0; number < 3; ++number) {
        Bytes bytes = take_out(number == 1 ? acceptor : dialler);
        if (number == message && bit / 8 < bytes.size())
          bytes[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
        (number == 1 ? dialler : acceptor).feed(bytes);
      }
      ASSERT_NE(acceptor.state(), State::proven) << "message " << message << ", bit " << bit;
    }
  }
}

TEST(Handshake, IsNotFooledByItsOwnWordsOrByOldOnes) {
  Parties pair;
  // Reflected: the acceptor's own proof does not prove the dialler.
  auto [dialler, acceptor] = pair.start();
  acceptor.feed(take_out(dialler));
  const Bytes reply = take_out(acceptor);
  auto honest = dialler;
  honest.feed(reply);
  const Bytes proof = take_out(honest);
  Bytes forged = proof;
  std::copy(reply.begin() + kReplyHeadBytes, reply.end(), forged.begin() + 8);
  auto victim = acceptor;
  victim.feed(forged);
  EXPECT_EQ(victim.state(), State::failed);
  // Replayed: the same dialler's words do not fit another nonce of the acceptor.
  auto again = Handshake::dialler(pair.dialler_party, 2, nonce_of(1), kPlace);
  auto later = Handshake::acceptor(pair.acceptor_party, nonce_of(3), kPlace);
  later.feed(take_out(again));
  later.feed(proof);
  EXPECT_EQ(later.state(), State::failed);
  // And the true ones do.
  acceptor.feed(proof);
  EXPECT_EQ(acceptor.state(), State::proven);
}

TEST(Handshake, DropsForeignProtocolsAtTheFirstWrongByte) {
  const Party mine{0, 2, 1, 1, {}};
  for (const std::string_view text :
       {"GET / HTTP/1.1\r\n", "SSH-2.0-x", "tuttist\x01", "tuttitr\x02", "x"}) {
    auto acceptor = Handshake::acceptor(mine, nonce_of(1), kPlace);
    acceptor.feed(std::as_bytes(std::span(text)));
    EXPECT_EQ(acceptor.state(), State::failed) << text;
    EXPECT_TRUE(acceptor.foreign()) << text;
    EXPECT_TRUE(acceptor.outgoing().empty()) << "an unknown peer gets no answer";
  }
  // Its own hello, as when a port is dialled from itself.
  auto dialler = Handshake::dialler(mine, 1, nonce_of(1), kPlace);
  dialler.feed(take_out(dialler));
  EXPECT_EQ(dialler.state(), State::failed);
}

TEST(Handshake, TakesNoMoreThanItWants) {
  auto [dialler, acceptor] = Parties().start();
  EXPECT_EQ(acceptor.wanted(), kHelloBytes);
  Bytes hello = take_out(dialler);
  hello.resize(hello.size() + 500, std::byte{0xff});
  acceptor.feed(hello);  // the rest is ignored
  EXPECT_EQ(acceptor.state(), State::running);
  EXPECT_EQ(acceptor.wanted(), kProofBytes);
  EXPECT_EQ(acceptor.peer(), 1);
}

TEST(Handshake, NamesBothKeysWhereTheyDiffer) {
  for (const Purpose purpose : {Purpose::ranks, Purpose::store}) {
    Parties pair;
    pair.acceptor_secret[0] ^= std::byte{1};
    pair.dialler_party = {1, 4, 77, 5, {}, false, purpose, "/one/key"};
    pair.acceptor_party = {2, 4, 77, 5, {}, false, purpose, "/two/key"};
    auto [dialler, acceptor] = pair.run(Refusal::none, 7);
    EXPECT_EQ(acceptor.refusal(), Refusal::other_key);
    EXPECT_EQ(dialler.failure().code(), Errc::refused);
    EXPECT_THAT(dialler.failure().message(),
                AllOf(HasSubstr("another secret"), HasSubstr("/one/key"), HasSubstr("/two/key"),
                      HasSubstr(os::host_name()), HasSubstr("copy the file"),
                      HasSubstr("--secret-file"), HasSubstr("TUTTI_INSECURE=1")));
  }
}

TEST(Handshake, EscapesTextOfAnUnknownPeer) {
  Parties pair;
  pair.dialler_secret[0] ^= std::byte{1};
  const std::string wild(1000, '\x1b');
  pair.acceptor_party.source = wild;
  auto [dialler, acceptor] = pair.run();
  EXPECT_EQ(acceptor.refusal(), Refusal::other_key);
  EXPECT_THAT(dialler.failure().message(),
              AllOf(HasSubstr("\\x1b"), testing::Not(HasSubstr("\x1b"))));
}

TEST(Handshake, AStoreTellsEarlyUsersFromLateOnes) {
  const std::uint64_t some = kUnorderedGeneration + 5;
  using OfAStore = std::tuple<std::uint64_t, std::uint64_t, Errc>;
  for (const auto& [served, wanted, expected] :
       {OfAStore{0, 5, Errc::ok}, OfAStore{2, 2, Errc::ok}, OfAStore{2, 3, Errc::peer_left},
        OfAStore{2, 1, Errc::refused}, OfAStore{2, some, Errc::peer_left},
        OfAStore{some, 2, Errc::peer_left}, OfAStore{some, some, Errc::ok},
        OfAStore{some, some + 1, Errc::peer_left}, OfAStore{some, some - 1, Errc::peer_left}}) {
    Parties pair;
    pair.dialled = 0;
    pair.dialler_party = {0, 1, 77, wanted, {}, false, Purpose::store};
    pair.acceptor_party = {0, 1, 77, served, {}, false, Purpose::store};
    auto [dialler, acceptor] = pair.run();
    EXPECT_EQ(dialler.failure().code(), expected) << served << " " << wanted;
    EXPECT_EQ(dialler.state() == State::accepted, expected == Errc::ok);
  }
}

TEST(Handshake, AStoreWaitsForTheProofOnceMoreInsideTheEncryption) {
  const Bytes secret = secret_of("0123456789abcdef");
  const Party party{0, 1, 77, 5, secret, true, Purpose::store};
  for (const bool forged : {false, true}) {
    auto dialler = Handshake::dialler(party, 0, nonce_of(1), kPlace);
    auto acceptor = Handshake::acceptor(party, nonce_of(2), kPlace);
    acceptor.feed(take_out(dialler));
    dialler.feed(take_out(acceptor));
    const Bytes proof = take_out(dialler);
    ASSERT_TRUE(dialler.wants_encryption());
    acceptor.feed(proof);
    ASSERT_TRUE(acceptor.wants_encryption());
    EXPECT_EQ(acceptor.state(), State::running) << "known before its first request can be there";
    EXPECT_EQ(acceptor.wanted(), 0U);
    EXPECT_EQ(acceptor.key_of_encryption().value(), dialler.key_of_encryption().value());
    acceptor.repeat();
    dialler.repeat();
    EXPECT_FALSE(dialler.wants_encryption() || acceptor.wants_encryption());
    Bytes again = take_out(dialler);
    EXPECT_EQ(again, proof);
    if (forged) again.back() ^= std::byte{1};
    acceptor.feed(again);
    ASSERT_EQ(acceptor.state(), forged ? State::failed : State::proven);
    if (!forged) acceptor.conclude(Refusal::none);
    dialler.feed(take_out(acceptor));
    EXPECT_EQ(dialler.state(), forged ? State::failed : State::accepted);
  }
}

TEST(Handshake, AStoreAndARankRefuseEachOther) {
  Parties pair;
  pair.dialler_party.purpose = Purpose::store;
  auto [dialler, acceptor] = pair.run();
  EXPECT_TRUE(acceptor.foreign());
}

TEST(Handshake, SeesAnotherVersionInTheFirstBytesOfAReply) {
  const Party mine{0, 2, 1, 1, {}, false, Purpose::store};
  auto dialler = Handshake::dialler(mine, 0, nonce_of(1), kPlace);
  auto acceptor = Handshake::acceptor(mine, nonce_of(2), kPlace);
  acceptor.feed(take_out(dialler));
  Bytes reply = take_out(acceptor);
  reply[8] = std::byte{2};  // as 0.1.0 begins its reply, which was shorter
  dialler.feed(std::span(reply).first(kFixedBytes));
  EXPECT_EQ(dialler.state(), State::failed);
  EXPECT_THAT(dialler.failure().message(), HasSubstr("another version"));
}

}  // namespace
}  // namespace tutti::secure
