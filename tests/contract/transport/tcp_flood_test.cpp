// Many connections that prove nothing, at a rank that others still have to reach.

#include <sys/resource.h>

#include "contract/transport/raw_client.hpp"
#include "contract/transport/tcp_fixture.hpp"
#include "os/descriptors.hpp"
#include "unit/child.hpp"
#include "unit/os/pipe.hpp"

namespace tutti::transport::test {
namespace {

using namespace std::chrono_literals;

/// A rank with so much time that only the rule for full places drops a connection.
TcpOptions flooded(int rank, int size) {
  TcpOptions options = plain_options(rank, size);
  options.handshake_timeout = 10min;
  options.timeout_when_full = 200ms;
  options.link_timeout = 60s;
  return options;
}

/// Connections that say the hello of rank 1, which they have heard, and cannot go on.
std::vector<RawClient> replayed(const std::string& address, int count, int size) {
  const std::vector<std::byte> hello = hello_to(address, size);
  std::vector<RawClient> clients;
  for (int i = 0; i < count; ++i) clients.emplace_back(address).say(hello);
  return clients;
}

TEST(TcpFlood, HonestRanksDoNotDropEachOtherBehindReplayedHellos) {
  constexpr int kRanks = 200;
  ASSERT_TRUE(os::ensure_descriptors(2000, "this test"));
  LoneRank rank(flooded(0, kRanks + 1));
  // With these and the ranks all 256 + 201 places are taken, and some ranks wait for one.
  const auto clients = replayed(rank.transport->address(), 300, kRanks + 1);
  Diallers others(rank.transport->address(), kRanks, flooded);
  EXPECT_TRUE(rank.until([&] {
    others.poll();
    // They answer late: what has come is taken before any of them goes on.
    for (int i = 0; i < 100; ++i) rank.transport->poll();
    return others.connected();
  }));
  EXPECT_GE(rank.transport->counters().rests, 1U) << "the places were full";
  EXPECT_TRUE(std::ranges::none_of(
      others.all, [&](const auto& other) { return other->counters().redials > 5; }));
}

/// Opens so many files at once; whether it could.
bool can_open(int files) {
  std::vector<os::Fd> open;
  for (int i = 0; i < files; ++i) {
    open.emplace_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (!open.back().valid()) return false;
  }
  return true;
}

/// Rank 0 in a process with few descriptors: tells its port, and ends when rank 1 has come.
[[noreturn]] void run_with_few_descriptors(int port_to) {
  const rlimit limit{200, 200};
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) ::_exit(90);
  LoneRank rank(flooded(0, 2));
  const std::string address = rank.transport->address();
  if (::write(port_to, address.data(), address.size()) < 0) ::_exit(91);
  ::close(port_to);
  bool could_open = true;
  const bool come = rank.until([&] {
    could_open = could_open && can_open(40);
    return rank.sink.received(1) == 1;
  });
  ::_exit(!could_open ? 2 : come ? 0 : 3);
}

TEST(TcpFlood, LeavesDescriptorsToTheProgramAndRanksComeIn) {
  tutti::test::Pipe port;
  const pid_t child = tutti::test::start_child([&] {
    port.read.reset();
    run_with_few_descriptors(port.write.get());
  });
  port.write.reset();
  std::array<char, 64> text{};
  const ssize_t got = ::read(port.read.get(), text.data(), text.size());
  ASSERT_GT(got, 0);
  const std::string address(text.data(), static_cast<std::size_t>(got));
  ASSERT_TRUE(os::ensure_descriptors(500, "this test"));
  std::vector<RawClient> silent;
  for (int i = 0; i < 250; ++i) silent.emplace_back(address);
  LoneRank other(flooded(1, 2));
  ASSERT_TRUE(other.transport->set_addresses({address, ""}).ok());
  other.transport->send(0, head_of(1, 0), nullptr, 1);
  EXPECT_TRUE(other.until([&] { return other.transport->connected(0); }));
  (void)other.until([&] { return other.sink.lost(0); });  // its process ends
  EXPECT_EQ(tutti::test::end_of(child), 0) << "2: no descriptors were left; 3: no rank came in";
}

}  // namespace
}  // namespace tutti::transport::test
