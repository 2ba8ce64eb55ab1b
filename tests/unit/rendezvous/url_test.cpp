#include "rendezvous/url.hpp"

#include <gmock/gmock.h>

using testing::HasSubstr;
using tutti::Errc;
using namespace tutti::rendezvous;

namespace {

TEST(Url, KnowsThreeSchemes) {
  const Url env = parse_url("env://").value();
  EXPECT_EQ(env.scheme, Url::Scheme::env);
  EXPECT_FALSE(env.rank || env.size);

  const Url tcp = parse_url("tcp://node-1:29500?rank=3&world_size=8").value();
  EXPECT_EQ(tcp.scheme, Url::Scheme::tcp);
  EXPECT_EQ(tcp.host, "node-1");
  EXPECT_EQ(tcp.port, 29500);
  EXPECT_EQ(tcp.rank, 3);
  EXPECT_EQ(tcp.size, 8);

  const Url file = parse_url("file:///tmp/a%20b c?world_size=2").value();
  EXPECT_EQ(file.scheme, Url::Scheme::file);
  EXPECT_EQ(file.path, "/tmp/a%20b c") << "as it stands there";
  EXPECT_EQ(file.size, 2);
  EXPECT_FALSE(file.rank);
}

TEST(Url, AddressesOfBothFamilies) {
  const Url v6 = parse_url("tcp://[::1]:80/").value();
  EXPECT_EQ(v6.host, "::1");
  EXPECT_EQ(v6.port, 80);
  EXPECT_EQ(parse_url("tcp://127.0.0.1:65535").value().host, "127.0.0.1");
}

TEST(Url, WhatIsWrongIsSaid) {
  const std::vector<std::pair<const char*, std::vector<std::string>>> cases = {
      {"is empty", {""}},
      {"bare path; write file:///tmp/file", {"/tmp/file"}},
      {"no scheme", {"tmp/file"}},
      {"unknown scheme \"http\"", {"http://host:80"}},
      {"unknown scheme \"\"", {"://"}},
      {"something behind env://", {"env://host"}},
      {"no host", {"tcp://", "tcp://:80", "tcp://[]:80"}},
      {"no port", {"tcp://host", "tcp://host:"}},
      {"ports are 1 to 65535",
       {"tcp://host:0", "tcp://host:65536", "tcp://host:-1", "tcp://host:80x"}},
      {"[ ] around an IPv6 address", {"tcp://::1:80"}},
      {"no ] behind", {"tcp://[::1:80"}},
      {"between ] and its port", {"tcp://[::1]80"}},
      {"no path", {"file://"}},
      {"three slashes", {"file://tmp/x"}},
      {"names a folder", {"file:///tmp/"}},
      {"not a whole number",
       {"tcp://h:1?rank=x", "tcp://h:1?rank=", "tcp://h:1?rank", "tcp://h:1?rank=99999999999"}},
      {"rank twice", {"tcp://h:1?rank=1&rank=2"}},
      {"unknown parameter \"size\"", {"tcp://h:1?size=1"}},
      {"unknown parameter \"\"", {"tcp://h:1?rank=1&&world_size=2"}},
      {"zero byte", {std::string("tcp://h\0:1", 10)}},
      {"is the limit", {"tcp://" + std::string(5000, 'h') + ":1"}},
  };
  for (const auto& [expected, texts] : cases) {
    for (const std::string& text : texts) {
      const tutti::Outcome status = parse_url(text).status();
      EXPECT_EQ(status.code(), Errc::invalid_argument) << text;
      EXPECT_THAT(status.message(), HasSubstr(expected)) << text;
      EXPECT_LT(status.message().size(), 1000U) << "long input makes no long message";
    }
  }
}

}  // namespace
