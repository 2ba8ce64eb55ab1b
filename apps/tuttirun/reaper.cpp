#include "reaper.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <vector>

#include "os/death_watch.hpp"
#include "os/descriptors.hpp"
#include "os/pipe.hpp"
#include "os/system_error.hpp"

namespace tutti::launcher {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

// From SIGTERM to SIGKILL after the launcher's death.
constexpr auto kOrphanGrace = 1s;
constexpr pid_t kGoodBye = 0;

struct Group {
  pid_t pid;
  os::DeathWatch leader;
};

/// A worker that had the terminal to itself leaves it to a group that has ended: the script that
/// started the launcher could not read any more.
void return_terminal(const std::vector<Group>& groups, pid_t launcher) {
  const os::Fd terminal(open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (!terminal.valid()) return;
  const pid_t owner = tcgetpgrp(terminal.get());
  if (std::ranges::find(groups, owner, &Group::pid) == groups.end()) return;
  if (tcsetpgrp(terminal.get(), launcher) == 0) kill(-launcher, SIGCONT);  // it may have tried
}

void end_groups(const std::vector<Group>& groups, pid_t launcher) {
  const auto deadline = Clock::now() + kOrphanGrace;
  for (const Group& group : groups) {
    kill(-group.pid, SIGTERM);
    kill(-group.pid, SIGCONT);
  }
  // Not before: a worker that waits in a read would take the next line, whoever has the terminal.
  return_terminal(groups, launcher);
  for (const Group& group : groups) {
    if (auto ended = group.leader.wait(deadline); !ended) break;
  }
  // Also where the leader has ended: others of its group may not have.
  for (const Group& group : groups) kill(-group.pid, SIGKILL);
}

[[noreturn]] void guard(int pipe) {
  // A group of its own: what is sent to the launcher's, or by its terminal, does not reach us.
  const pid_t launcher = getpgrp();
  setpgid(0, 0);
  prctl(PR_SET_NAME, "tuttirun-guard");
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, nullptr);
  // Nothing of the launcher's may stay open because of us, its output least of all.
  const int null = open("/dev/null", O_RDWR);
  for (int fd = 0; fd <= 2; ++fd) dup2(null, fd);
  const int kept = dup2(pipe, 3);
  os::close_descriptors_from(4);

  std::vector<Group> groups;
  while (true) {
    pid_t pid = kGoodBye;
    // Writes of this size are never torn.
    const ssize_t got = read(kept, &pid, sizeof pid);
    if (got < 0 && errno == EINTR) continue;
    if (got != static_cast<ssize_t>(sizeof pid)) break;
    if (pid == kGoodBye) _exit(0);
    if (pid < 0) {
      std::erase_if(groups, [&](const Group& group) { return group.pid == -pid; });
      continue;
    }
    groups.push_back({pid, os::DeathWatch::of(pid)});
  }
  end_groups(groups, launcher);
  _exit(0);
}

}  // namespace

Result<Reaper> Reaper::start() {
  auto pipe = os::make_pipe("cannot start the reaper");
  if (!pipe) return pipe.status();
  const pid_t pid = fork();
  if (pid < 0) return os::system_error("cannot start the reaper", errno);
  if (pid == 0) {
    pipe->write.reset();
    guard(pipe->read.get());
  }
  return Reaper(pid, std::move(pipe->write));
}

void Reaper::forget(pid_t group) const noexcept {
  const pid_t message = -group;
  [[maybe_unused]] const ssize_t said = write(pipe_.get(), &message, sizeof message);
}

Reaper::~Reaper() {
  if (!pipe_.valid()) return;
  const pid_t good_bye = kGoodBye;
  [[maybe_unused]] const ssize_t said = write(pipe_.get(), &good_bye, sizeof good_bye);
  pipe_.reset();
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace tutti::launcher
