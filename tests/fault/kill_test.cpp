#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <map>
#include <random>
#include <thread>

#include <tutti/log.hpp>
#include <tutti/store.hpp>

#include "job.hpp"
#include "tally.hpp"

// Kills at random moments of a job's life: every survivor must get an error in time, and nothing
// may stay.
namespace tutti::fault {
namespace {

constexpr double kHang = 12;  // seconds: longer than any timeout below
constexpr const char* kTimeout = "TUTTI_TIMEOUT=4";

struct Tally {
  std::vector<double> latency;    ///< ms, of survivors that were told
  std::vector<double> oversleep;  ///< ms, of a sleeper beside them: how busy the machine is
  int at_deadline = 0;            ///< survivors of one that had never reached the store
  int known_late = 0;             ///< of these, whom the store had known after all
  int kills = 0;
  int in_init = 0;
};

/// The text speaks of a sub-group, "world[1,3]", that `rank` is no member of.
bool is_group_without(const std::string& text, int rank) {
  const std::size_t begin = text.find("'world[");
  const std::size_t end = text.find(']', begin);
  if (begin == std::string::npos || end == std::string::npos) return false;
  std::istringstream members(text.substr(begin + 7, end - begin - 7));
  for (std::string member; std::getline(members, member, ',');) {
    if (member == std::to_string(rank)) return false;
  }
  return true;
}

/// Users that the stores of this process have lost without a good-bye.
std::atomic<int>& lost_users() {
  static std::atomic<int> count = 0;
  return count;
}

/// One job of `size` ranks, one of which dies `delay` after its start (early) or after all were
/// ready.
void kill_one(std::mt19937& random, Tally& tally, bool agent, const std::string& transport,
              const std::string& folder) {
  const int size = 2 + static_cast<int>(random() % 3);
  const int victim = static_cast<int>(random() % static_cast<unsigned>(size));
  const bool early = random() % 2 == 0;
  const auto delay = std::chrono::microseconds(random() % (early ? 60'000 : 40'000));
  SCOPED_TRACE("size " + std::to_string(size) + " victim " + std::to_string(victim) +
               (early ? " early " : " late ") + std::to_string(delay.count()) + " us " + transport +
               (agent ? " agent" : " rank 0 serves"));
  std::shared_ptr<TcpStore> store;
  JobOptions options;
  options.size = size;
  options.arguments = {"churn", std::to_string(random()), "1000000"};
  options.environment = way(transport);
  options.environment.push_back(kTimeout);
  options.environment.push_back("TMPDIR=" + folder);
  if (agent) store = serve_store(transport, options);
  const int lost_before = lost_users();
  int at_deadline = 0;
  std::vector<Worker> workers = start_job(options);
  if (!early) {
    for (Worker& worker : workers) ASSERT_TRUE(worker.hear("ready", in(kHang)));
  }
  const auto before = Clock::now();
  std::this_thread::sleep_for(delay);
  tally.oversleep.push_back(
      std::chrono::duration<double, std::milli>(Clock::now() - before - delay).count());
  Worker& dying = workers[static_cast<std::size_t>(victim)];
  const long long killed = now_ns();
  dying.signal(SIGKILL);
  ++tally.kills;
  const auto end = dying.wait(in(kHang));
  ASSERT_TRUE(end);
  const bool joined = dying.hear("ready", in(0)).has_value();
  if (!joined) ++tally.in_init;
  for (int rank = 0; rank < size; ++rank) {
    if (rank == victim) continue;
    Worker& worker = workers[static_cast<std::size_t>(rank)];
    const auto status = worker.wait(in(kHang));
    ASSERT_TRUE(status) << "rank " << rank << " hangs";
    const auto error = worker.hear("error", in(0));
    ASSERT_TRUE(error) << "rank " << rank << " ended with " << status->shell_code();
    EXPECT_EQ(status->shell_code(), 3) << error->text;
    const bool names = error->text.find("rank " + std::to_string(victim)) != std::string::npos ||
                       error->text.find("ranks ") != std::string::npos ||
                       (victim == 0 && !agent && error->text.find("store") != std::string::npos);
    // A group without the victim is not broken by its death; but a member that has ended over it
    // leaves those who wait for it there, and they are told so.
    const bool left_alone = is_group_without(error->text, victim) &&
                            error->text.find("has ended without taking part") != std::string::npos;
    EXPECT_TRUE(names || left_alone) << error->text;
    const double took = static_cast<double>(error->at - killed) / 1e6;
    // It was killed before it had told the store of itself (or, as rank 0, before it served one):
    // then nobody can know more than at the deadline. Whoever the store knew is in `latency`.
    const bool never_came = error->text.find(" not joined ") != std::string::npos ||
                            error->text.find("cannot reach the store") != std::string::npos;
    if (!joined && never_came) {
      EXPECT_GT(took, 1000) << error->text;
      ++at_deadline;
      if (std::getenv("FAULT_VERBOSE")) std::printf("at the deadline: %s\n", error->text.c_str());
    } else {
      tally.latency.push_back(took);
      if (took > 100 || std::getenv("FAULT_VERBOSE"))
        std::printf("%.1f ms (%s, %d of %d, %s): %s\n", took, transport.c_str(), victim, size,
                    joined ? "joined" : "in init", error->text.c_str());
    }
    const auto left = worker.hear("left", in(0));
    ASSERT_TRUE(left);
    int held = 0;
    int holds = 0;
    int mapped = 0;
    int threads = 0;
    char comma = 0;
    std::istringstream numbers(left->text);
    numbers >> held >> comma >> mapped >> comma >> threads >> holds >> comma >> mapped >> comma >>
        threads;
    // The progress thread's two epolls and its eventfd are made once per process.
    EXPECT_LE(holds, held + 3) << left->text << "; " << error->text;
    EXPECT_EQ(mapped, 0) << error->text;
    EXPECT_EQ(threads, 1) << error->text;
  }
  tally.at_deadline += at_deadline;
  if (at_deadline > 0 && lost_users() > lost_before) tally.known_late += at_deadline;
}

void kill_many(int kills, unsigned seed, const std::string& transport) {
  const OwnFolder folder;
  const std::set<std::string> before = shared_memory_files();
  std::mt19937 random(seed);
  Tally tally;
  set_log_sink(
      [](LogLevel, std::string_view text) {
        if (text.find("has lost user") != std::string_view::npos) ++lost_users();
      },
      LogLevel::info);
  for (int i = 0; i < kills && !::testing::Test::HasFatalFailure(); ++i) {
    kill_one(random, tally, i % 2 == 0, transport, folder.path());
  }
  const double p99 = at(tally.latency, 0.99);
  const double busy = at(tally.oversleep, 0.99);
  std::printf(
      "%s, seed %u: %d kills, %d of them in init; ms until a survivor's error: p50 %.1f, p99 %.1f, "
      "max %.1f (%zu "
      "survivors); %d named a rank that had never reached the store, at the deadline, %d of "
      "them one that it knew; a sleeper beside was late by %.1f\n",
      transport.c_str(), seed, tally.kills, tally.in_init, at(tally.latency, 0.5), p99,
      at(tally.latency, 1), tally.latency.size(), tally.at_deadline, tally.known_late, busy);
  ::testing::Test::RecordProperty("p99_ms", std::to_string(p99));
  set_log_sink({});
  EXPECT_EQ(tally.known_late, 0);
  EXPECT_LE(p99, 1000);
  // On a machine that wakes a sleeper in time, the bound is the requirement itself.
  if (busy < 5) {
    EXPECT_LE(p99, 100);
  }
  EXPECT_EQ(folder.files(), std::set<std::string>());
  EXPECT_EQ(shared_memory_files(), before);
  // All children were collected: nobody is left.
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

unsigned seed_or(unsigned otherwise) {
  const char* const text = std::getenv("FAULT_SEED");
  return text == nullptr ? otherwise : static_cast<unsigned>(std::strtoul(text, nullptr, 10));
}
int kills_or(int otherwise) {
  const char* const text = std::getenv("FAULT_KILLS");
  return text == nullptr ? otherwise : std::atoi(text);
}

TEST(Kill, SurvivorsInSharedMemoryGetAnErrorInTime) {
  kill_many(kills_or(100), seed_or(1), "auto");
}
TEST(Kill, SurvivorsThatTalkByOutboxesGetAnErrorInTime) {
  kill_many(kills_or(30), seed_or(3), "outbox");
}
TEST(Kill, SurvivorsOverTcpGetAnErrorInTime) { kill_many(kills_or(100), seed_or(2), "tcp"); }
TEST(Kill, SurvivorsOverEncryptedTcpGetAnErrorInTime) {
  kill_many(kills_or(25), seed_or(4), "tls");
}

}  // namespace
}  // namespace tutti::fault
