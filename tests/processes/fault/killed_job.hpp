#pragma once

#include <map>
#include <memory>
#include <random>
#include <set>

#include "job.hpp"
#include "support/sleeper.hpp"

// A job, one rank of which is killed at a random moment, and what its survivors must tell.
namespace tutti::fault {

inline constexpr const char* kKillTimeout = "4";
inline constexpr double kInTime = 5;  // ms: a machine that wakes a sleeper so late is not disturbed

/// Where a job of ours puts temporary files (TMPDIR), and no other program does.
class OwnFolder : public test::TemporaryFolder {
 public:
  /// The names in it.
  [[nodiscard]] std::set<std::string> files() const {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path()))
      names.insert(entry.path().string());
    return names;
  }
};

/// Files that a job could leave in shared memory. The folder where ranks of this user meet is
/// left out: other jobs make and remove it.
inline std::set<std::string> shared_memory_files() {
  std::set<std::string> names;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm", ignored)) {
    const std::string name = entry.path().filename().string();
    const bool ours = name.starts_with("tutti") && !name.starts_with("tutti-bench.") &&
                      !name.starts_with("tutti-ranks-");
    if (ours || name.starts_with("memfd")) names.insert(name);
  }
  return names;
}

struct KillTally {
  test::Sleeper sleeper;
  std::vector<double> latency;      ///< ms, of survivors that were told
  std::vector<double> own_latency;  ///< ... without what a machine that is busy may add
  std::vector<double> undisturbed;  ///< ... while the sleeper beside them was woken in time
  std::vector<double> oversleep;    ///< ms, before a kill: how busy the machine is
  int at_deadline = 0;              ///< survivors of one that had never reached the store
  int known_late = 0;               ///< of these, whom the store had known after all
  int kills = 0;
  int in_init = 0;
  int survivors = 0;  ///< of all kills
  int told = 0;       ///< of these
};

/// The world's ranks in the group that the text begins with, "group 'world[1,3]'"; of init: none.
inline std::vector<int> members_of(const std::string& text, int world_size) {
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
inline bool is_of_the_store(const std::string& text) {
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
  /// `forks`: the ranks fork children that outlive them, and the victim dies after it was ready.
  KilledJob(std::mt19937& random, bool agent, std::string transport, bool forks = false)
      : agent_(agent),
        forks_(forks),
        transport_(std::move(transport)),
        size_(2 + static_cast<int>(random() % 3)),
        victim_(static_cast<int>(random() % static_cast<unsigned>(size_))),
        early_(random() % 2 == 0 && !forks),
        delay_(random() % (early_ ? 60'000 : 40'000)),
        seed_(random()),
        trace_("size " + std::to_string(size_) + " victim " + std::to_string(victim_) +
               (early_ ? " early " : " late ") + std::to_string(delay_.count()) + " us " +
               transport_ + (agent_ ? " agent" : " rank 0 serves") + (forks_ ? ", forks" : "")) {}

  /// Starts it, and kills the victim so long after its start (early) or after all were ready.
  void kill(KillTally& tally, const std::string& folder) {
    SCOPED_TRACE(trace_);
    JobOptions options =
        job_of(transport_, {"churn", std::to_string(seed_), "1000000"}, kKillTimeout, size_);
    options.environment.push_back("TMPDIR=" + folder);
    if (forks_) options.environment.push_back("FAULT_FORKS=1");
    if (agent_) {
      store_ = serve_store(transport_, options);
      (void)LostUsers::get().any(store_->port());  // of one before it with the same port
    }
    workers_ = start_job(options);
    ends_.resize(workers_.size());
    if (!early_) {
      ASSERT_NO_FATAL_FAILURE(hear_all(workers_, "ready"));
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
    auto& end = ends_[static_cast<std::size_t>(victim_)] = dying.wait();
    ASSERT_TRUE(end);
    joined_ = dying.heard("ready").has_value();
    if (!joined_) ++tally.in_init;
  }
  /// Have all ended by then?
  [[nodiscard]] bool over(Clock::time_point deadline) {
    for (std::size_t rank = 0; rank < workers_.size(); ++rank) {
      if (!ends_[rank]) ends_[rank] = workers_[rank].wait_until(deadline);
      if (!ends_[rank]) return false;
    }
    return true;
  }
  /// Waits for the end of all; checks what the survivors have told, and what they left.
  void judge(KillTally& tally) {
    SCOPED_TRACE(trace_);
    if (!over(in(kHang))) test::print_stacks_of_children();
    for (const Said& said : workers_[static_cast<std::size_t>(victim_)].said()) {
      if (said.word == "child") ::kill(std::stoi(said.text), SIGKILL);  // the survivors were told
    }
    for (int rank = 0; rank < size_; ++rank) {
      if (rank != victim_) judge_survivor(rank, tally);
      if (::testing::Test::HasFatalFailure()) return;
    }
    tally.at_deadline += at_deadline_;
    if (at_deadline_ > 0 && agent_ && LostUsers::get().any(store_->port()))
      tally.known_late += at_deadline_;
  }

 private:
  void judge_survivor(int rank, KillTally& tally) {
    Worker& worker = workers_[static_cast<std::size_t>(rank)];
    const auto& status = ends_[static_cast<std::size_t>(rank)];
    ASSERT_TRUE(status) << "rank " << rank << " hangs";
    const auto error = worker.heard("error");
    ASSERT_TRUE(error) << "rank " << rank << " ended with " << status->shell_code();
    SCOPED_TRACE("rank " + std::to_string(rank) + " was told: " + error->text);
    EXPECT_EQ(status->shell_code(), 3);
    ++tally.told;
    judge_blame(ToldError(error->text), rank);
    const double took = static_cast<double>(error->at - killed_) / 1e6;
    // It was killed before it had told the store of itself (or, as rank 0, before it served one):
    // then nobody can know more than at the deadline. A rank that the store knew is in `latency`.
    const bool never_came = error->text.find(" not joined ") != std::string::npos ||
                            error->text.find("cannot reach the store") != std::string::npos;
    if (!joined_ && never_came) {
      EXPECT_GT(took, 1000) << error->text;
      ++at_deadline_;
      if (std::getenv("FAULT_VERBOSE")) std::printf("at the deadline: %s\n", error->text.c_str());
    } else {
      tally.latency.push_back(took);
      tally.own_latency.push_back(took - tally.sleeper.bound_ms(0, killed_, error->at));
      if (tally.sleeper.worst_ms(killed_, error->at) < kInTime) tally.undisturbed.push_back(took);
      if (took > 100 || std::getenv("FAULT_VERBOSE"))
        std::printf("%.1f ms (%s, %d of %d, %s): %s\n", took, transport_.c_str(), victim_, size_,
                    joined_ ? "joined" : "in init", error->text.c_str());
    }
    const auto holdings = holdings_of(worker);
    ASSERT_TRUE(holdings) << error->text;
    EXPECT_LE(holdings->after.descriptors, holdings->most_descriptors()) << error->text;
    EXPECT_EQ(holdings->after.mappings, 0) << error->text;
    EXPECT_EQ(holdings->after.threads, 1) << error->text;
  }
  /// Code and culprit: a rank of the group of the error, or of the world that was not made.
  void judge_blame(const ToldError& error, int rank) const {
    const std::vector<int> members = members_of(error.text, size_);
    const auto place = std::find(members.begin(), members.end(), victim_);
    if (place != members.end()) {
      EXPECT_EQ(error.code, "peer_lost");
      EXPECT_EQ(error.culprit, place - members.begin());
      expect_has(error.text, "lost rank " + std::to_string(error.culprit) + " ");
      return;
    }
    if (!members.empty()) {
      // A group without the victim is not broken by its death; but a member that has ended over it
      // leaves those that wait for it there, and they are told so.
      EXPECT_EQ(error.code, "peer_left");
      ASSERT_TRUE(error.culprit >= 0 && error.culprit < std::ssize(members));
      EXPECT_NE(members[static_cast<std::size_t>(error.culprit)], rank) << "it blames itself";
      expect_has(error.text, "without taking part");
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
    expect_has(error.text, "rank " + std::to_string(victim_) + " ");
  }

  bool agent_;
  bool forks_;
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

/// Survivors of one that never reached the store wait for their deadline, asleep. Others are killed
/// meanwhile; what is measured, the survivors measure themselves.
class WaitingJobs {
 public:
  void kill(std::unique_ptr<KilledJob> job, KillTally& tally, const std::string& folder) {
    job->kill(tally, folder);
    if (::testing::Test::HasFatalFailure()) return;
    if (job->over(in(kSoon)))
      job->judge(tally);
    else
      jobs_.push_back(std::move(job));
    while (!jobs_.empty() && (jobs_.size() > kMostWaiting || jobs_.front()->over(in(0))))
      judge_oldest(tally);
  }
  void judge_all(KillTally& tally) {
    while (!jobs_.empty() && !::testing::Test::HasFatalFailure()) judge_oldest(tally);
    jobs_.clear();
  }

 private:
  static constexpr double kSoon = 0.2;  // seconds
  static constexpr std::size_t kMostWaiting = 8;

  void judge_oldest(KillTally& tally) {
    jobs_.front()->judge(tally);
    jobs_.pop_front();
  }

  std::deque<std::unique_ptr<KilledJob>> jobs_;
};

}  // namespace tutti::fault
