#include "rendezvous/advertised_address.hpp"

#include <gmock/gmock.h>

#include <optional>
#include <string>
#include <vector>

#include "rendezvous/rendezvous.hpp"
#include "settings.hpp"

namespace tutti::rendezvous {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(AdvertisedAddress, IsAHostOrAHostAndAPort) {
  struct Case {
    const char* text;
    const char* host;
    int port;
  };
  for (const Case& one :
       {Case{"10.0.0.1", "10.0.0.1", 0}, Case{"10.0.0.1:7000", "10.0.0.1", 7000},
        Case{"node-1", "node-1", 0}, Case{"node_1.example.com:1", "node_1.example.com", 1},
        Case{"fd00::1", "fd00::1", 0}, Case{"[fd00::1]", "fd00::1", 0},
        Case{"[fd00::1]:65535", "fd00::1", 65535}, Case{"fd00::1:7000", "fd00::1:7000", 0},
        Case{"127.0.0.1:9", "127.0.0.1", 9}}) {
    auto advertised = parse_advertised(one.text);
    ASSERT_TRUE(advertised) << one.text << ": " << advertised.status().message();
    EXPECT_EQ(advertised->host, one.host);
    EXPECT_EQ(advertised->port, one.port);
  }
}

TEST(AdvertisedAddress, NonsenseIsTold) {
  for (const std::string& text : std::vector<std::string>{
           "", ":7000", "10.0.0.1:", "10.0.0.1:0", "10.0.0.1:65536", "10.0.0.1:7x", "a:b:c",
           "0.0.0.0", "[::]:7", "224.0.0.1", "255.255.255.255", "a b", "a/b:7", "[node-1]:7",
           std::string(254, 'a'), std::string(5000, ':')}) {
    auto advertised = parse_advertised(text);
    ASSERT_FALSE(advertised) << text;
    EXPECT_EQ(advertised.status().code(), Errc::invalid_argument);
    EXPECT_THAT(std::string(advertised.status().message()),
                AllOf(HasSubstr("TUTTI_ADVERTISE is \""), HasSubstr("HOST or HOST:PORT")));
    EXPECT_LT(advertised.status().message().size(), 1500U);
  }
}

TEST(PortOfLocalRank, IsTheFirstAndItsNumber) {
  EXPECT_EQ(port_of_local_rank("TUTTI_PORT", 7000, 0).value(), 7000);
  EXPECT_EQ(port_of_local_rank("TUTTI_PORT", 65535, 0).value(), 65535);
  EXPECT_EQ(port_of_local_rank("TUTTI_PORT", 7000, 7).value(), 7007);
  for (const auto& [first, local_rank] :
       {std::pair(65535, 1), std::pair(0, 1), std::pair(-1, 0), std::pair(65536, 0),
        std::pair(7000, -1), std::pair(7000, 2147483647)}) {
    const Status status = port_of_local_rank("TUTTI_PORT", first, local_rank).status();
    EXPECT_EQ(status.code(), Errc::invalid_argument);
    EXPECT_THAT(std::string(status.message()),
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
  ASSERT_TRUE(own) << own.status().message();
  OwnAddress found = own.value();
  EXPECT_EQ(found.listens.to_string(), listens);
  EXPECT_EQ(found.told.to_string(), told);
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
}

TEST(OurAdvertisedAddress, IsToldWhereTheRanksMeetInAFile) {
  expect_own(own_with("192.0.2.7:9000", 7000, ""), "0.0.0.0:7002", "192.0.2.7:9002");
}

TEST(OurAdvertisedAddress, NonsenseIsToldBeforeAnythingIsSent) {
  for (const auto& [advertise, port] : {std::pair("a b", 7000), std::pair("192.0.2.7:65534", 7000),
                                        std::pair("192.0.2.7", 65534)}) {
    EXPECT_EQ(own_with(advertise, port).status().code(), Errc::invalid_argument) << advertise;
  }
}

}  // namespace
}  // namespace tutti::rendezvous
