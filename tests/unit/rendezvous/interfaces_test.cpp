#include "rendezvous/interfaces.hpp"

#include <gmock/gmock.h>

#include "os/route.hpp"
#include "rendezvous/rendezvous.hpp"
#include "settings.hpp"

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using tutti::Errc;
using tutti::os::Address;
using namespace tutti::rendezvous;

namespace {

std::optional<std::size_t> place(std::string_view text, std::string_view interface,
                                 bool exact = false) {
  auto choice = parse_interfaces("VARIABLE", text, exact);
  EXPECT_TRUE(choice) << choice.status().message();
  return choice->place_of(interface);
}

TEST(Interfaces, NamesAreBeginningsUnlessExact) {
  EXPECT_EQ(place("eth", "eth0"), 0U);
  EXPECT_EQ(place("eth0", "eth01"), 0U);
  EXPECT_EQ(place("=eth0", "eth01"), std::nullopt);
  EXPECT_EQ(place("=eth0", "eth0"), 0U);
  EXPECT_EQ(place("eth0", "eth01", true), std::nullopt);
  EXPECT_EQ(place("eth0", "wlan0"), std::nullopt);
}

TEST(Interfaces, ListsHaveAnOrder) {
  EXPECT_EQ(place("ib,eth", "eth0"), 1U);
  EXPECT_EQ(place("ib,eth", "ib1"), 0U);
  EXPECT_EQ(place("=ib0,eth0", "eth0"), 1U) << "the = is for all of them";
}

TEST(Interfaces, ACaretMeansAnyBut) {
  EXPECT_EQ(place("^docker,lo", "docker0"), std::nullopt);
  EXPECT_EQ(place("^docker,lo", "lo"), std::nullopt);
  EXPECT_EQ(place("^docker,lo", "eth0"), 0U);
  EXPECT_EQ(place("^=lo", "lo1"), 0U);
}

TEST(Interfaces, NonsenseIsTold) {
  for (const std::string& text :
       std::vector<std::string>{"", "^", "=", "eth0,", ",eth0", "eth 0", "=^eth0", "eth/0",
                                std::string(16, 'e'), std::string(5000, 'e')}) {
    auto choice = parse_interfaces("NCCL_SOCKET_IFNAME", text, false);
    ASSERT_FALSE(choice) << text;
    EXPECT_EQ(choice.status().code(), Errc::invalid_argument);
    EXPECT_THAT(std::string(choice.status().message()), HasSubstr("NCCL_SOCKET_IFNAME"));
  }
  std::string many = "e";
  for (int i = 0; i < 64; ++i) many += ",e";
  EXPECT_FALSE(parse_interfaces("V", many, false));
}

tutti::Result<OwnAddress> address_with(Variables variables,
                                       const std::string& master = "127.0.0.1") {
  Rendezvous rendezvous;
  rendezvous.master_addr = master;
  rendezvous.master_port = 1;
  return our_address(rendezvous, settings_of(std::move(variables)),
                     [](const std::string& name, const std::string& mine) {
                       ADD_FAILURE() << "nobody need be asked for " << name << " " << mine;
                       return tutti::Result<std::vector<std::string>>(std::vector<std::string>{});
                     });
}

/// The one that must be found.
OwnAddress found(const tutti::Result<OwnAddress>& address) {
  EXPECT_TRUE(address) << address.status().message();
  return address ? address.value() : OwnAddress();
}

TEST(OurAddress, IsTheOneTowardsTheMaster) {
  EXPECT_EQ(found(address_with({})).listens.host(), "127.0.0.1");
}

TEST(OurAddress, OfANameThatMeansTheLoopbackHereIsAnyOfTheStoresHost) {
  const OwnAddress address = found(address_with({}, "localhost"));
  EXPECT_TRUE(address.listens.is_unspecified());
  EXPECT_TRUE(address.told.is_unspecified());
  EXPECT_TRUE(address.store_host.is_loopback());
  const OwnAddress chosen = found(address_with({{"TUTTI_SOCKET_IFNAME", "=lo"}}, "localhost"));
  EXPECT_TRUE(chosen.listens.is_loopback() && chosen.told.is_loopback());
}

struct OfConnection {
  const char* master;
  const char* ours;
  const char* stores;
  const char* listens;
};

/// What a rank tells is the address on which it listens, without the port of the connection.
TEST(OurAddress, FollowsFromTheConnectionToTheStore) {
  for (const OfConnection& one :
       {OfConnection{"10.0.0.1", "10.0.0.7", "10.0.0.1", "10.0.0.7"},
        OfConnection{"node-0", "10.0.0.7", "10.0.0.1", "10.0.0.7"},
        OfConnection{"fd00::1", "fd00::7", "fd00::1", "fd00::7"},
        OfConnection{"127.0.0.1", "127.0.0.1", "127.0.0.1", "127.0.0.1"},
        OfConnection{"127.0.0.2", "127.0.0.1", "127.0.0.2", "127.0.0.1"},
        OfConnection{"::1", "::1", "::1", "::1"},
        OfConnection{"localhost", "127.0.0.1", "127.0.0.1", "0.0.0.0"},
        OfConnection{"ip6-localhost", "::1", "::1", "0.0.0.0"},
        // Its own store, by loopback, though others reach it by an address.
        OfConnection{"10.0.0.1", "127.0.0.1", "127.0.0.1", "0.0.0.0"}}) {
    const OwnAddress own =
        address_by_connection(one.master, Address::parse(one.ours, 40'000).value(),
                              Address::parse(one.stores, 29'500).value());
    EXPECT_EQ(own.listens, Address::parse(one.listens, 0).value()) << one.master;
    EXPECT_EQ(own.told, own.listens) << one.master;
    EXPECT_EQ(own.store_host, Address::parse(one.stores, 0).value()) << one.master;
  }
}

TEST(OurAddress, TheVariablesHaveAnOrder) {
  // An interface that is not there tells which variable was read.
  auto own = address_with({{"TUTTI_SOCKET_IFNAME", "none0"},
                           {"GLOO_SOCKET_IFNAME", "none1"},
                           {"NCCL_SOCKET_IFNAME", "none2"}});
  EXPECT_THAT(std::string(own.status().message()),
              AllOf(HasSubstr("TUTTI_SOCKET_IFNAME is \"none0\", but no interface of host "),
                    HasSubstr(" that is up matches it; there are"), HasSubstr(" lo")));
  EXPECT_EQ(own.status().code(), Errc::invalid_argument);
  auto gloo = address_with({{"GLOO_SOCKET_IFNAME", "none1"}, {"NCCL_SOCKET_IFNAME", "lo"}});
  EXPECT_THAT(std::string(gloo.status().message()), HasSubstr("GLOO_SOCKET_IFNAME is \"none1\""));
  auto beginning = address_with({{"GLOO_SOCKET_IFNAME", "l"}});
  EXPECT_FALSE(beginning) << "whole names there";
  auto nccl = address_with({{"TUTTI_SOCKET_IFNAME", ""}, {"NCCL_SOCKET_IFNAME", "l"}});
  EXPECT_EQ(found(nccl).told.host(), "127.0.0.1");
}

TEST(OurAddress, WhatTheProgramGivesGoesBeforeTheVariables) {
  Rendezvous rendezvous;
  rendezvous.master_addr = "127.0.0.1";
  rendezvous.master_port = 1;
  Settings settings =
      settings_of({{"TUTTI_SOCKET_IFNAME", "none0"}, {"GLOO_SOCKET_IFNAME", "none1"}});
  settings.interfaces = "=lo";
  EXPECT_EQ(found(our_address(rendezvous, settings, {})).listens.host(), "127.0.0.1");
  settings.interfaces = "none2";
  EXPECT_THAT(std::string(our_address(rendezvous, settings, {}).status().message()),
              HasSubstr("TUTTI_SOCKET_IFNAME is \"none2\""));
}

TEST(OurAddress, TheFamilyIsTheMasters) {
  auto all = tutti::os::interfaces();
  ASSERT_TRUE(all);
  bool has_v6 = false;
  for (const auto& one : *all) has_v6 = has_v6 || one.address.host() == "::1";
  if (!has_v6) GTEST_SKIP() << "no IPv6 on the loopback of this host";
  EXPECT_EQ(found(address_with({{"TUTTI_SOCKET_IFNAME", "=lo"}}, "::1")).listens.host(), "::1");
}

}  // namespace
