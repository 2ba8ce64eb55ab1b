#include "rendezvous/interfaces.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <tuple>

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
    EXPECT_EQ(choice.status().code(), Errc::invalid_argument) << text;
    EXPECT_THAT(message_of(choice), HasSubstr("NCCL_SOCKET_IFNAME"));
  }
  std::string many = "e";
  for (int i = 0; i < 64; ++i) many += ",e";
  EXPECT_FALSE(parse_interfaces("V", many, false));
}

tutti::Result<OwnAddress> address_with(Variables variables, const std::string& master = "127.0.0.1",
                                       const std::string& interfaces = "") {
  Rendezvous rendezvous;
  rendezvous.master_addr = master;
  rendezvous.master_port = 1;
  Settings settings = settings_of(std::move(variables));
  settings.interfaces = interfaces;
  return our_address(rendezvous, settings, [](const std::string& name, const std::string& mine) {
    ADD_FAILURE() << "nobody need be asked for " << name << " " << mine;
    return tutti::Result<std::vector<std::string>>(std::vector<std::string>{});
  });
}

/// The one that must be found.
OwnAddress found(const tutti::Result<OwnAddress>& address) {
  EXPECT_TRUE(address) << message_of(address);
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

/// What a rank tells is the address on which it listens, without the port of the connection.
TEST(OurAddress, FollowsFromTheConnectionToTheStore) {
  for (const auto& [master, ours, stores, listens] :
       {std::tuple("10.0.0.1", "10.0.0.7", "10.0.0.1", "10.0.0.7"),
        {"node-0", "10.0.0.7", "10.0.0.1", "10.0.0.7"},
        {"fd00::1", "fd00::7", "fd00::1", "fd00::7"},
        {"127.0.0.1", "127.0.0.1", "127.0.0.1", "127.0.0.1"},
        {"127.0.0.2", "127.0.0.1", "127.0.0.2", "127.0.0.1"},
        {"::1", "::1", "::1", "::1"},
        {"localhost", "127.0.0.1", "127.0.0.1", "0.0.0.0"},
        {"ip6-localhost", "::1", "::1", "0.0.0.0"},
        // Its own store, by loopback, though others reach it by an address.
        {"10.0.0.1", "127.0.0.1", "127.0.0.1", "0.0.0.0"}}) {
    SCOPED_TRACE(master);
    const OwnAddress own = address_by_connection(master, Address::parse(ours, 40'000).value(),
                                                 Address::parse(stores, 29'500).value());
    EXPECT_EQ(own.listens, Address::parse(listens, 0).value());
    EXPECT_EQ(own.told, own.listens);
    EXPECT_EQ(own.store_host, Address::parse(stores, 0).value());
  }
}

TEST(OurAddress, TheVariablesHaveAnOrder) {
  // An interface that is not there tells which variable was read.
  auto own = address_with({{"TUTTI_SOCKET_IFNAME", "none0"},
                           {"GLOO_SOCKET_IFNAME", "none1"},
                           {"NCCL_SOCKET_IFNAME", "none2"}});
  EXPECT_THAT(message_of(own),
              AllOf(HasSubstr("TUTTI_SOCKET_IFNAME is \"none0\", but no interface of host "),
                    HasSubstr(" that is up matches it; there are"), HasSubstr(" lo")));
  EXPECT_EQ(own.status().code(), Errc::invalid_argument);
  auto gloo = address_with({{"GLOO_SOCKET_IFNAME", "none1"}, {"NCCL_SOCKET_IFNAME", "lo"}});
  EXPECT_THAT(message_of(gloo), HasSubstr("GLOO_SOCKET_IFNAME is \"none1\""));
  EXPECT_FALSE(address_with({{"GLOO_SOCKET_IFNAME", "l"}})) << "whole names there";
  auto nccl = address_with({{"TUTTI_SOCKET_IFNAME", ""}, {"NCCL_SOCKET_IFNAME", "l"}});
  EXPECT_EQ(found(nccl).told.host(), "127.0.0.1");
}

TEST(OurAddress, WhatTheProgramGivesGoesBeforeTheVariables) {
  const Variables told = {{"TUTTI_SOCKET_IFNAME", "none0"}, {"GLOO_SOCKET_IFNAME", "none1"}};
  EXPECT_EQ(found(address_with(told, "127.0.0.1", "=lo")).listens.host(), "127.0.0.1");
  EXPECT_THAT(message_of(address_with(told, "127.0.0.1", "none2")),
              HasSubstr("TUTTI_SOCKET_IFNAME is \"none2\""));
}

TEST(OurAddress, TheFamilyIsTheMasters) {
  const auto all = tutti::os::interfaces();
  if (std::ranges::none_of(all.value(), [](auto& one) { return one.address.host() == "::1"; }))
    GTEST_SKIP() << "no IPv6 on the loopback of this host";
  EXPECT_EQ(found(address_with({{"TUTTI_SOCKET_IFNAME", "=lo"}}, "::1")).listens.host(), "::1");
}

}  // namespace
