#include <gtest/gtest.h>

#include "os/socket.hpp"
#include "store/tcp_store.hpp"

namespace tutti::store {
namespace {

TEST(ListeningAddress, IsTheLoopbackWhereThatIsToldLiterally) {
  for (const char* const host : {"127.0.0.1", "127.0.0.2", "127.255.0.9", "::1", "[::1]"}) {
    const os::Address address = listening_address(host, 29'500);
    EXPECT_EQ(address, os::Address::parse(host, 29'500).value());
  }
}

TEST(ListeningAddress, IsEveryOneElsewhere) {
  for (const char* const host : {"localhost", "ip6-localhost", "node-7", "10.0.0.1", "fd00::1",
                                 "128.0.0.1", "0.0.0.0", "::", "127.0.0.1.example.com", ""}) {
    const os::Address address = listening_address(host, 29'500);
    EXPECT_TRUE(address.is_unspecified()) << host;
    EXPECT_EQ(address.port(), 29'500) << host;
  }
}

/// Its owner reaches it by loopback, and so do users at any address of this host.
TEST(ListeningAddress, AStoreForOthersIsReachedAtEachAddress) {
  const JobSecret secret{std::vector<std::byte>(32, std::byte{'s'}), "of the test"};
  TcpStoreOptions options{.host = "no-such-host.invalid",  // nobody asks for it
                          .serve = true,
                          .timeout = std::chrono::seconds(10)};
  const JoinedStore owner = join_tcp_store(options, secret, nullptr, Listens::for_others);
  EXPECT_TRUE(owner.client->ends().ours.is_loopback());
  EXPECT_TRUE(owner.client->ends().servers.is_loopback());
  options.serve = false;
  options.port = owner.store->port();
  for (const char* const host : {"127.0.0.2", "localhost"}) {
    options.host = host;
    const JoinedStore user = join_tcp_store(options, secret);
    user.store->set("key", host);
    EXPECT_EQ(owner.store->get("key"), host);
    EXPECT_EQ(user.client->ends().servers.port(), options.port);
    EXPECT_NE(user.client->ends().ours.port(), options.port);
  }
}

}  // namespace
}  // namespace tutti::store
