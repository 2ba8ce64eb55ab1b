// Ten thousand users and a thousand who say nothing: one loop serves them, in little memory.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include <tutti/store.hpp>

#include "os/socket.hpp"
#include "store/credentials.hpp"
#include "store/tcp_server.hpp"
#include "store/tcp_store.hpp"
#include "store/wire.hpp"

using namespace std::chrono_literals;
using namespace tutti::store;

namespace os = tutti::os;

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kUsers = 10'000;
constexpr std::size_t kSilent = 1'000;
constexpr std::size_t kSpare = 200;
constexpr long kMostKiB = 64 * 1024;

bool can_open(std::size_t descriptors) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_max < descriptors) return false;
  limit.rlim_cur = limit.rlim_max;
  return setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

// A server in a child; ends with this object.
class Server {
 public:
  Server() {
    int ends[2];
    if (pipe(ends) != 0) return;
    pid_ = fork();
    if (pid_ == 0) {
      auto server = TcpServer::start({.address = os::Address::parse("127.0.0.1", 0).value()});
      const std::uint16_t port = server ? (*server)->address().port() : 0;
      if (write(ends[1], &port, sizeof port) != sizeof port) _exit(1);
      while (true) pause();
    }
    close(ends[1]);
    if (read(ends[0], &port_, sizeof port_) != sizeof port_) port_ = 0;
    close(ends[0]);
  }
  ~Server() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  [[nodiscard]] std::uint16_t port() const { return port_; }
  /// The most memory it has ever had.
  [[nodiscard]] long peak_kib() const {
    std::ifstream status("/proc/" + std::to_string(pid_) + "/status");
    for (std::string line; std::getline(status, line);) {
      if (!line.starts_with("VmHWM:")) continue;
      std::istringstream numbers(line.substr(6));
      long value = 0;
      numbers >> value;
      return value;
    }
    return -1;
  }

 private:
  pid_t pid_ = -1;
  std::uint16_t port_ = 0;
};

os::Fd dial(std::uint16_t port) {
  auto fd = os::connect_tcp(os::Address::parse("127.0.0.1", port).value(), Clock::now() + 10s);
  EXPECT_TRUE(fd) << fd.status().message();
  return fd ? std::move(*fd) : os::Fd();
}

bool join(const os::Fd& fd) {
  const auto deadline = Clock::now() + 10s;
  auto handshake =
      tutti::secure::Handshake::dialler(store_party(), 0, {}, os::peer_address(fd.get()).value());
  std::array<std::byte, tutti::secure::kLongestFrame> buffer{};
  while (handshake.state() == tutti::secure::Handshake::State::running) {
    const auto words = handshake.outgoing();
    if (!os::send_all(fd.get(), words, deadline)) return false;
    handshake.sent(words.size());
    const auto bytes = std::span(buffer).first(handshake.wanted());
    if (!os::receive_all(fd.get(), bytes, deadline)) return false;
    handshake.feed(bytes);
  }
  return handshake.state() == tutti::secure::Handshake::State::accepted;
}

TEST(TcpStoreCrowd, TenThousandUsersAndAThousandSilentOnes) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer takes memory of its own";
#endif
  if (!can_open(kUsers + kSilent + kSpare)) {
    GTEST_SKIP() << "this machine lets a process have fewer than " << kUsers + kSilent + kSpare
                 << " descriptors (ulimit -Hn)";
  }
  const Server server;
  ASSERT_NE(server.port(), 0);
  const auto start = Clock::now();
  std::vector<os::Fd> silent;
  std::vector<os::Fd> users;
  Request wait;
  wait.op = Op::get;
  wait.timeout_ms = 60'000;
  wait.keys = {"go"};
  const std::vector<std::byte> frame = encode_request(wait, 1);
  for (std::size_t i = 0; i < kUsers; ++i) {
    if (i % (kUsers / kSilent) == 0) silent.push_back(dial(server.port()));
    users.push_back(dial(server.port()));
    ASSERT_TRUE(join(users.back())) << "user " << i;
    ASSERT_TRUE(os::send_all(users.back().get(), frame, Clock::now() + 10s));
  }
  const auto joined = Clock::now();

  // All wait now; one word wakes all.
  auto store = join_tcp_store({.port = server.port(), .timeout = 20s}, {}).store;
  EXPECT_EQ(store->add("busy", 1), 1);
  store->set("go", "now");
  for (const os::Fd& user : users) {
    std::array<std::byte, kHeaderBytes> head{};
    ASSERT_TRUE(os::receive_all(user.get(), head, Clock::now() + 20s));
    auto header = parse_header(head, {});
    ASSERT_TRUE(header);
    std::vector<std::byte> body(header->body_bytes);
    ASSERT_TRUE(os::receive_all(user.get(), body, Clock::now() + 20s));
    auto response = parse_response(*header, body, {});
    ASSERT_TRUE(response);
    ASSERT_EQ(response->values, std::vector<std::string>{"now"});
  }
  const auto woken = Clock::now();
  const long peak = server.peak_kib();
  std::printf(
      "%zu users joined in %.2f s and were woken in %.3f s; the server had at most %ld KiB\n",
      kUsers, std::chrono::duration<double>(joined - start).count(),
      std::chrono::duration<double>(woken - joined).count(), peak);
  EXPECT_GT(peak, 0);
  EXPECT_LE(peak, kMostKiB);
}

}  // namespace
