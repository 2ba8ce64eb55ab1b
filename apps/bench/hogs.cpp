#include "apps/bench/hogs.hpp"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "apps/bench/peers/worker.hpp"

namespace tutti::bench {

namespace {

[[noreturn]] void burn() {
  for (std::atomic<unsigned> turns = 0;;) ++turns;
}

}  // namespace

Hogs::Hogs(int count, bool bound) {
  const pid_t parent = ::getpid();
  for (int hog = 0; hog < count; ++hog) {
    const pid_t pid = ::fork();
    if (pid < 0) throw std::runtime_error(std::string("fork: ") + std::strerror(errno));
    if (pid == 0) {
      // A rank's handlers are not its own: it ends at a signal.
      for (const int number : {SIGINT, SIGTERM, SIGHUP}) ::signal(number, SIG_DFL);
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != parent) ::_exit(0);
      if (bound) pin_to_cpu_of(hog);
      burn();
    }
    processes_.push_back(pid);
  }
}

Hogs::~Hogs() {
  for (const pid_t pid : processes_) {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
}

}  // namespace tutti::bench
