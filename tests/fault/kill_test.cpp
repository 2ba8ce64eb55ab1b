#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string_view>
#include <thread>

#include <tutti/log.hpp>
#include <tutti/store.hpp>

#include "job.hpp"
#include "support/sleeper.hpp"
#include "tally.hpp"

// Kills at random moments of a job's life: every survivor must get an error in time, and nothing
// may stay.
namespace tutti::fault {
namespace {

constexpr double kKillHang = 60;  // seconds: much longer than any timeout below
constexpr const char* kTimeout = "TUTTI_TIMEOUT=4";
constexpr double kInTime = 5;  // ms: a machine that wakes a sleeper so late is not disturbed

struct Tally {
  test::Sleeper sleeper;
  std::vector<double> latency;      ///< ms, of survivors that were told
  std::vector<double> undisturbed;  ///< ... while the sleeper beside them was woken in time
  std::vector<double> oversleep;    ///< ms, before a kill: how busy the machine is
  int at_deadline = 0;              ///< survivors of one that had never reached the store
  int known_late = 0;               ///< of these, whom the store had known after all
  int kills = 0;
  int in_init = 0;
  int survivors = 0;  ///< of all kills
  int told = 0;       ///< of these
};

/// The world's ranks in the group that the text begins with, "group 'world[1,3]'"; none: it tells
/// of no group, but of init.
std::vector<int> members_of(const std::string& text, int world_size) {
  std::vector<int> members;
  if (!text.starts_with("group 'world")) return members;
  const std::size_t begin = std::string_view("group 'world").size();
  if (text[begin] == '\'') {
    for (int rank = 0; rank < world_size; ++rank) members.push_back(rank);
    return members;
  }
  std::istringstream list(text.substr(begin + 1, text.find(']') - begin - 1));
  for (std::string member; std::getline(list, member, ',');) members.push_back(std::stoi(member));
  return members;
}

/// It could not be reached, or is gone.
bool is_of_the_store(const std::string& text) {
  return text.find("cannot reach the store") != std::string::npos ||
         text.find("the connection to the store") != std::string::npos;
}

/// Users that the stores of this process have lost without a good-bye, by port.
class LostUsers {
 public:
  static LostUsers& get() {
    static LostUsers all;
    return all;
  }
  /// "the store at 127.0.0.1:39211 has lost user ..."
  void note(std::string_view text) {
    const std::size_t end = text.find(" has lost user");
    if (end == std::string_view::npos) return;
    const std::size_t colon = text.rfind(':', end);
    if (colon == std::string_view::npos) return;
    const std::lock_guard lock(mutex_);
    ++counts_[std::string(text.substr(colon + 1, end - colon - 1))];
  }
  [[nodiscard]] bool any(int port) {
    const std::lock_guard lock(mutex_);
    return counts_.erase(std::to_string(port)) > 0;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, int> counts_;
};

/// One job, a rank of which is killed.
class KilledJob {
 public:
  KilledJob(std::mt19937& random, bool agent, std::string transport)
      : agent_(agent),
        transport_(std::move(transport)),
        size_(2 + static_cast<int>(random() % 3)),
        victim_(static_cast<int>(random() % static_cast<unsigned>(size_))),
        early_(random() % 2 == 0),
        delay_(random() % (early_ ? 60'000 : 40'000)),
        seed_(random()),
        trace_("size " + std::to_string(size_) + " victim " + std::to_string(victim_) +
               (early_ ? " early " : " late ") + std::to_string(delay_.count()) + " us " +
               transport_ + (agent_ ? " agent" : " rank 0 serves")) {}

  /// Starts it, and kills the victim so long after its start (early) or after all were ready.
  void kill(Tally& tally, const std::string& folder);
  /// Have all ended? Waits for that no longer than so.
  [[nodiscard]] bool over(Clock::time_point deadline);
  /// What the survivors have told, and what they left.
  void judge(Tally& tally);

 private:
  void judge_survivor(int rank, Tally& tally);
  void judge_blame(const ToldError& error, int rank) const;

  bool agent_;
  std::string transport_;
  int size_;
  int victim_;
  bool early_;
  std::chrono::microseconds delay_;
  unsigned long seed_;
  std::string trace_;
  std::shared_ptr<TcpStore> store_;
  std::vector<Worker> workers_;
  std::vector<std::optional<os::ExitStatus>> ends_;
  long long killed_ = 0;
  bool joined_ = false;
  int at_deadline_ = 0;
};

void KilledJob::kill(Tally& tally, const std::string& folder) {
  SCOPED_TRACE(trace_);
  JobOptions options;
  options.program = FAULT_WORKER;
  options.size = size_;
  options.arguments = {"churn", std::to_string(seed_), "1000000"};
  options.environment = way(transport_);
  options.environment.push_back(kTimeout);
  options.environment.push_back("TMPDIR=" + folder);
  if (agent_) {
    store_ = serve_store(transport_, options);
    (void)LostUsers::get().any(store_->port());  // of one before it with the same port
  }
  workers_ = start_job(options);
  ends_.resize(workers_.size());
  if (!early_) {
    for (Worker& worker : workers_) ASSERT_TRUE(worker.hear("ready", in(kKillHang)));
  }
  const auto before = Clock::now();
  std::this_thread::sleep_for(delay_);
  tally.oversleep.push_back(
      std::chrono::duration<double, std::milli>(Clock::now() - before - delay_).count());
  Worker& dying = workers_[static_cast<std::size_t>(victim_)];
  killed_ = now_ns();
  dying.signal(SIGKILL);
  ++tally.kills;
  tally.survivors += size_ - 1;
  auto& end = ends_[static_cast<std::size_t>(victim_)] = dying.wait(in(kKillHang));
  ASSERT_TRUE(end);
  joined_ = dying.hear("ready", in(0)).has_value();
  if (!joined_) ++tally.in_init;
}

bool KilledJob::over(Clock::time_point deadline) {
  for (std::size_t rank = 0; rank < workers_.size(); ++rank) {
    if (!ends_[rank]) ends_[rank] = workers_[rank].wait(deadline);
    if (!ends_[rank]) return false;
  }
  return true;
}

void KilledJob::judge(Tally& tally) {
  SCOPED_TRACE(trace_);
  for (int rank = 0; rank < size_; ++rank) {
    if (rank != victim_) judge_survivor(rank, tally);
    if (::testing::Test::HasFatalFailure()) return;
  }
  tally.at_deadline += at_deadline_;
  if (at_deadline_ > 0 && agent_ && LostUsers::get().any(store_->port()))
    tally.known_late += at_deadline_;
}

/// Code and culprit: a rank of the group that the error is about, or of the world that was not
/// made.
void KilledJob::judge_blame(const ToldError& error, int rank) const {
  const std::vector<int> members = members_of(error.text, size_);
  const auto place = std::find(members.begin(), members.end(), victim_);
  if (place != members.end()) {
    EXPECT_EQ(error.code, "peer_lost");
    EXPECT_EQ(error.culprit, place - members.begin());
    EXPECT_NE(error.text.find("lost rank " + std::to_string(error.culprit) + " "),
              std::string::npos);
    return;
  }
  if (!members.empty()) {
    // A group without the victim is not broken by its death; but a member that has ended over it
    // leaves those that wait for it there, and they are told so.
    EXPECT_EQ(error.code, "peer_left");
    ASSERT_TRUE(error.culprit >= 0 && error.culprit < std::ssize(members));
    EXPECT_NE(members[static_cast<std::size_t>(error.culprit)], rank) << "it blames itself";
    EXPECT_NE(error.text.find("without taking part"), std::string::npos);
    return;
  }
  EXPECT_FALSE(joined_) << "an error of init, and the victim had a world";
  if (is_of_the_store(error.text)) {
    EXPECT_TRUE(victim_ == 0 && !agent_) << "another process serves the store";
    EXPECT_EQ(error.code,
              error.text.find("cannot reach") == std::string::npos ? "store" : "timeout");
    EXPECT_EQ(error.culprit, -1);
    return;
  }
  const bool came = error.text.find(" not joined ") == std::string::npos;
  EXPECT_EQ(error.code, came ? "peer_lost" : "timeout");
  EXPECT_EQ(error.culprit, came ? victim_ : -1);
  EXPECT_NE(error.text.find("rank " + std::to_string(victim_) + " "), std::string::npos);
}

void KilledJob::judge_survivor(int rank, Tally& tally) {
  Worker& worker = workers_[static_cast<std::size_t>(rank)];
  const auto& status = ends_[static_cast<std::size_t>(rank)];
  ASSERT_TRUE(status) << "rank " << rank << " hangs";
  const auto error = worker.hear("error", in(0));
  ASSERT_TRUE(error) << "rank " << rank << " ended with " << status->shell_code();
  SCOPED_TRACE("rank " + std::to_string(rank) + " was told: " + error->text);
  EXPECT_EQ(status->shell_code(), 3);
  ++tally.told;
  judge_blame(ToldError(error->text), rank);
  const double took = static_cast<double>(error->at - killed_) / 1e6;
  // It was killed before it had told the store of itself (or, as rank 0, before it served one):
  // then nobody can know more than at the deadline. Whoever the store knew is in `latency`.
  const bool never_came = error->text.find(" not joined ") != std::string::npos ||
                          error->text.find("cannot reach the store") != std::string::npos;
  if (!joined_ && never_came) {
    EXPECT_GT(took, 1000) << error->text;
    ++at_deadline_;
    if (std::getenv("FAULT_VERBOSE")) std::printf("at the deadline: %s\n", error->text.c_str());
  } else {
    tally.latency.push_back(took);
    if (tally.sleeper.worst_ms(killed_, error->at) < kInTime) tally.undisturbed.push_back(took);
    if (took > 100 || std::getenv("FAULT_VERBOSE"))
      std::printf("%.1f ms (%s, %d of %d, %s): %s\n", took, transport_.c_str(), victim_, size_,
                  joined_ ? "joined" : "in init", error->text.c_str());
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
  // The progress thread's two epolls and its eventfd, and both ends of the pipe that tells of our
  // end, are made once per process.
  EXPECT_LE(holds, held + 5) << left->text << "; " << error->text;
  EXPECT_EQ(mapped, 0) << error->text;
  EXPECT_EQ(threads, 1) << error->text;
}

void kill_many(int kills, unsigned seed, const std::string& transport) {
  const OwnFolder folder;
  const std::set<std::string> before = shared_memory_files();
  std::mt19937 random(seed);
  Tally tally;
  set_log_sink([](LogLevel, std::string_view text) { LostUsers::get().note(text); },
               LogLevel::info);
  // Survivors of one that never reached the store wait for their deadline, asleep. Others are
  // killed meanwhile; what is measured, the survivors measure themselves.
  constexpr double kSoon = 0.2;
  constexpr std::size_t kMostWaiting = 8;
  std::deque<std::unique_ptr<KilledJob>> waiting;
  const auto judge_oldest = [&] {
    (void)waiting.front()->over(in(kKillHang));
    waiting.front()->judge(tally);
    waiting.pop_front();
  };
  for (int i = 0; i < kills && !::testing::Test::HasFatalFailure(); ++i) {
    auto job = std::make_unique<KilledJob>(random, i % 2 == 0, transport);
    job->kill(tally, folder.path());
    if (::testing::Test::HasFatalFailure()) break;
    if (job->over(in(kSoon)))
      job->judge(tally);
    else
      waiting.push_back(std::move(job));
    while (!waiting.empty() && (waiting.size() > kMostWaiting || waiting.front()->over(in(0))))
      judge_oldest();
  }
  while (!waiting.empty() && !::testing::Test::HasFatalFailure()) judge_oldest();
  waiting.clear();
  const double p99 = at(tally.latency, 0.99);
  const double busy = at(tally.oversleep, 0.99);
  std::printf(
      "%s, seed %u: %d kills, %d of them in init; ms until a survivor's error: p50 %.1f, p99 %.1f, "
      "max %.1f (%zu "
      "survivors, %zu undisturbed); %d named a rank that had never reached the store, at the "
      "deadline, %d of them one that it knew; a sleeper beside was late by %.1f\n",
      transport.c_str(), seed, tally.kills, tally.in_init, at(tally.latency, 0.5), p99,
      at(tally.latency, 1), tally.latency.size(), tally.undisturbed.size(), tally.at_deadline,
      tally.known_late, busy);
  ::testing::Test::RecordProperty("p99_ms", std::to_string(p99));
  set_log_sink({});
  EXPECT_EQ(tally.kills, kills);
  EXPECT_EQ(tally.told, tally.survivors);
  EXPECT_LT(tally.in_init, tally.kills) << "no job had a world: tests nothing";
  EXPECT_FALSE(tally.latency.empty()) << "no survivor was told before a deadline: tests nothing";
  EXPECT_EQ(tally.known_late, 0);
  EXPECT_LE(p99, 1000);
  // On a machine that wakes a sleeper in time, the bound is the requirement itself. One that stands
  // still for a moment makes all survivors of a job late, which may be more than 1 % of them.
  if (busy < kInTime) {
    EXPECT_FALSE(tally.undisturbed.empty());
    EXPECT_LE(at(tally.undisturbed, 0.99), 100);
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
