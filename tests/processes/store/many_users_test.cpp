// Ten thousand users and a thousand who say nothing: one loop serves them, in little memory.

#include <signal.h>
#include <sys/resource.h>

#include "support/programs.hpp"
#include "support/sanitized.hpp"
#include "unit/child.hpp"
#include "unit/os/pipe.hpp"
#include "unit/store/served.hpp"

namespace tutti::store {
namespace {

using namespace std::chrono_literals;

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
    test::Pipe pipe;
    pid_ = test::start_child([&] {
      const auto server = serve();
      const std::uint16_t port = server->address().port();
      if (write(pipe.write.get(), &port, sizeof port) != sizeof port) _exit(1);
      while (true) pause();
    });
    pipe.write.reset();
    if (read(pipe.read.get(), &port_, sizeof port_) != sizeof port_) port_ = 0;
  }
  ~Server() {
    kill(pid_, SIGKILL);
    (void)test::end_of(pid_);
  }
  [[nodiscard]] std::uint16_t port() const { return port_; }
  /// The most memory it has ever had.
  [[nodiscard]] long peak_kib() const {
    return std::stol(test::status_of(std::to_string(pid_), "VmHWM"));
  }

 private:
  pid_t pid_ = -1;
  std::uint16_t port_ = 0;
};

os::Fd dial(std::uint16_t port) {
  auto fd = os::connect_tcp(loopback(port), Clock::now() + 10s);
  EXPECT_TRUE(fd) << fd.status().message();
  return fd ? std::move(*fd) : os::Fd();
}

TEST(TcpStoreCrowd, TenThousandUsersAndAThousandSilentOnes) {
  if (test::kSanitized) GTEST_SKIP() << "a sanitizer takes memory of its own";
  if (!can_open(kUsers + kSilent + kSpare)) {
    GTEST_SKIP() << "this machine lets a process have fewer than " << kUsers + kSilent + kSpare
                 << " descriptors (ulimit -Hn)";
  }
  const Server server;
  ASSERT_NE(server.port(), 0);
  const auto start = Clock::now();
  std::vector<os::Fd> silent;
  std::vector<os::Fd> users;
  for (std::size_t i = 0; i < kUsers; ++i) {
    if (i % (kUsers / kSilent) == 0) silent.push_back(dial(server.port()));
    users.push_back(dial(server.port()));
    secure::Handshake handshake = dialler(users.back());
    ASSERT_TRUE(talk(users.back(), handshake)) << "user " << i;
    ASSERT_EQ(handshake.state(), secure::Handshake::State::accepted) << "user " << i;
    post(users.back(), get("go", 60'000));
  }
  const auto joined = Clock::now();

  // All wait now; one word wakes all.
  const auto store = join(server.port());
  EXPECT_EQ(store->add("busy", 1), 1);
  store->set("go", "now");
  for (const os::Fd& user : users) {
    ASSERT_EQ(next_answer(user).values, std::vector<std::string>{"now"});
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
}  // namespace tutti::store
