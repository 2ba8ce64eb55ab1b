#pragma once

#include <gmock/gmock.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <limits>
#include <optional>

#include <tutti/store.hpp>

#include "os/socket.hpp"
#include "support/free_port.hpp"
#include "support/programs.hpp"
#include "support/temporary_folder.hpp"
#include "unit/os/pipe.hpp"

// Processes of a job, and what they said. Needs RANK_WORKER, the path of that program.
namespace tutti::fault {

using test::joined;
using test::Words;

using Clock = std::chrono::steady_clock;

inline constexpr double kHang = 60;  // seconds: much longer than anything that is waited for

inline Clock::time_point in(double seconds) {
  return Clock::now() +
         std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

inline long long now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch())
      .count();
}

/// The number in a variable of the environment, if it is set.
inline int number_or(const char* variable, int otherwise) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? otherwise : std::atoi(text);
}

/// A quantile of some values; 0 of none.
inline double at(std::vector<double> values, double quantile) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(quantile * static_cast<double>(values.size() - 1))];
}

struct Said {
  std::string word;
  long long at = 0;
  std::string text;
};

class Worker {
 public:
  Worker(Words argv, Words environment) {
    test::Pipe pipe;
    out_ = std::move(pipe.read);
    os::SpawnOptions options;
    options.argv = std::move(argv);
    options.environment = std::move(environment);
    // All have the key of one user, unless the test says otherwise.
    const char* const home = std::getenv("HOME");
    const bool given = std::ranges::any_of(
        options.environment, [](const auto& one) { return one.starts_with("HOME="); });
    if (home != nullptr && !given) options.environment.push_back(std::string("HOME=") + home);
    options.fds = {{pipe.write.get(), 1}};
    options.parent_death_signal = SIGKILL;
    auto process = os::spawn(options);
    if (!process) throw std::runtime_error(std::string(process.status().message()));
    process_ = std::move(*process);
  }
  Worker(Worker&& other) noexcept = default;
  ~Worker() {
    if (collected_ || !out_.valid()) return;  // over, or another's
    (void)process_.kill(SIGCONT);
    (void)process_.kill_group(SIGKILL);
    (void)process_.wait(Clock::now() + std::chrono::seconds(10));
    (void)process_.collect();
  }

  [[nodiscard]] pid_t pid() const { return process_.pid(); }
  void signal(int number) { (void)process_.kill(number); }

  /// Waits until the word was said; nothing: the process has closed its output, or hangs.
  std::optional<Said> hear(const std::string& word, double seconds = kHang) {
    auto said = hear_by(word, in(seconds));
    if (!said && !closed_) test::print_stacks_of_children();
    return said;
  }
  std::optional<Said> hear_by(const std::string& word, Clock::time_point deadline) {
    while (true) {
      for (const Said& said : said_)
        if (said.word == word) return said;
      if (closed_ || !read_more(deadline)) return std::nullopt;
    }
  }
  /// What has been said already.
  std::optional<Said> heard(const std::string& word) { return hear_by(word, Clock::now()); }
  /// Its end; nothing: it hangs.
  std::optional<os::ExitStatus> wait(double seconds = kHang) {
    auto status = wait_until(in(seconds));
    if (!status) test::print_stacks_of_children();
    return status;
  }
  std::optional<os::ExitStatus> wait_until(Clock::time_point deadline) {
    while (!closed_ && read_more(deadline)) {
    }
    auto status = process_.wait(deadline);
    if (!status || !*status) return std::nullopt;
    (void)process_.collect();
    collected_ = true;
    return **status;
  }
  [[nodiscard]] const std::vector<Said>& said() const { return said_; }

 private:
  bool read_more(Clock::time_point deadline) {
    auto ready = os::wait_ready(out_.get(), POLLIN, deadline);
    if (!ready || !*ready) return false;
    char buffer[4096];
    const ssize_t got = ::read(out_.get(), buffer, sizeof(buffer));
    if (got == 0) closed_ = true;
    if (got <= 0) return got == 0;
    text_.append(buffer, static_cast<std::size_t>(got));
    for (std::size_t end = 0; (end = text_.find('\n')) != std::string::npos;
         text_.erase(0, end + 1)) {
      Said said;
      std::istringstream line(text_.substr(0, end));
      line >> said.word >> said.at;
      line.ignore(1);
      std::getline(line, said.text);
      said_.push_back(said);
    }
    return true;
  }

  os::Process process_;
  os::Fd out_;
  std::string text_;
  std::vector<Said> said_;
  bool closed_ = false;
  bool collected_ = false;
};

/// "<code> <culprit> <text>" as a worker has told it (speak.hpp); no culprit: -1.
struct ToldError {
  explicit ToldError(const std::string& said) {
    std::istringstream line(said);
    line >> code >> culprit;
    line.ignore(1);
    std::getline(line, text);
  }
  std::string code;
  int culprit = -2;
  std::string text;
};

/// The resources that a worker held, as it tells them: "descriptors,mappings,threads".
struct Holdings {
  int descriptors = 0;
  int mappings = 0;
  int threads = 0;
};

inline std::istream& operator>>(std::istream& in, Holdings& holdings) {
  char comma = 0;
  return in >> holdings.descriptors >> comma >> holdings.mappings >> comma >> holdings.threads;
}

/// The holdings of a worker before its world and after it.
struct HoldingsAround {
  Holdings before;
  Holdings after;
  /// A process makes once: two epolls and an eventfd to progress, and the pipe that tells its end.
  [[nodiscard]] int most_descriptors() const { return before.descriptors + 5; }
};

/// Nothing if the worker has not told of them.
inline std::optional<HoldingsAround> holdings_of(Worker& worker) {
  const auto left = worker.heard("left");
  if (!left) return std::nullopt;
  HoldingsAround told;
  std::istringstream text(left->text);
  if (!(text >> told.before >> told.after)) return std::nullopt;
  return told;
}

/// When survivors of a deadline were told, by the calls that they were in.
struct Told {
  long long first_call = std::numeric_limits<long long>::max();  ///< the earliest of them began
  long long first_error = std::numeric_limits<long long>::max();
  long long last_error = 0;

  /// Of a worker that has ended over an error.
  void add(Worker& worker) {
    const auto began = worker.heard("began");
    const auto error = worker.heard("error");
    ASSERT_TRUE(began && error);
    first_call = std::min(first_call, began->at);
    first_error = std::min(first_error, error->at);
    last_error = std::max(last_error, error->at);
  }
  /// No deadline has ended early. A rank that gives up tells the others, so the first one counts.
  void expect_not_before(double timeout) const {
    EXPECT_GE(static_cast<double>(first_error - first_call) / 1e9, timeout - kClocks);
  }

 private:
  static constexpr double kClocks = 0.01;  // seconds: a deadline may be counted in whole ms
};

struct JobOptions {
  int size = 4;
  std::string program = RANK_WORKER;
  Words arguments = {};
  Words environment = {};  ///< besides what finds the others
  std::string master = "127.0.0.1";
  int port = 0;   ///< 0: any; rank 0 serves it
  int hosts = 1;  ///< as if ranks were on so many, dealt out
  /// By rank: what stands before the program, like nsenter.
  std::vector<Words> prefixes = {};
};

/// A job's secret in a file that is there as long as this program.
class SecretFile {
 public:
  static const SecretFile& get() {
    static const SecretFile kFile;
    return kFile;
  }
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::vector<std::byte> secret() const {
    return std::vector<std::byte>(32, std::byte{'s'});
  }

 private:
  SecretFile() { EXPECT_EQ(::chmod(path_.c_str(), 0600), 0); }

  const test::TemporaryFolder folder_;
  const std::string path_ = folder_.file("secret", std::string(32, 's'));
};

/// Settings that make the ranks talk so: "auto" and "tcp" as TUTTI_TRANSPORT says; "tls": by TCP,
/// encrypted; "ring": by messages through the memory of their host; "mixed", with hosts_of:
/// shared memory inside a host, TCP between.
inline Words way(const std::string& name) {
  if (name == "mixed") return {"TUTTI_TRANSPORT=auto"};
  if (name == "tls")
    return {"TUTTI_TRANSPORT=tcp", "TUTTI_TLS=1", "TUTTI_SECRET_FILE=" + SecretFile::get().path()};
  if (name != "ring") return {"TUTTI_TRANSPORT=" + name};
  return {"TUTTI_TRANSPORT=shm",
          "TUTTI_ALGO=all_reduce:direct,broadcast:binomial_broadcast,barrier:direct_barrier"};
}

inline int hosts_of(const std::string& name) { return name == "mixed" ? 2 : 1; }

/// Ranks in a mode of the worker, that talk so.
inline JobOptions job_of(const std::string& name, const Words& arguments,
                         const std::string& timeout, int size = 4) {
  JobOptions options;
  options.size = size;
  options.arguments = arguments;
  options.environment = joined({way(name), {"TUTTI_TIMEOUT=" + timeout}});
  options.hosts = hosts_of(name);
  return options;
}

/// A store that this process serves as a launcher would, for ranks that talk so; told to `options`.
inline std::shared_ptr<TcpStore> serve_store(const std::string& name, JobOptions& options) {
  TcpStoreOptions serve;
  serve.serve = true;
  if (name == "tls") {
    serve.secret = SecretFile::get().secret();
    serve.encrypt = true;
  }
  std::shared_ptr<TcpStore> store = make_tcp_store(serve);
  options.port = store->port();
  options.environment.push_back("TUTTI_AGENT_STORE=1");
  return store;
}

inline std::vector<Worker> start_job(JobOptions options) {
  std::vector<Worker> workers;
  if (options.port == 0) options.port = free_port();
  for (int rank = 0; rank < options.size; ++rank) {
    Words argv = joined({{options.program}, options.arguments});
    if (!options.prefixes.empty())
      argv = joined({options.prefixes[static_cast<std::size_t>(rank)], argv});
    Words environment =
        joined({options.environment,
                {"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "RANK=" + std::to_string(rank),
                 "WORLD_SIZE=" + std::to_string(options.size), "MASTER_ADDR=" + options.master,
                 "MASTER_PORT=" + std::to_string(options.port)}});
    if (options.hosts > 1)
      environment.push_back("TUTTI_HOST_ID=host" + std::to_string(rank % options.hosts));
    workers.emplace_back(std::move(argv), std::move(environment));
  }
  return workers;
}

/// All have said it.
inline void hear_all(std::vector<Worker>& workers, const std::string& word) {
  for (Worker& worker : workers) ASSERT_TRUE(worker.hear(word)) << word;
}

/// It ends well.
inline void expect_success(Worker& worker) {
  const auto status = worker.wait();
  ASSERT_TRUE(status) << "hangs";
  const auto error = worker.heard("error");
  EXPECT_TRUE(status->success()) << status->shell_code() << " " << (error ? error->text : "");
}
inline void expect_success(std::vector<Worker>& workers) {
  for (Worker& worker : workers) ASSERT_NO_FATAL_FAILURE(expect_success(worker));
}

/// The error over which it ends, and which it has told.
inline Said wait_for_error(Worker& worker) {
  const auto status = worker.wait();
  const auto said = worker.heard("error");
  EXPECT_TRUE(status) << "hangs";
  EXPECT_EQ(status ? status->shell_code() : -1, 3) << (said ? said->text : "no error");
  return said.value_or(Said());
}

inline void kill_now(Worker& worker) {
  worker.signal(SIGKILL);
  ASSERT_TRUE(worker.wait());
}

inline void expect_has(const std::string& text, const std::string& part) {
  EXPECT_THAT(text, testing::HasSubstr(part));
}

/// Names in a table of cases are those of the tests.
inline std::string name_of_way(const ::testing::TestParamInfo<const char*>& way) {
  return way.param;
}

}  // namespace tutti::fault
