// A program of the acceptor's host that listens where a rank is expected, and passes all on to it.

#include "contract/transport/tcp_fixture.hpp"
#include "support/relay.hpp"

namespace tutti::transport::test {
namespace {

/// The status of rank 1 that dials rank 0 at the relay, at this address of the host.
Outcome dial_through_relay(const std::string& host, TcpOptions mine, TcpOptions theirs) {
  LoneRank acceptor(std::move(theirs));
  tutti::test::Relay relay(os::Address::parse(host, 0).value(), place_of(*acceptor.transport));
  mine.addresses = {relay.address().to_string(), ""};
  LoneRank dialler(std::move(mine));
  dialler.transport->send(0, head_of(1, 0), nullptr, 1);
  EXPECT_TRUE(dialler.until([&] {
    acceptor.transport->poll();
    return dialler.sink.lost(0) || acceptor.sink.received(1) > 0;
  }));
  EXPECT_FALSE(acceptor.sink.lost(1));
  return dialler.sink.lost(0) ? dialler.sink.peers[0].lost[0] : Outcome();
}

TEST(TcpRelay, IsRefusedByNameAtAnyAddressOfTheHost) {
  for (const char* const host : {"127.0.0.1", "127.0.0.2"}) {
    for (const bool encrypted : {false, true}) {
      const auto options = encrypted ? encrypted_options : plain_options;
      const Outcome why = dial_through_relay(host, options(1, 2), options(0, 2));
      expect_error(why, Errc::refused,
                   " was dialled, and the connection has arrived at 127.0.0.1:");
    }
  }
}

}  // namespace
}  // namespace tutti::transport::test
