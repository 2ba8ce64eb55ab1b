#include "apps/bench/started_job.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <thread>

#include "apps/bench/spawn.hpp"
#include "base/format.hpp"
#include "os/socket.hpp"

namespace tutti::bench {

namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::seconds;

/// A slice of waiting: an interrupt that came between look and sleep is seen after it.
constexpr int kSliceMs = 100;
/// For a launcher to hand on what a rank wrote before it ended.
constexpr seconds kLastWords{5};

bool readable(int fd, milliseconds timeout) {
  pollfd entry{fd, POLLIN, 0};
  return ::poll(&entry, 1, static_cast<int>(timeout.count())) > 0;
}

/// The last lines of what the library printed.
std::string tail(const fs::path& log) {
  std::ifstream file(log);
  std::stringstream text;
  text << file.rdbuf();
  std::string all = text.str();
  constexpr std::size_t kMost = 1500;
  if (all.size() > kMost) all = "..." + all.substr(all.size() - kMost);
  while (!all.empty() && all.back() == '\n') all.pop_back();
  return all.empty() ? "" : "; it printed:\n" + all;
}

}  // namespace

StartedJob::StartedJob(const LaunchRequest& request, Clock::duration timeout) : request_(request) {
  log_ = request.directory / "output";
  ranks_.resize(static_cast<std::size_t>(request.ranks));
  try {
    const Launch launch = plan_launch(request);
    settings_ = launch.settings;
    start(launch);
    greet(Clock::now() + timeout);
  } catch (...) {
    end();
    throw;
  }
}

StartedJob::~StartedJob() { end(); }

JobError StartedJob::failure(const std::string& what) {
  failed_ = true;
  return JobError(
      base::format("{} with {} ranks: {}{}", request_.name, request_.ranks, what, tail(log_)));
}

JobError StartedJob::lost(const std::string& what) {
  const auto deadline = Clock::now() + kLastWords;
  while (!launcher_ended() && Clock::now() < deadline) {
    check_interrupt();
    std::this_thread::sleep_for(milliseconds(10));
  }
  return failure(what);
}

void StartedJob::start(const Launch& launch) {
  auto listener = os::listen_unix(request_.socket.string());
  if (!listener) throw JobError(std::string(listener.status().message()));
  listener_ = std::move(*listener);
  for (const auto& program : launch.programs) {
    launchers_.push_back(start_program(program, request_.directory, log_));
  }
}

void StartedJob::greet(Clock::time_point deadline) {
  for (int greeted = 0; greeted < request_.ranks;) {
    check_interrupt();
    if (readable(listener_.get(), milliseconds(kSliceMs))) {
      os::Fd connection(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (connection.valid()) {
        welcome(std::move(connection));
        ++greeted;
      }
      continue;
    }
    if (launcher_ended()) throw failure("ended before it was ready");
    if (Clock::now() > deadline) {
      throw failure(base::format("only {} ranks were ready in time", greeted));
    }
  }
}

void StartedJob::welcome(os::Fd connection) {
  const int fd = connection.get();
  Hello hello;
  ucred peer{};
  socklen_t length = sizeof peer;
  const timeval limit{5, 0};
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  // The rest of what another version says may be shorter or longer.
  const bool begun = receive_all(fd, &hello.magic, sizeof hello.magic);
  if (begun && is_other_version(hello.magic)) {
    throw failure(base::format(
        "its worker speaks version {} of the benchmark protocol and this program version {}; build "
        "both from commits with the same version (kMagic in apps/bench/protocol.hpp)",
        hello.magic & 255, kMagic & 255));
  }
  constexpr std::size_t kRead = sizeof hello.magic;
  char* const rest = reinterpret_cast<char*>(&hello) + kRead;
  const bool ok = begun && hello.magic == kMagic && receive_all(fd, rest, sizeof hello - kRead) &&
                  hello.size == request_.ranks && hello.rank >= 0 && hello.rank < hello.size &&
                  !ranks_[static_cast<std::size_t>(hello.rank)].socket.valid() &&
                  ::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0;
  if (!ok) throw lost("the first message of a rank is not understood");
  ranks_[static_cast<std::size_t>(hello.rank)] = {std::move(connection), peer.pid,
                                                  os::DeathWatch::of(peer.pid)};
  hello.title[sizeof hello.title - 1] = '\0';
  if (hello.rank == 0) version_ = hello.title;
}

bool StartedJob::launcher_ended() {
  return std::ranges::any_of(launchers_, [](const os::Process& launcher) {
    auto end = launcher.peek();
    return end && end->has_value();
  });
}

std::vector<pid_t> StartedJob::processes() const {
  std::vector<pid_t> list;
  for (const auto& rank : ranks_) list.push_back(rank.pid);
  return list;
}

std::vector<RankAnswer> StartedJob::ask(const Command& command, Clock::duration timeout) {
  const auto deadline = Clock::now() + timeout;
  for (const auto& rank : ranks_) {
    if (!send_all(rank.socket.get(), &command, sizeof command)) throw lost("a rank is gone");
  }
  std::vector<RankAnswer> answers(ranks_.size());
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    while (!readable(ranks_[r].socket.get(), milliseconds(kSliceMs))) {
      check_interrupt();
      if (launcher_ended()) throw failure(base::format("ended before rank {} answered", r));
      if (Clock::now() > deadline) {
        const auto took = std::chrono::duration_cast<seconds>(timeout).count();
        throw failure(base::format("rank {} did not answer for {} s", r, took));
      }
    }
    auto& [answer, samples] = answers[r];
    if (!receive_all(ranks_[r].socket.get(), &answer, sizeof answer) || answer.magic != kMagic) {
      throw lost(base::format("rank {} is gone", r));
    }
    samples.resize(answer.samples);
    if (!receive_all(ranks_[r].socket.get(), samples.data(), samples.size() * sizeof(double))) {
      throw lost(base::format("rank {} is gone", r));
    }
    if (answer.ok == 0) {
      answer.message[sizeof answer.message - 1] = '\0';
      throw failure(answer.message);
    }
  }
  return answers;
}

bool StartedJob::wait_for_launchers(Clock::duration timeout) noexcept {
  const auto deadline = Clock::now() + timeout;
  while (!launchers_.empty()) {
    os::Process& launcher = launchers_.back();
    auto end = launcher.wait(deadline);
    if (!end || !end->has_value()) return false;
    // Collected only together with the rest of its group, whose number it guards.
    (void)launcher.kill_group(SIGKILL);
    (void)launcher.collect();
    launchers_.pop_back();
  }
  return true;
}

// Asked, then told, then forced; each time only what was started here.
void StartedJob::end() noexcept {
  const Command quit;
  bool polite = !interrupted() && !failed_;
  for (const auto& rank : ranks_) {
    if (rank.socket.valid()) polite = send_all(rank.socket.get(), &quit, sizeof quit) && polite;
  }
  if (!polite || !wait_for_launchers(seconds(5))) {
    for (const os::Process& one : launchers_) (void)one.kill_group(SIGTERM);
    if (!wait_for_launchers(seconds(2))) {
      for (const os::Process& one : launchers_) (void)one.kill_group(SIGKILL);
      wait_for_launchers(seconds(2));
    }
  }
  for (auto& rank : ranks_) {
    const int watched = rank.process.fd();
    // Collected by its parent, or by end_orphans().
    if (watched >= 0 && !rank.process.ended())
      ::syscall(SYS_pidfd_send_signal, watched, SIGKILL, nullptr, 0);
    rank = Rank{};
  }
  listener_.reset();
}

}  // namespace tutti::bench
