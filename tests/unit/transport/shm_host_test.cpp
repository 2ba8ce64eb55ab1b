#include <gmock/gmock.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "os/descriptors.hpp"
#include "os/socket.hpp"
#include "support/sanitized.hpp"
#include "transport/shm/host.hpp"
#include "unit/child.hpp"
#include "unit/in_threads.hpp"
#include "unit/os/limit.hpp"
#include "unit/os/pipe.hpp"

// Everybody in a network namespace can connect to the abstract socket where the ranks of a host
// hand in their memory.
namespace tutti::transport::shm {
namespace {

using namespace std::chrono_literals;

// Far more than it takes, and far less than waiting for one connection after the other.
constexpr auto kDeadline = 12s;

std::chrono::steady_clock::time_point in_time() {
  return std::chrono::steady_clock::now() + kDeadline;
}

/// The first message of a rank of a job without a secret.
DescriptorHeader hello_of(int rank, std::uint64_t nonce) {
  DescriptorHeader header{.rank = rank};
  std::memcpy(header.proof.data(), &nonce, sizeof nonce);
  return header;
}

DescriptorHeader descriptors_of(int rank) { return {.rank = rank, .word = Word::descriptors}; }

void send_header(const os::Fd& to, const DescriptorHeader& header, std::size_t descriptors) {
  const os::Fd event(::eventfd(0, EFD_CLOEXEC));  // as good as a death pipe that tells of no end
  const std::vector<int> fds(descriptors, event.get());
  const std::span<const DescriptorHeader> one(&header, 1);
  // The other side may have hung up already.
  (void)os::send_fds(to.get(), fds, std::as_bytes(one), in_time());
}

/// What comes, and with how many descriptors; nothing where the other side has hung up.
std::pair<std::optional<DescriptorHeader>, std::size_t> hear_hello(const os::Fd& from) {
  DescriptorHeader header;
  auto got = os::receive_fds(from.get(), std::as_writable_bytes(std::span(&header, 1)), in_time());
  if (!got) return {std::nullopt, 0};
  return {header, got->fds.size()};
}

class SharedMemory : public ::testing::Test {
 protected:
  void SetUp() override {
    for (int rank = 0; rank < kRanks; ++rank) {
      auto host = Host::prepare(rank, "");
      ASSERT_TRUE(host) << host.status().message();
      worker_addresses.push_back((*host)->worker_address());
      hosts.push_back(std::move(*host));
      ranks.push_back(rank);
    }
  }
  /// All ranks join; what became of it, by rank.
  std::vector<Outcome> join() {
    const auto deadline = in_time();
    std::vector<Outcome> outcomes(hosts.size());
    test::in_threads(static_cast<int>(hosts.size()), [&](int rank) {
      const auto at = static_cast<std::size_t>(rank);
      outcomes[at] = hosts[at]->join(ranks, worker_addresses, secret, deadline);
    });
    return outcomes;
  }
  void expect_joined() {
    for (const Outcome& outcome : join()) EXPECT_TRUE(outcome.ok()) << outcome.message();
  }
  /// A connection to where rank 0 collects; invalid: its line is full.
  [[nodiscard]] os::Fd connect() const {
    auto connection = os::connect_unix(hosts.back()->socket_name(worker_addresses.front()));
    if (connection) return std::move(*connection);
    EXPECT_EQ(connection.status().code(), Errc::timeout) << connection.status().message();
    return {};
  }
  static void say(const os::Fd& connection, const std::string& words) {
    auto sent = os::send_some(connection.get(), std::as_bytes(std::span(words)));
    ASSERT_TRUE(sent);
    EXPECT_EQ(*sent, words.size());
  }

  static constexpr int kRanks = 3;
  std::vector<std::unique_ptr<Host>> hosts;
  std::vector<HostAddress> worker_addresses;
  std::vector<int> ranks;
  std::vector<std::byte> secret;  ///< none
};

TEST_F(SharedMemory, IsJoinedByAllRanks) {
  expect_joined();
  EXPECT_EQ(hosts[1]->regions().peers.size(), 3U);
  EXPECT_EQ(hosts[1]->regions().peers[2].words().rank, 2);
}

TEST_F(SharedMemory, OfAnotherVersionIsRefused) {
  const os::Fd memory = HostMemory::make(2).value();
  {
    const os::Mapping first = os::map_shared(memory, sizeof(HostHeader), true).value();
    reinterpret_cast<HostHeader*>(first.data())->version += 1;
  }
  const auto mapped = HostMemory::map(os::Fd(::dup(memory.get())), 2, 77);
  EXPECT_EQ(mapped.status().code(), Errc::refused) << mapped.status().message();
  const auto of_three = HostMemory::map(os::Fd(::dup(memory.get())), 3, 78);
  EXPECT_EQ(of_three.status().code(), Errc::refused) << "its size is another one";
}

/// A child that maps the memory of a host, and writes at an offset: the signal that ended it.
int signal_of_write(const os::Fd& memory, std::size_t ranks, std::size_t own, std::size_t offset) {
  const int end = test::end_of(test::start_child([&] {
    auto mapped = HostMemory::map(os::Fd(::dup(memory.get())), ranks, ::getpid());
    if (!mapped || !(*mapped)->own(own, 0)) _exit(2);
    const RegionPeer first = (*mapped)->peer(0, own).value();
    std::byte* const begin = const_cast<std::byte*>(first.arena) - HostLayout{ranks}.arena(0);
    (void)::signal(SIGSEGV, [](int) { _exit(SIGSEGV); });
    *reinterpret_cast<volatile std::byte*>(begin + offset) = std::byte{1};
  }));
  return end;
}

TEST_F(SharedMemory, ArenaIsWrittenByItsRankAlone) {
  if (test::kSanitized) GTEST_SKIP() << "sanitizers take the signal";
  constexpr std::size_t kThree = 3;
  const os::Fd memory = HostMemory::make(kThree).value();
  const HostLayout layout{kThree};
  for (const std::size_t offset :
       {layout.words(0), layout.block(4095, 2), layout.arena(1), layout.arena(1) + kArenaBytes - 1})
    EXPECT_EQ(signal_of_write(memory, kThree, 1, offset), 0) << offset;
  for (const std::size_t offset : {layout.arena(1) - 1, layout.arena(2), layout.arena(0)})
    EXPECT_EQ(signal_of_write(memory, kThree, 1, offset), SIGSEGV) << offset;
}

TEST_F(SharedMemory, SilentConnectionsDelayNobody) {
  std::vector<os::Fd> connections;
  for (int i = 0; i < 10; ++i) {
    connections.push_back(connect());
    ASSERT_TRUE(connections.back().valid());
  }
  const auto begin = std::chrono::steady_clock::now();
  expect_joined();
  EXPECT_LT(std::chrono::steady_clock::now(), begin + kDeadline) << "not by giving them up at last";
}

TEST_F(SharedMemory, GarbageIsDropped) {
  std::vector<os::Fd> connections;
  // Too short, as long as what is expected, too long.
  for (const std::size_t size : {1U, 63U, 64U, 5000U}) {
    connections.push_back(connect());
    say(connections.back(), std::string(size, 'x'));
  }
  // A header that looks right, but comes without descriptors, or of no rank.
  for (const int rank : {1, 99, -1}) {
    const DescriptorHeader header = hello_of(rank, 7);
    connections.push_back(connect());
    say(connections.back(), std::string(reinterpret_cast<const char*>(&header), sizeof header));
  }
  (void)connect();  // hangs up at once
  expect_joined();
}

TEST_F(SharedMemory, WhoGuessesARankIsNotTakenForIt) {
  const os::Fd connection = connect();
  send_header(connection, hello_of(1, worker_addresses[1].nonce + 1), 0);
  const os::Fd at_once = connect();
  send_header(at_once, hello_of(1, worker_addresses[1].nonce + 1), kDescriptors);
  expect_joined();
  for (const os::Fd* const one : {&connection, &at_once}) {
    const auto [words, descriptors] = hear_hello(*one);
    EXPECT_FALSE(words) << "is told the nonce of the leader, by which it could pose as it";
    EXPECT_EQ(descriptors, 0U);
  }
}

TEST_F(SharedMemory, NoncesOfWorkerAddressesAreNoProofWhereThereIsASecret) {
  secret.assign(32, std::byte{'s'});
  const os::Fd connection = connect();
  send_header(connection, hello_of(1, worker_addresses[1].nonce), 0);
  expect_joined();
  EXPECT_FALSE(hear_hello(connection).first);
}

TEST_F(SharedMemory, RanksWithUnlikeSecretsDoNotShareIt) {
  const auto deadline = std::chrono::steady_clock::now() + 1s;
  test::in_threads(2, [&](int rank) {
    const std::vector<std::byte> own(32, rank == 0 ? std::byte{'a'} : std::byte{'b'});
    const Outcome outcome =
        hosts[static_cast<std::size_t>(rank)]->join({0, 1}, worker_addresses, own, deadline);
    EXPECT_FALSE(outcome.ok());
  });
}

TEST_F(SharedMemory, ThatIsHandedOutCannotBeReopenedByAnotherUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can run a process of another user";
  std::vector<Outcome> outcomes(2);
  test::in_threads(2, [&](int rank) {
    if (rank == 0) {  // it fails when rank 1, which is played below, hangs up
      outcomes[0] = hosts[0]->join({0, 1}, worker_addresses, secret, in_time());
      return;
    }
    const os::Fd connection = connect();
    os::take_descriptors(connection.get(), true);
    send_header(connection, hello_of(1, worker_addresses[1].nonce), 0);
    ASSERT_TRUE(hear_hello(connection).first);
    send_header(connection, descriptors_of(1), kDescriptors);
    auto handed = receive_message(connection.get(), in_time());
    ASSERT_TRUE(handed) << handed.status().message();
    ASSERT_EQ(handed->fds.size(), kDescriptors);
    const int end = test::end_of(test::start_child([&] {
      const std::string path = "/proc/self/fd/" + std::to_string(handed->fds.front().get());
      if (::setgid(54325) != 0 || ::setuid(54325) != 0 || ::prctl(PR_SET_DUMPABLE, 1) != 0)
        _exit(2);
      _exit(::open(path.c_str(), O_RDWR) < 0 && errno == EACCES ? 0 : 3);
    }));
    EXPECT_EQ(end, 0);
  });
  EXPECT_FALSE(outcomes[0].ok());
}

TEST_F(SharedMemory, ProcessThatTakesTheNameOfADeadLeaderGetsNothing) {
  const std::string name = hosts[1]->socket_name(worker_addresses.front());
  hosts.front().reset();
  auto listener = os::listen_unix(name);
  ASSERT_TRUE(listener) << listener.status().message();
  Outcome joined;
  std::thread member([&] { joined = hosts[1]->join(ranks, worker_addresses, secret, in_time()); });
  auto taken = os::wait_ready(listener->get(), POLLIN, in_time());
  ASSERT_TRUE(taken && *taken);
  auto connection = os::accept_connection(listener->get());
  ASSERT_TRUE(connection && connection->valid());
  const auto [words, descriptors] = hear_hello(*connection);
  EXPECT_EQ(descriptors, 0U) << "before the leader has proven itself";
  // All that a foreign process can know: the rank, and what it has just been told.
  DescriptorHeader header = words.value_or(DescriptorHeader());
  header.rank = 0;
  send_header(*connection, header, 0);
  send_header(*connection, header, kDescriptors);
  EXPECT_EQ(hear_hello(*connection).second, 0U);
  member.join();
  EXPECT_EQ(joined.code(), Errc::peer_lost) << joined.message();
  EXPECT_EQ(joined.culprit(), 0);
}

class Receiving : public ::testing::Test {
 protected:
  void SetUp() override {
    name = "tutti-test-" + std::to_string(::getpid());
    auto made = os::listen_unix(name);
    ASSERT_TRUE(made) << made.status().message();
    listener = std::move(*made);
  }
  [[nodiscard]] os::Fd come() const {
    auto connection = os::connect_unix(name);
    EXPECT_TRUE(connection) << connection.status().message();
    return connection ? std::move(*connection) : os::Fd();
  }
  static std::optional<DescriptorHeader> answer(const DescriptorHeader& header) {
    if (header.proof != hello_of(0, 7).proof) return std::nullopt;
    return hello_of(0, 8);
  }
  os::BackgroundCloser closer;

  std::string name;
  os::Fd listener;
};

TEST_F(Receiving, TakesARankThatCameBeforeManyOthers) {
  std::vector<os::Fd> connections;
  const auto prove = [&](int rank) {
    connections.push_back(come());
    send_header(connections.back(), hello_of(rank, 7), 0);
    return connections.size() - 1;
  };
  const std::size_t first = prove(1);
  for (int i = 0; i < 120; ++i) connections.push_back(come());  // more than may be silent at a time
  const std::size_t last = prove(2);
  DescriptorExchange descriptor_exchange(listener.get(), 3, answer, closer);
  auto nobody = descriptor_exchange.next();
  ASSERT_TRUE(nobody) << nobody.status().message();
  EXPECT_FALSE(*nobody) << "they have only said who they are";
  for (const std::size_t one : {first, last}) {
    const auto [words, descriptors] = hear_hello(connections[one]);
    ASSERT_TRUE(words);
    EXPECT_EQ(words->proof, hello_of(0, 8).proof);
    send_header(connections[one], descriptors_of(one == first ? 1 : 2), kDescriptors);
  }
  for (const int rank : {1, 2}) {
    auto heard = descriptor_exchange.next();
    ASSERT_TRUE(heard) << heard.status().message();
    ASSERT_TRUE(*heard) << "rank " << rank;
    EXPECT_EQ((**heard).rank, rank);
  }
}

TEST_F(Receiving, OutlivesThatThereIsNoDescriptorForAConnection) {
  const os::Fd connection = come();
  send_header(connection, hello_of(1, 7), 0);
  DescriptorExchange descriptor_exchange(listener.get(), 3, answer, closer);
  {
    const test::SoftLimit none = test::no_more_files();
    auto nobody = descriptor_exchange.next();
    ASSERT_TRUE(nobody) << nobody.status().message();
  }
  EXPECT_EQ(descriptor_exchange.trouble().code(), Errc::resource)
      << descriptor_exchange.trouble().message();
  const auto deadline = in_time();
  while (!descriptor_exchange.trouble().ok() && std::chrono::steady_clock::now() < deadline) {
    std::vector<pollfd> watched;
    descriptor_exchange.add_to(watched);
    (void)os::wait_ready(-1, 0, descriptor_exchange.wake_at(deadline));
    ASSERT_TRUE(descriptor_exchange.next());
  }
  EXPECT_TRUE(hear_hello(connection).first) << "it was taken later";
}

TEST_F(SharedMemory, FullLineIsWaitedFor) {
  (void)os::raise_descriptor_limit();
  std::vector<os::Fd> connections;
  for (int i = 0; i < 10'000; ++i) {
    os::Fd one = connect();
    if (!one.valid()) break;
    connections.push_back(std::move(one));
  }
  ASSERT_GT(connections.size(), 100U);
  ASSERT_FALSE(connect().valid()) << "its line is not full: tests nothing";
  expect_joined();
}

TEST_F(SharedMemory, TooFewOpenFilesAreNoDeathOfAnother) {
  if (test::kSanitized) GTEST_SKIP() << "sanitizers do not like forks of programs with threads";
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const std::optional<std::size_t> free = os::free_descriptors();
  ASSERT_TRUE(free);
  const rlim_t used = before.rlim_cur - *free;
  for (const rlim_t more : {0, 2}) {  // than there are; six are needed
    const pid_t child = test::start_child([&] {
      const rlimit no_more{used + more, used + more};  // not to be raised
      if (setrlimit(RLIMIT_NOFILE, &no_more) != 0) _exit(2);
      for (const Outcome& outcome : join()) {
        const std::string text(outcome.message());
        if (outcome.code() != Errc::resource) _exit(3);
        if (text.find("sharing memory with the 2 other ranks of this host takes ") != 0) _exit(4);
        if (text.find("; allow it more (ulimit -Hn)") == std::string::npos) _exit(5);
      }
    });
    EXPECT_EQ(test::end_of(child), 0) << more;
  }
  const test::SoftLimit limit(RLIMIT_NOFILE, used + 2);
  expect_joined();  // a soft limit is raised
}

TEST_F(SharedMemory, RankThatHasEndedIsNamedToAllWhateverOthersDo) {
  const os::Fd silent = connect();
  hosts.pop_back();  // rank 2: its listener is gone
  for (const Outcome& outcome : join()) {
    EXPECT_EQ(outcome.code(), Errc::peer_lost) << outcome.message();
    EXPECT_EQ(outcome.culprit(), 2);
  }
}

/// How far rank 2 comes in the exchange, and whether its connection ends there or stays silent.
struct Stop {
  const char* name;
  int steps;  ///< 1: it has proven itself; 2: sent its descriptors; 3: got those of the host
  bool ends;
};
class StoppedRank : public SharedMemory, public ::testing::WithParamInterface<Stop> {};

TEST_P(StoppedRank, IsNamedToAllAndNoOtherIs) {
  const auto stop = [&] {
    os::Fd connection = connect();
    if (GetParam().steps > 0) {
      send_header(connection, hello_of(2, worker_addresses[2].nonce), 0);
      (void)hear_hello(connection);
      os::take_descriptors(connection.get(), true);
    }
    if (GetParam().steps > 1) send_header(connection, descriptors_of(2), kDescriptors);
    for (int message = 0; GetParam().steps > 2 && message < 2; ++message)
      (void)hear_hello(connection);
    if (GetParam().ends) connection.reset();
    return connection;
  };
  os::Fd connection;
  std::vector<Outcome> outcomes(2);
  test::in_threads(3, [&](int rank) {
    if (rank == 2) {
      connection = stop();
      return;
    }
    // The leader's time is over before that of the other.
    const auto deadline = rank == 0 ? std::chrono::steady_clock::now() + 1s : in_time();
    const auto at = static_cast<std::size_t>(rank);
    outcomes[at] = hosts[at]->join(ranks, worker_addresses, secret, deadline);
  });
  const bool seen_to_end = GetParam().ends && GetParam().steps > 1;
  for (const Outcome& outcome : outcomes) {
    EXPECT_EQ(outcome.code(), seen_to_end ? Errc::peer_lost : Errc::timeout) << outcome.message();
    EXPECT_THAT(std::string(outcome.message()), ::testing::HasSubstr("rank 2 on "));
    if (seen_to_end) {
      EXPECT_EQ(outcome.culprit(), 2);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Each, StoppedRank,
                         ::testing::Values(Stop{"BeforeItsProof", 0, false},
                                           Stop{"BehindItsProof", 1, false},
                                           Stop{"EndsBehindItsProof", 1, true},
                                           Stop{"BehindItsDescriptors", 2, false},
                                           Stop{"EndsBehindItsDescriptors", 2, true},
                                           Stop{"BehindThoseOfTheHost", 3, false},
                                           Stop{"EndsBehindThoseOfTheHost", 3, true}),
                         [](const auto& one) { return one.param.name; });

/// A child in some state, as long as this lives. Its body is given a pipe that ends with this; a
/// child that `ends` by itself then is not killed.
class Child {
 public:
  template <class Body>
  explicit Child(const Body& body, bool ends = false) : ends_(ends), pid_(::fork()) {
    EXPECT_GE(pid_, 0);
    if (pid_ != 0) return;
    lives_.write.reset();
    body(lives_.read.get());
    _exit(0);
  }
  ~Child() {
    lives_.write.reset();
    if (pid_ <= 0) return;  // not a child of ours: such numbers would mean groups of processes
    if (!ends_) (void)::kill(pid_, SIGKILL);
    while (::waitpid(pid_, nullptr, __WALL) == -1 && errno == EINTR) {
    }
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  /// Waits for that state, as it may pass others on its way; the last that was seen.
  [[nodiscard]] std::string state(const std::string& awaited) const {
    std::string state;
    const auto deadline = in_time();
    while (state != awaited && std::chrono::steady_clock::now() < deadline) {
      state = process_state(pid_);
      std::this_thread::yield();
    }
    return state;
  }

 private:
  test::Pipe lives_;
  bool ends_;
  pid_t pid_;
};

TEST(ProcessState, IsNamed) {
  EXPECT_EQ(process_state(::getpid()), "") << "it runs";
  const auto stop = [](int) { (void)::raise(SIGSTOP); };
  const auto stop_for_us = [](int) {
    (void)::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    (void)::raise(SIGSTOP);
  };
  // A parent waits so for the child of its vfork.
  const auto wait_as_for_vfork = [](int lives) {
    const long child = ::syscall(SYS_clone, CLONE_VFORK | SIGCHLD, 0, 0, 0, 0);
    if (child == 0) {
      char none = 0;
      _exit(::read(lives, &none, 1) == 0 ? 0 : 1);
    }
    (void)::waitpid(static_cast<pid_t>(child), nullptr, 0);
  };
  EXPECT_EQ(Child(stop).state("stopped"), "stopped");
  EXPECT_EQ(Child(stop_for_us).state("held by a debugger"), "held by a debugger");
  EXPECT_EQ(Child([](int) {}).state("dead"), "dead");
  const Child waiting(wait_as_for_vfork, true);
  EXPECT_EQ(waiting.state("in an uninterruptible system call"),
            "in an uninterruptible system call");
}

}  // namespace
}  // namespace tutti::transport::shm
