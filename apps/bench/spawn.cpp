#include "apps/bench/spawn.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "base/format.hpp"
#include "os/environment.hpp"
#include "os/fd.hpp"

namespace tutti::bench {

namespace {

namespace fs = std::filesystem;

volatile sig_atomic_t interrupt_seen = 0;

}  // namespace

os::Process start_program(const Program& program, const fs::path& directory, const fs::path& log) {
  os::Variables variables = os::environment();
  for (const auto& [name, value] : program.environment) variables[name] = value;
  variables["TMPDIR"] = directory.string();
  const os::Fd input(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const os::Fd output(::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  os::SpawnOptions options;
  options.argv = program.argv;
  options.environment = os::entries_of(variables);
  // Ranks that wait for a network that went with us would not see the end of their socket.
  options.parent_death_signal = SIGTERM;
  options.fds = {
      {input.get(), STDIN_FILENO}, {output.get(), STDOUT_FILENO}, {output.get(), STDERR_FILENO}};
  auto process = os::spawn(options);
  if (!process) throw std::runtime_error(std::string(process.status().message()));
  return std::move(*process);
}

void end_orphans() noexcept {
  // Each round may free others below: those of whom an ended one was the parent.
  for (int round = 0; round < 100; ++round) {
    std::ifstream list(base::format("/proc/self/task/{}/children", ::getpid()));
    bool any = false;
    for (pid_t pid = 0; list >> pid;) {
      any = true;
      ::kill(pid, SIGKILL);
      ::waitpid(pid, nullptr, 0);
    }
    if (!any) return;
  }
}

void prepare_process() {
  // Processes that outlive the launcher that started them become children of this process, which
  // can then end and collect them.
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  struct sigaction action {};
  action.sa_handler = [](int) { interrupt_seen = 1; };
  sigemptyset(&action.sa_mask);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) ::sigaction(number, &action, nullptr);
}

bool interrupted() noexcept { return interrupt_seen != 0; }

void check_interrupt() {
  if (interrupted()) throw Interrupted();
}

}  // namespace tutti::bench
