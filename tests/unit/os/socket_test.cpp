#include "os/socket.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include "os/route.hpp"
#include "unit/child.hpp"
#include "unit/os/pipe.hpp"

using namespace std::chrono_literals;
using tutti::Errc;
using namespace tutti::os;

namespace {

Deadline soon() { return std::chrono::steady_clock::now() + 5s; }

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

TEST(Address, NumericHostsComeBackAsTheyWere) {
  for (const char* host : {"127.0.0.1", "0.0.0.0", "255.255.255.255", "10.1.2.3", "::1",
                           "::", "2001:db8::1", "fe80::1%lo", "::ffff:1.2.3.4"}) {
    SCOPED_TRACE(host);
    const Address address = Address::parse(host, 29500).value();
    EXPECT_EQ(address.host(), host);
    EXPECT_EQ(address.port(), 29500);
    EXPECT_EQ(Address::parse_endpoint(address.to_string()).value(), address);
  }
}

TEST(Address, JunkIsRefused) {
  for (const char* host : {"", "localhost", "1.2.3", "1.2.3.4.5", "256.0.0.1", "1.2.3.4 ",
                           "[1.2.3.4]", "::1::", "[::1", "fe80::1%nosuchinterface", "0x7f.1"}) {
    EXPECT_EQ(Address::parse(host, 1).status().code(), Errc::invalid_argument) << host;
  }
  EXPECT_FALSE(Address::parse(std::string_view("127.0.0.1\0x", 11), 1));
  EXPECT_THAT(Address::parse("a\x1b", 1).status().message(), testing::HasSubstr(R"("a\x1b")"));
  for (const char* text : {"", ":", "1.2.3.4", "1.2.3.4:", "1.2.3.4:x", "1.2.3.4:65536", "::1:80",
                           "[::1]", "1.2.3.4:-1", "1.2.3.4: 1"}) {
    EXPECT_EQ(Address::parse_endpoint(text).status().code(), Errc::invalid_argument) << text;
  }
}

TEST(Address, KindsAreKnown) {
  const auto address = [](const char* host) { return Address::parse(host, 1).value(); };
  for (const char* host : {"127.3.2.1", "::1"}) EXPECT_TRUE(address(host).is_loopback()) << host;
  EXPECT_FALSE(address("10.0.0.1").is_loopback());
  for (const char* host : {"224.0.0.1", "239.255.255.255", "ff02::1"})
    EXPECT_TRUE(address(host).is_multicast()) << host;
  EXPECT_FALSE(address("240.0.0.1").is_multicast());
  for (const char* host : {"0.0.0.0", "::"}) EXPECT_TRUE(address(host).is_unspecified()) << host;
  EXPECT_TRUE(address("255.255.255.255").is_broadcast());
  EXPECT_FALSE(address("127.0.0.1") == Address::parse("127.0.0.1", 2).value());
  EXPECT_FALSE(address("::ffff:127.0.0.1") == address("127.0.0.1"));
}

TEST(Address, HostsAreSixteenBytesOnAnotherHost) {
  for (const char* const endpoint : {"10.0.0.1:80", "[::1]:443", "[2001:db8::7]:65535"}) {
    const Address address = Address::parse_endpoint(endpoint).value();
    EXPECT_EQ(Address::from_host_bytes(address.host_bytes(), address.port()), address) << endpoint;
  }
  const auto mapped = Address::parse("::ffff:10.0.0.1", 80).value();
  EXPECT_EQ(mapped.host_bytes(), Address::parse("10.0.0.1", 80).value().host_bytes());
}

TEST(Address, ThoseOfThisHostAreKnown) {
  for (const auto& [host, own] : {std::pair("127.0.0.1", true),
                                  {"127.8.9.1", true},
                                  {"::1", true},
                                  {"192.0.2.1", false},
                                  {"2001:db8::1", false}})
    EXPECT_EQ(is_own_address(Address::parse(host, 80).value()), own) << host;
  const auto all = interfaces();
  for (const Interface& one : all.value()) EXPECT_TRUE(is_own_address(one.address)) << one.name;
}

TEST(Address, NamesAreResolved) {
  const Address address = Address::resolve("localhost", 80).value().front();
  EXPECT_TRUE(address.is_loopback());
  EXPECT_EQ(address.port(), 80);
  EXPECT_EQ(Address::resolve("", 1).status().code(), Errc::invalid_argument);
}

struct Pair {
  Fd server;
  Fd client;
};

Fd listening(const Address& address, int backlog = SOMAXCONN) {
  auto listener = listen_tcp(address, backlog);
  EXPECT_TRUE(listener) << listener.status().message();
  return listener ? std::move(listener).value() : Fd();
}
Fd listening(const char* host) { return listening(Address::parse(host, 0).value()); }

/// A connection to the listener from this address.
Pair connected(const Fd& listener, const Address& address) {
  auto client = connect_tcp(address, soon());
  EXPECT_TRUE(client) << client.status().message();
  EXPECT_TRUE(wait_ready(listener.get(), POLLIN, soon()).value());
  auto server = accept_connection(listener.get());
  EXPECT_TRUE(server && server->valid());
  return {std::move(server).value(), std::move(client).value()};
}
Pair connected(const char* host) {
  const Fd listener = listening(host);
  const Address address = local_address(listener.get()).value();
  EXPECT_NE(address.port(), 0);
  Pair pair = connected(listener, address);
  EXPECT_FALSE(accept_connection(listener.get())->valid()) << "nobody else waits";
  return pair;
}

bool has_ipv6() { return listen_tcp(Address::parse("::1", 0).value()).ok(); }

TEST(Socket, TalksOverIpv4AndIpv6) {
  for (const char* host : {"127.0.0.1", "::1"}) {
    if (std::string_view(host) == "::1" && !has_ipv6()) continue;
    Pair pair = connected(host);
    EXPECT_TRUE(set_no_delay(pair.client.get()));
    EXPECT_TRUE(set_keep_alive(pair.client.get(), std::chrono::seconds(15)));
    EXPECT_TRUE(peer_address(pair.server.get()).value() ==
                local_address(pair.client.get()).value());
    // More than the kernel keeps, in both directions' buffers.
    std::vector<std::byte> sent(std::size_t{8} << 20);
    for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<std::byte>(i * 31);
    std::vector<std::byte> got(sent.size());
    std::thread sender([&] { EXPECT_TRUE(send_all(pair.client.get(), sent, soon())); });
    EXPECT_TRUE(receive_all(pair.server.get(), got, soon()));
    sender.join();
    EXPECT_TRUE(got == sent);
    pair.client.reset();
    EXPECT_EQ(receive_all(pair.server.get(), got, soon()).code(), Errc::peer_lost);
  }
}

TEST(Socket, TheUnspecifiedAddressMeansAllOfBothFamilies) {
  for (const char* host : {"0.0.0.0", "::"}) {
    const Fd listener = listening(host);
    const std::uint16_t port = local_address(listener.get())->port();
    for (const char* dialled : {"127.0.0.1", "127.0.0.2", "::1"}) {
      if (std::string_view(dialled) == "::1" && !has_ipv6()) continue;
      SCOPED_TRACE(std::string(host) + ", " + dialled);
      const Pair pair = connected(listener, Address::parse(dialled, port).value());
      // IPv4 in its own form, on whatever socket it has come.
      EXPECT_EQ(peer_address(pair.server.get()).value(), local_address(pair.client.get()).value());
    }
  }
}

/// A silent peer is told after the limit, and after three seconds at least: one lost packet
/// ends no connection.
TEST(Socket, KeepAliveEndsAtTheLimit) {
  Pair pair = connected("127.0.0.1");
  const auto option = [&](int name) {
    int value = -1;
    socklen_t size = sizeof value;
    EXPECT_EQ(getsockopt(pair.client.get(), IPPROTO_TCP, name, &value, &size), 0);
    return value;
  };
  for (const int seconds : {1, 2, 3, 4, 7, 10, 15, 60, 1800, 32767}) {
    ASSERT_TRUE(set_keep_alive(pair.client.get(), std::chrono::seconds(seconds)));
    const int asking = option(TCP_KEEPCNT) * option(TCP_KEEPINTVL);
    EXPECT_EQ(option(TCP_KEEPIDLE) + asking, std::max(seconds, 3));
    EXPECT_GE(option(TCP_KEEPCNT), 2);
    EXPECT_LE(option(TCP_KEEPCNT), 5);
    EXPECT_GE(asking, std::max(seconds, 3) / 2) << "a gap of half of " << seconds << " s";
  }
}

TEST(Socket, RefusedAndTimeoutAreToldApart) {
  const Address nobodys = local_address(listening("127.0.0.1").get()).value();
  EXPECT_EQ(connect_tcp(nobodys, soon()).status().code(), Errc::refused);

  // A full backlog: the kernel lets further callers wait.
  const Fd full = listening(Address::parse("127.0.0.1", 0).value(), 0);
  const Address full_address = local_address(full.get()).value();
  std::vector<tutti::Result<Fd>> callers;
  for (bool connects = true; connects && callers.size() < 8; connects = callers.back().ok())
    callers.push_back(connect_tcp(full_address, std::chrono::steady_clock::now() + 100ms));
  EXPECT_EQ(callers.back().status().code(), Errc::timeout);
}

TEST(Socket, ReceivingDoesNotBlockOrEndsAtTheDeadline) {
  Pair pair = connected("127.0.0.1");
  std::byte one;
  EXPECT_EQ(receive_some(pair.server.get(), {&one, 1}).value(), 0U);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(receive_all(pair.server.get(), {&one, 1}, start + 30ms).code(), Errc::timeout);
  EXPECT_GE(std::chrono::steady_clock::now() - start, 30ms);
}

TEST(Socket, AnAddressCanBeListenedOnAgainAtOnce) {
  Address address = Address::parse("127.0.0.1", 0).value();
  for (int i = 0; i < 10; ++i) {
    const Fd listener = listening(address);
    address = local_address(listener.get()).value();
    Pair pair = connected(listener, address);
    // The server closes first: its side of the connection lingers in the kernel.
    pair.server.reset();
    std::byte one;
    EXPECT_EQ(receive_all(pair.client.get(), {&one, 1}, soon()).code(), Errc::peer_lost);
  }
  const Fd first = listening(address);
  EXPECT_FALSE(listen_tcp(address)) << "but not twice at the same time";
}

constexpr uid_t kNobody = 65534;

std::string unique_name() {
  return "tutti-socket-test-" + std::to_string(getpid()) + "-" +
         std::to_string(std::chrono::steady_clock::now().time_since_epoch().count());
}

TEST(UnixSocket, DescriptorsAreHandedOver) {
  const std::string name = unique_name();
  const Fd listener = listen_unix(name).value();
  EXPECT_FALSE(listen_unix(name)) << "the name is taken";
  const Fd client = connect_unix(name).value();
  const Fd server = accept_connection(listener.get()).value();

  const tutti::test::Pipe pipe;
  ASSERT_TRUE(send_fds(client.get(), std::array{pipe.write.get(), pipe.read.get()}, bytes_of("two"),
                       soon()));
  std::array<std::byte, 16> buffer;
  auto received = receive_fds(server.get(), buffer, soon());
  ASSERT_TRUE(received) << received.status().message();
  EXPECT_EQ(received->bytes, 3U);
  ASSERT_EQ(received->fds.size(), 2U);
  EXPECT_NE(fcntl(received->fds[0].get(), F_GETFD) & FD_CLOEXEC, 0) << "no program inherits it";
  ASSERT_EQ(write(received->fds[0].get(), "x", 1), 1);
  char got = 0;
  ASSERT_EQ(read(pipe.read.get(), &got, 1), 1);
  EXPECT_EQ(got, 'x');
}

/// Two connected unix stream sockets.
std::pair<Fd, Fd> unix_pair() {
  std::array<int, 2> fds{};
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds.data()), 0);
  return {Fd(fds[0]), Fd(fds[1])};
}

/// Sends more descriptors than a user without privileges may have under way, to somebody who takes
/// them late. Returns what went wrong, or nothing.
std::string hand_over_many() {
  if (geteuid() == 0 && setresuid(kNobody, kNobody, kNobody) != 0) return "cannot be tried";
  constexpr int kMost = 32;
  constexpr int kMessages = 2 * kMost;  // nobody may have more than kMost under way
  const rlimit few{kMost, kMost};
  auto [ours, theirs] = unix_pair();
  if (!theirs.valid() || setrlimit(RLIMIT_NOFILE, &few) != 0) return "cannot be tried";
  const auto send = [fd = ours.get()] {
    return std::string(send_fds(fd, std::array{0}, bytes_of("x"), soon()).message());
  };
  std::string wrong = send();
  if (!wrong.empty()) return wrong;
  std::atomic<bool> held_up = false;
  std::thread taker([&, fd = theirs.get()] {
    std::this_thread::sleep_for(50ms);
    held_up = true;
    std::array<std::byte, 1> byte;
    for (int i = 0; i <= kMessages; ++i) (void)receive_fds(fd, byte, soon());
  });
  for (int i = 0; i < kMessages && wrong.empty(); ++i) wrong = send();
  if (wrong.empty() && !held_up) wrong = "nothing was in the way: tests nothing";
  if (!wrong.empty()) ours.reset();  // the taker waits for no more
  taker.join();
  if (!wrong.empty()) return wrong;
  std::string late;  // nobody takes these
  for (int i = 0; i < kMessages && late.empty(); ++i)
    late = send_fds(ours.get(), std::array{0}, bytes_of("x"), std::chrono::steady_clock::now())
               .message();
  if (late.find("(ulimit -Hn)") == std::string::npos) wrong = "it is told: " + late;
  return wrong;
}

TEST(UnixSocket, DescriptorsThatWaitToBeTakenHoldOthersUpAndNoMore) {
  const int end = tutti::test::end_of(tutti::test::start_child([] {
    const std::string wrong = hand_over_many();
    std::fputs(wrong.c_str(), stderr);
    _exit(wrong.empty() ? 0 : wrong == "cannot be tried" ? 77 : 1);
  }));
  if (end == 77) GTEST_SKIP() << "needs to be another user";
  EXPECT_EQ(end, 0);
}

TEST(UnixSocket, LimitsAndTheEndAreErrors) {
  auto [ours, theirs] = unix_pair();
  const std::vector<int> many(kMaxFdsPerMessage + 1, 0);
  EXPECT_EQ(send_fds(ours.get(), many, bytes_of("x"), soon()).code(), Errc::invalid_argument);
  EXPECT_EQ(send_fds(ours.get(), {}, {}, soon()).code(), Errc::invalid_argument);
  std::array<std::byte, 4> buffer;
  const auto now = std::chrono::steady_clock::now();
  EXPECT_EQ(receive_fds(theirs.get(), buffer, now + 10ms).status().code(), Errc::timeout);
  ours.reset();
  EXPECT_EQ(receive_fds(theirs.get(), buffer, soon()).status().code(), Errc::peer_lost);
  EXPECT_FALSE(listen_unix(""));
  EXPECT_FALSE(listen_unix(std::string(108, 'n')));
  EXPECT_FALSE(connect_unix(unique_name()));
}

}  // namespace
