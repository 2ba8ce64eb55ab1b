#include "group/thread_ranks.hpp"

#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <tutti/error.hpp>

#include "base/deadline.hpp"
#include "base/index.hpp"
#include "base/wiped_array.hpp"
#include "group/consequence.hpp"
#include "group/worlds.hpp"
#include "secure/hmac.hpp"

namespace tutti::group {
namespace {

using Clock = std::chrono::steady_clock;

/// The exchanges of ranks that are threads: one table for each.
class Exchange {
 public:
  explicit Exchange(int size) : size_(size) {}

  Result<std::vector<std::string>> run(int rank, const std::string& name, const std::string& mine,
                                       Clock::time_point deadline) {
    std::unique_lock lock(mutex_);
    Table& table = tables_[name];
    table.texts.resize(base::as_size(size_));
    base::at(table.texts, rank) = mine;
    ++table.arrived;
    changed_.notify_all();
    if (!changed_.wait_until(lock, deadline, [&] { return table.arrived == size_ || failed_; })) {
      return Outcome(Errc::timeout, "ranks as threads: not all have started");
    }
    if (failed_) return Outcome(Errc::aborted, "another rank could not start");
    return table.texts;
  }
  void fail() {
    const std::lock_guard lock(mutex_);
    failed_ = true;
    changed_.notify_all();
  }

 private:
  struct Table {
    std::vector<std::string> texts;
    int arrived = 0;
  };
  int size_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, Table> tables_;
  bool failed_ = false;
};

/// The exception that run_threads throws: the first, unless it only follows from another. An
/// exception breaks the rank's groups before it arrives here, so errors of other ranks may come
/// first.
class Failure {
 public:
  /// Called in a handler; returns the text of the exception.
  std::string keep() {
    const std::exception_ptr now = std::current_exception();
    std::string text = "an exception of an unknown type";
    bool follows = false;
    try {
      throw;
    } catch (const Error& problem) {
      text = problem.what();
      follows = is_consequence(problem.code());
    } catch (const std::exception& problem) {
      text = problem.what();
    } catch (...) {
    }
    const std::lock_guard lock(mutex_);
    if (!kept_ || (follows_ && !follows)) {
      kept_ = now;
      follows_ = follows;
    }
    return text;
  }
  /// Call it when no rank runs any more.
  void throw_again() const {
    if (kept_) std::rethrow_exception(kept_);
  }

 private:
  std::mutex mutex_;
  std::exception_ptr kept_;
  bool follows_ = false;
};

}  // namespace

void run_thread_ranks(int size, const std::function<void(ProcessGroup&)>& body,
                      const std::function<Config(int rank)>& config_of) {
  std::vector<Config> configs;
  base::WipedArray<secure::kDigestBytes> drawn;
  raise_if(secure::random_bytes(drawn));
  const SecretBytes secret(drawn);  // no other process may know it
  for (int rank = 0; rank < size; ++rank) {
    configs.push_back(config_of(rank));
    raise_if(check_backend(configs.back()));
  }
  Exchange exchange(size);
  Failure failure;
  const auto start = [&](int rank) {
    WorldOptions options;
    options.identity.rank = rank;
    options.identity.size = size;
    options.config = base::at(configs, rank);
    options.deadline = base::deadline_after(Clock::now(), options.config.timeout);
    options.identity.job = 1;
    options.identity.secret = secret;
    options.authenticated = true;  // all ranks are this process
    options.bind_host = "127.0.0.1";
    const auto meet = [&, deadline = options.deadline](const std::string& name,
                                                       const std::string& mine) {
      return exchange.run(rank, name, mine, deadline);
    };
    const auto nobody = [](int) {  // a thread does not die alone
      return [] { return std::optional<Outcome>(Outcome()); };
    };
    Result<ProcessGroup> world = make_world(std::move(options), meet, nobody);
    if (!world) raise(world.status());
    return std::move(*world);
  };
  const auto rank_main = [&](int rank) {
    // A failure is stored before other ranks can see its consequences.
    ProcessGroup world;
    try {
      world = start(rank);
    } catch (...) {
      (void)failure.keep();
      exchange.fail();
      return;
    }
    try {
      body(world);
    } catch (...) {
      world.abort("rank ended with: " + failure.keep());
    }
  };
  std::vector<std::thread> threads;
  try {
    for (int rank = 0; rank < size; ++rank) threads.emplace_back(rank_main, rank);
  } catch (const std::system_error&) {
    // No thread could be made: the running ranks must not wait for the rest.
    (void)failure.keep();
    exchange.fail();
  }
  for (std::thread& thread : threads) thread.join();
  failure.throw_again();
}

}  // namespace tutti::group
