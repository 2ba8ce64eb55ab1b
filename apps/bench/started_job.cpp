#include "apps/bench/started_job.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <thread>

#include "apps/bench/spawn.hpp"

namespace tutti::bench {

namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::seconds;

/// A slice of waiting: an interrupt that came between look and sleep is seen after it.
constexpr int kSliceMs = 100;
/// For a launcher to hand on what a rank wrote before it ended.
constexpr seconds kLastWords{5};

int pidfd_open(pid_t pid) { return static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)); }
void pidfd_kill(int pidfd) { ::syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, nullptr, 0); }

bool readable(int fd, milliseconds timeout) {
  pollfd entry{fd, POLLIN, 0};
  return ::poll(&entry, 1, static_cast<int>(timeout.count())) > 0;
}

std::string system_text(const char* what) {
  return fmt::format("{}: {}", what, std::strerror(errno));
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
      fmt::format("{} with {} ranks: {}{}", request_.name, request_.ranks, what, tail(log_)));
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
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = request_.socket.string();
  if (path.size() >= sizeof address.sun_path) throw JobError("path too long for a socket: " + path);
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  listener_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (listener_ < 0 ||
      ::bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(listener_, 128) != 0) {
    throw JobError(system_text("cannot listen for the ranks"));
  }
  for (const auto& program : launch.programs) {
    launchers_.push_back(start_program(program, request_.directory, log_));
  }
}

void StartedJob::greet(Clock::time_point deadline) {
  for (int greeted = 0; greeted < request_.ranks;) {
    check_interrupt();
    if (readable(listener_, milliseconds(kSliceMs))) {
      const int connection = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (connection >= 0) {
        welcome(connection);
        ++greeted;
      }
      continue;
    }
    if (launcher_ended()) throw failure("ended before it was ready");
    if (Clock::now() > deadline) {
      throw failure(fmt::format("only {} ranks were ready in time", greeted));
    }
  }
}

void StartedJob::welcome(int connection) {
  Hello hello;
  ucred peer{};
  socklen_t length = sizeof peer;
  const timeval limit{5, 0};
  ::setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  // The rest of what another version says may be shorter or longer.
  const bool begun = receive_all(connection, &hello.magic, sizeof hello.magic);
  if (begun && is_other_version(hello.magic)) {
    ::close(connection);
    throw failure(fmt::format(
        "its worker speaks version {} of the benchmark protocol and this program version {}; build "
        "both from commits with the same version (kMagic in apps/bench/protocol.hpp)",
        hello.magic & 255, kMagic & 255));
  }
  constexpr std::size_t kRead = sizeof hello.magic;
  char* const rest = reinterpret_cast<char*>(&hello) + kRead;
  const bool ok = begun && hello.magic == kMagic &&
                  receive_all(connection, rest, sizeof hello - kRead) &&
                  hello.size == request_.ranks && hello.rank >= 0 && hello.rank < hello.size &&
                  ranks_[static_cast<std::size_t>(hello.rank)].socket < 0 &&
                  ::getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0;
  if (!ok) {
    ::close(connection);
    throw lost("the first message of a rank is not understood");
  }
  ranks_[static_cast<std::size_t>(hello.rank)] = {connection, peer.pid, pidfd_open(peer.pid)};
  hello.title[sizeof hello.title - 1] = '\0';
  if (hello.rank == 0) version_ = hello.title;
}

bool StartedJob::launcher_ended() {
  return std::any_of(launchers_.begin(), launchers_.end(), [](pid_t pid) {
    siginfo_t info{};
    // Leaves the zombie where it is, so that its number stays ours.
    return ::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid != 0;
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
    if (!send_all(rank.socket, &command, sizeof command)) throw lost("a rank is gone");
  }
  std::vector<RankAnswer> answers(ranks_.size());
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    while (!readable(ranks_[r].socket, milliseconds(kSliceMs))) {
      check_interrupt();
      if (launcher_ended()) throw failure(fmt::format("ended before rank {} answered", r));
      if (Clock::now() > deadline) {
        const auto took = std::chrono::duration_cast<seconds>(timeout).count();
        throw failure(fmt::format("rank {} did not answer for {} s", r, took));
      }
    }
    auto& [answer, samples] = answers[r];
    if (!receive_all(ranks_[r].socket, &answer, sizeof answer) || answer.magic != kMagic) {
      throw lost(fmt::format("rank {} is gone", r));
    }
    samples.resize(answer.samples);
    if (!receive_all(ranks_[r].socket, samples.data(), samples.size() * sizeof(double))) {
      throw lost(fmt::format("rank {} is gone", r));
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
    const pid_t pid = launchers_.back();
    const int pidfd = pidfd_open(pid);
    const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now());
    const bool ended = pidfd < 0 || readable(pidfd, std::max(left, milliseconds(0)));
    if (pidfd >= 0) ::close(pidfd);
    // Collected only together with the rest of its group, whose number it guards.
    if (!ended) return false;
    ::kill(-pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    launchers_.pop_back();
  }
  return true;
}

// Asked, then told, then forced; each time only what was started here.
void StartedJob::end() noexcept {
  const Command quit;
  bool polite = !interrupted() && !failed_;
  for (const auto& rank : ranks_) {
    if (rank.socket >= 0) polite = send_all(rank.socket, &quit, sizeof quit) && polite;
  }
  if (!polite || !wait_for_launchers(seconds(5))) {
    for (const pid_t pid : launchers_) ::kill(-pid, SIGTERM);
    if (!wait_for_launchers(seconds(2))) {
      for (const pid_t pid : launchers_) ::kill(-pid, SIGKILL);
      wait_for_launchers(seconds(2));
    }
  }
  for (auto& rank : ranks_) {
    if (rank.pidfd >= 0) {
      if (!readable(rank.pidfd, milliseconds(0))) pidfd_kill(rank.pidfd);
      ::close(rank.pidfd);  // collected by its parent, or by end_orphans()
    }
    if (rank.socket >= 0) ::close(rank.socket);
    rank = Rank{};
  }
  if (listener_ >= 0) ::close(listener_);
  listener_ = -1;
}

}  // namespace tutti::bench
