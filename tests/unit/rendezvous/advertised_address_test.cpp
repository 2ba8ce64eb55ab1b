#include "rendezvous/advertised_address.hpp"

#include <gmock/gmock.h>

#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "rendezvous/rendezvous.hpp"
#include "settings.hpp"

namespace tutti::rendezvous {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Lt;
using testing::SizeIs;

TEST(AdvertisedAddress, IsAHostOrAHostAndAPort) {
  for (const auto& [text, host, port] : {std::tuple("10.0.0.1", "10.0.0.1", 0),
                                         {"10.0.0.1:7000", "10.0.0.1", 7000},
                                         {"node-1", "node-1", 0},
                                         {"node_1.example.com:1", "node_1.example.com", 1},
                                         {"fd00::1", "fd00::1", 0},
                                         {"[fd00::1]", "fd00::1", 0},
                                         {"[fd00::1]:65535", "fd00::1", 65535},
                                         {"fd00::1:7000", "fd00::1:7000", 0},
                                         {"127.0.0.1:9", "127.0.0.1", 9}}) {
    auto advertised = parse_advertised(text);
    ASSERT_TRUE(advertised) << text << ": " << message_of(advertised);
    EXPECT_EQ(advertised->host, host);
    EXPECT_EQ(advertised->port, port);
  }
}

TEST(AdvertisedAddress, NonsenseIsTold) {
  for (const std::string& text : std::vector<std::string>{
           "", ":7000", "10.0.0.1:", "10.0.0.1:0", "10.0.0.1:65536", "10.0.0.1:7x", "a:b:c",
           "0.0.0.0", "[::]:7", "224.0.0.1", "255.255.255.255", "a b", "a/b:7", "[node-1]:7",
           std::string(254, 'a'), std::string(5000, ':')}) {
    auto advertised = parse_advertised(text);
    EXPECT_EQ(advertised.status().code(), Errc::invalid_argument) << text;
    EXPECT_THAT(message_of(advertised), AllOf(HasSubstr("TUTTI_ADVERTISE is \""),
                                              HasSubstr("HOST or HOST:PORT"), SizeIs(Lt(1500))));
  }
}

TEST(PortOfLocalRank, IsTheFirstAndItsNumber) {
  EXPECT_EQ(port_of_local_rank("TUTTI_PORT", 7000, 0).value(), 7000);
  EXPECT_EQ(port_of_local_rank("TUTTI_PORT", 65535, 0).value(), 65535);
  EXPECT_EQ(port_of_local_rank("TUTTI_PORT", 7000, 7).value(), 7007);
  for (const auto& [first, local_rank] :
       {std::pair(65535, 1), {0, 1}, {-1, 0}, {65536, 0}, {7000, -1}, {7000, 2147483647}}) {
    const auto port = port_of_local_rank("TUTTI_PORT", first, local_rank);
    EXPECT_EQ(port.status().code(), Errc::invalid_argument);
    EXPECT_THAT(message_of(port),
                AllOf(HasSubstr("TUTTI_PORT is"), HasSubstr("they are no port from 1 to 65535")));
  }
}

/// Of local rank 2, which reaches its store at 10.0.0.1 or, given none, meets somebody elsewhere.
Result<OwnAddress> own_with(const std::string& advertise, std::optional<int> port,
                            const std::string& master = "127.0.0.1") {
  Rendezvous rendezvous;
  rendezvous.master_addr = master;
  rendezvous.master_port = 1;
  rendezvous.local_rank = 2;
  Settings settings = settings_of({});
  settings.advertise = advertise;
  settings.port = port;
  return our_address(rendezvous, settings, [](const std::string&, const std::string& mine) {
    return Result<std::vector<std::string>>(std::vector<std::string>{mine, "elsewhere"});
  });
}

void expect_own(const Result<OwnAddress>& own, const std::string& listens,
                const std::string& told) {
  ASSERT_TRUE(own) << message_of(own);
  EXPECT_EQ(own.value().listens.to_string(), listens);
  EXPECT_EQ(own.value().told.to_string(), told);
}

TEST(OurAdvertisedAddress, IsToldInPlaceOfItsOwn) {
  expect_own(own_with("", {}), "127.0.0.1:0", "127.0.0.1:0");
  expect_own(own_with("", 7000), "127.0.0.1:7002", "127.0.0.1:0");  // told: that of the listener
  expect_own(own_with("192.0.2.7", {}), "0.0.0.0:0", "192.0.2.7:0");
  expect_own(own_with("192.0.2.7", 7000), "0.0.0.0:7002", "192.0.2.7:0");
  expect_own(own_with("192.0.2.7:9000", {}), "0.0.0.0:9002", "192.0.2.7:9002");
  expect_own(own_with("192.0.2.7:9000", 7000), "0.0.0.0:7002", "192.0.2.7:9002");
  expect_own(own_with("[2001:db8::7]:9000", 7000), "0.0.0.0:7002", "[2001:db8::7]:9002");
  // The others need not come in by another way where they come by loopback.
  expect_own(own_with("127.0.0.1:9000", {}), "127.0.0.1:9002", "127.0.0.1:9002");
  expect_own(own_with("localhost", {}), "127.0.0.1:0", "127.0.0.1:0");
  // Where the ranks meet in a file.
  expect_own(own_with("192.0.2.7:9000", 7000, ""), "0.0.0.0:7002", "192.0.2.7:9002");
}

TEST(OurAdvertisedAddress, NonsenseIsToldBeforeAnythingIsSent) {
  for (const auto& [advertise, port] :
       {std::pair("a b", 7000), {"192.0.2.7:65534", 7000}, {"192.0.2.7", 65534}})
    EXPECT_EQ(own_with(advertise, port).status().code(), Errc::invalid_argument) << advertise;
}

}  // namespace
}  // namespace tutti::rendezvous
