#include <netinet/in.h>

#include <atomic>

#include <tutti/log.hpp>

#include "killed_job.hpp"
#include "network.hpp"
#include "sockets.hpp"
#include "support/memory_in_use.hpp"
#include "support/rotation.hpp"

// Jobs one after the other, over every transport and with mixed operations: ranks are killed, with
// and without children of their own, links are cut for a random time, and foreign connections flood
// every port. No rank may hang, compute a wrong bit or leave a lost rank unnamed; this process,
// which serves half of the stores, holds as much in the end as before.
namespace tutti::fault {
namespace {

constexpr std::size_t kFewestPending = 10;  // of a flood
constexpr int kNodes = Network::kNamespaces;

/// In a network that loses frames for so long, TCP tries again after 0.2, 0.6, 1.4, 3 and 6.2 s. So
/// an interruption shorter than this is over for TCP, too, within kLinkTimeout.
constexpr double kShortGap = 2.5;
constexpr double kLongGap = 7;  // is longer than kLinkTimeout and a second
constexpr const char* kLinkTimeout = "TUTTI_LINK_TIMEOUT=4";

enum class Event { kill, fork_and_kill, gap, flood };

/// How many of each event.
std::array<int, 4> counts() {
  // Of a run of a quarter of an hour. Each run draws others.
  const int percent = number_or("FAULT_SOAK_PERCENT", test::long_tests() ? 40 : 5);
  return {2000 * percent / 100, 500 * percent / 100, 200 * percent / 100, 100 * percent / 100};
}

std::ptrdiff_t open_descriptors() {
  const std::filesystem::directory_iterator open("/proc/self/fd");
  return std::distance(begin(open), end(open));
}

/// Foreign connections to every port that anybody listens on in this network namespace: some
/// are silent, some send noise, some begin a handshake and stop, some break the connection off.
class Flood {
 public:
  explicit Flood(unsigned seed) : random_(seed), thread_([this] { run(); }) {}
  ~Flood() { stop(); }
  Flood(const Flood&) = delete;
  Flood& operator=(const Flood&) = delete;

  /// Ends it; the connections that it has made.
  std::size_t stop() {
    ending_ = true;
    if (thread_.joinable()) thread_.join();
    open_.clear();
    return made();
  }
  /// The connections that it has made so far.
  std::size_t made() const { return made_; }

 private:
  static constexpr std::size_t kMostOpen = 300;  // the descriptors of this process are limited

  static std::set<std::uint16_t> listening_ports() {
    std::set<std::uint16_t> ports;
    for (const char* const table : {"tcp", "tcp6"}) {
      for (const Socket& one : tcp_sockets("self", table))
        if (one.listens()) ports.insert(static_cast<std::uint16_t>(one.port()));
    }
    return ports;
  }

  void run() {
    while (!ending_) {
      for (const std::uint16_t port : listening_ports())
        if (!ending_) connect_to(port);
      std::this_thread::yield();
    }
  }

  void connect_to(std::uint16_t port) {
    os::Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (!fd.valid()) return;
    // Loopback: it is connected, or refused, when this returns.
    (void)::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address));
    ++made_;
    const auto kind = random_() % 4;
    if (kind == 1) {
      std::vector<unsigned char> noise(1 + random_() % 4000);
      for (unsigned char& byte : noise) byte = static_cast<unsigned char>(random_());
      (void)::send(fd.get(), noise.data(), noise.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    } else if (kind == 2) {
      const std::string begun = std::string("tutti").substr(0, 1 + random_() % 5);
      (void)::send(fd.get(), begun.data(), begun.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    } else if (kind == 3) {
      const linger reset{1, 0};
      (void)::setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
      return;
    }
    open_.push_back(std::move(fd));
    if (open_.size() > kMostOpen) open_.erase(open_.begin(), open_.begin() + kMostOpen / 2);
  }

  std::mt19937 random_;
  std::vector<os::Fd> open_;
  std::atomic<std::size_t> made_{0};
  std::atomic<bool> ending_{false};
  std::thread thread_;
};

class Soak : public NetworkTest {
 protected:
  std::string any_way(std::initializer_list<const char*> ways) {
    return ways.begin()[random_() % ways.size()];
  }
  double uniform(double from, double to) {
    return std::uniform_real_distribution<double>(from, to)(random_);
  }
  static void sleep(double seconds) {
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  }

  JobOptions churning(const std::string& way_of_talking) {
    JobOptions options =
        job_of(way_of_talking, {"churn_until_told", std::to_string(random_())}, "30");
    options.environment = joined({options.environment, {kLinkTimeout, "TUTTI_LOG_LEVEL=error"}});
    return options;
  }
  /// Each rank but the last lost it; that one lost another, or all.
  static void expect_cut_off(std::vector<Worker>& workers) {
    const int last = static_cast<int>(workers.size()) - 1;
    for (int rank = 0; rank <= last; ++rank) {
      Worker& worker = workers[static_cast<std::size_t>(rank)];
      SCOPED_TRACE("rank " + std::to_string(rank));
      const Said said = wait_for_error(worker);
      SCOPED_TRACE("was told: " + said.text);
      const ToldError error(said.text);
      const std::vector<int> members = members_of(error.text, last + 1);
      ASSERT_FALSE(members.empty()) << "of no group";
      ASSERT_TRUE(error.culprit >= 0 && error.culprit < std::ssize(members));
      const int culprit = members[static_cast<std::size_t>(error.culprit)];
      const bool told_of_last = std::find(members.begin(), members.end(), last) != members.end();
      if (rank == last) {
        EXPECT_NE(culprit, last) << "it blames itself";
      } else if (told_of_last) {
        EXPECT_EQ(error.code, "peer_lost");
        EXPECT_EQ(culprit, last);
      } else {
        EXPECT_EQ(error.code, "peer_left");
      }
    }
  }

  void gap() {
    const std::string talk = any_way({"tcp", "tls"});
    const bool is_long = random_() % 10 == 0;
    const double seconds = is_long ? kLongGap : uniform(0.02, kShortGap);
    SCOPED_TRACE(talk + ", a gap of " + std::to_string(seconds) + " s");
    JobOptions options = churning(talk);
    options.size = 2 + static_cast<int>(random_() % (kNodes - 1));
    options.master = Network::address(0);
    options.port = next_port_++;
    for (int rank = 0; rank < options.size; ++rank)
      options.prefixes.push_back(network_.entering(rank));
    auto workers = start_job(options);
    ASSERT_NO_FATAL_FAILURE(hear_all(workers, "ready"));
    sleep(uniform(0, 0.2));
    const int node = options.size - 1;
    ASSERT_TRUE(network_.cut(node));
    sleep(seconds);
    ASSERT_TRUE(network_.join(node));
    if (is_long) return expect_cut_off(workers);
    workers[0].signal(SIGUSR1);
    expect_success(workers);
  }

  void flood() {
    const std::string talk = any_way({"auto", "tcp", "tls", "mixed"});
    SCOPED_TRACE(talk + ", a flood");
    JobOptions options = churning(talk);
    options.size = 2 + static_cast<int>(random_() % 3);
    options.port = next_port_++;
    Flood flood(static_cast<unsigned>(random_()));
    auto workers = start_job(options);
    ASSERT_NO_FATAL_FAILURE(hear_all(workers, "ready"));
    sleep(uniform(0.2, 1));
    // A busy machine may not have let the flood run at all by now.
    const auto given_up = in(kHang);
    while (flood.made() <= kFewestPending && Clock::now() < given_up) sleep(0.01);
    const std::size_t connections = flood.stop();
    ASSERT_GT(connections, kFewestPending) << "tests nothing";
    pending_ += connections;
    workers[0].signal(SIGUSR1);
    expect_success(workers);
  }

  void kill(bool forks) {
    const std::string talk = any_way({"auto", "ring", "tcp", "tls"});
    jobs_.kill(std::make_unique<KilledJob>(random_, random_() % 2 == 0, talk, forks), tally_,
               folder_.path());
  }

  void happens(Event event) {
    switch (event) {
      case Event::kill: return kill(false);
      case Event::fork_and_kill: return kill(true);
      case Event::gap: return gap();
      case Event::flood: return flood();
    }
  }

  unsigned seed_ = static_cast<unsigned>(test::rotation());
  std::mt19937 random_{seed_};
  OwnFolder folder_;
  KillTally tally_;
  WaitingJobs jobs_;
  std::size_t pending_ = 0;
  int next_port_ = 20000;
};

std::vector<Event> shuffled(const std::array<int, 4>& counts, std::mt19937& random) {
  std::vector<Event> events;
  for (std::size_t i = 0; i < counts.size(); ++i)
    events.insert(events.end(), static_cast<std::size_t>(counts[i]), static_cast<Event>(i));
  std::shuffle(events.begin(), events.end(), random);
  return events;
}

TEST_F(Soak, NothingHangsNothingIsWrongAndEveryLostRankIsNamed) {
  const auto [kills, forks, gaps, floods] = counts();
  const std::set<std::string> files = shared_memory_files();
  const auto events = shuffled({kills, forks, gaps, floods}, random_);
  set_log_sink([](LogLevel, std::string_view text) { LostUsers::get().note(text); },
               LogLevel::info);
  std::size_t memory = 0;
  std::ptrdiff_t descriptors = 0;
  const auto begin = Clock::now();
  for (std::size_t i = 0; i < events.size() && !HasFatalFailure(); ++i) {
    SCOPED_TRACE("seed " + std::to_string(seed_) + ", event " + std::to_string(i));
    happens(events[i]);
    if (i != events.size() / 4) continue;  // what is made once has been made
    jobs_.judge_all(tally_);
    memory = test::memory_in_use();
    descriptors = open_descriptors();
  }
  jobs_.judge_all(tally_);
  set_log_sink({});
  std::printf(
      "%d kills, %d of ranks with children, %d gaps, %d floods of %zu connections in %.0f s\n",
      kills, forks, gaps, floods, pending_,
      std::chrono::duration<double>(Clock::now() - begin).count());
  EXPECT_EQ(tally_.kills, kills + forks);
  EXPECT_EQ(tally_.told, tally_.survivors);
  EXPECT_EQ(tally_.known_late, 0);
  EXPECT_LE(test::memory_in_use(), memory + (std::size_t{1} << 20));
  EXPECT_LE(open_descriptors(), descriptors);
  EXPECT_EQ(folder_.files(), std::set<std::string>());
  EXPECT_EQ(shared_memory_files(), files);
}

}  // namespace
}  // namespace tutti::fault
