#include <tutti/launch.hpp>

#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <numeric>
#include <system_error>
#include <thread>

#include "backend/native/native_backend.hpp"
#include "secure/hmac.hpp"

namespace tutti {
namespace {

using Clock = std::chrono::steady_clock;

/// The store of ranks that are threads: each exchange is one table.
class Exchange {
 public:
  explicit Exchange(int size) : size_(size) {}

  Result<std::vector<std::string>> run(int rank, const std::string& name, const std::string& mine,
                                       Clock::time_point deadline) {
    std::unique_lock lock(mutex_);
    Table& table = tables_[name];
    table.texts.resize(static_cast<std::size_t>(size_));
    table.texts[static_cast<std::size_t>(rank)] = mine;
    ++table.arrived;
    changed_.notify_all();
    if (!changed_.wait_until(lock, deadline, [&] { return table.arrived == size_ || failed_; })) {
      return Status(Errc::timeout, "ranks as threads: not all have started");
    }
    if (failed_) return Status(Errc::aborted, "another rank could not start");
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

}  // namespace

void run_threads(int size, const std::function<void(ProcessGroup&)>& body,
                 const std::optional<Config>& given) {
  if (size < 1) raise(Status(Errc::invalid_argument, "run_threads: size must be at least 1"));
  const Result<Config> read = given ? Result<Config>(*given) : Config::from_environment();
  if (!read) raise(read.status());
  const Config& config = read.value();
  Exchange exchange(size);
  std::vector<std::byte> secret;
  if (config.tls) {  // nobody else is to know it
    secret.resize(secure::kDigestBytes);
    raise_if(secure::random_bytes(secret));
  }
  std::mutex mutex;
  std::exception_ptr first;
  const auto rank_main = [&](int rank) {
    try {
      native::ContextOptions options;
      options.rank = rank;
      options.size = size;
      options.job = 1;
      options.secret = secret;
      options.bind_host = "127.0.0.1";
      options.config = config;
      options.deadline = Clock::now() + config.timeout;
      options.exchange = [&, rank](const std::string& name, const std::string& mine) {
        return exchange.run(rank, name, mine, options.deadline);
      };
      options.first_lost = [] { return Status(); };  // a thread does not die alone
      Result<std::shared_ptr<native::Context>> context = native::Context::create(options);
      if (!context) {
        exchange.fail();
        raise(context.status());
      }
      Result<native::NativeBackend*> backend = native::NativeBackend::make_world(*context, "world");
      if (!backend) {
        exchange.fail();
        raise(backend.status());
      }
      std::vector<int> globals(static_cast<std::size_t>(size));
      std::iota(globals.begin(), globals.end(), 0);
      ProcessGroup world(*backend, "world", std::move(globals), config.timeout);
      try {
        body(world);
      } catch (const std::exception& problem) {
        world.abort(std::string("rank ended with: ") + problem.what());
        throw;
      }
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!first) first = std::current_exception();
    }
  };
  std::vector<std::thread> threads;
  try {
    for (int rank = 0; rank < size; ++rank) threads.emplace_back(rank_main, rank);
  } catch (
      const std::system_error&) {  // no more threads: those that run must not wait for the rest
    exchange.fail();
    const std::lock_guard lock(mutex);
    if (!first) first = std::current_exception();
  }
  for (std::thread& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

}  // namespace tutti
