#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>

#include "backend_launcher.hpp"
#include "first_process.hpp"
#include "job.hpp"
#include "nodes.hpp"
#include "options.hpp"
#include "os/descriptors.hpp"
#include "reaper.hpp"
#include "signals.hpp"

namespace {

constexpr int kUsageError = 2;

int fail(const tutti::Outcome& why, int code) {
  fmt::print(stderr, "tuttirun: {}\n", why.message());
  return code;
}

int run(int argc, char** argv) {
  using namespace tutti::launcher;
  auto parsed = parse_options(argc, argv);
  if (!parsed) return fail(parsed.status(), kUsageError);
  if (parsed->text) {
    fmt::print("{}", *parsed->text);
    return EXIT_SUCCESS;
  }
  if (const std::optional<int> code = collect_if_first()) return *code;
  hand_down_plugins();
  if (!parsed->options.backend.empty()) {
    if (const auto status = hand_over(parsed->options); !status.ok())
      return fail(status, kUsageError);
  }
  // Before any thread is there: they inherit the mask, and the reaper is a fork.
  const sigset_t blocked = blocked_signals(parsed->options.ending_signals);
  sigprocmask(SIG_BLOCK, &blocked, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  auto reaper = Reaper::start();
  if (!reaper) return fail(reaper.status(), EXIT_FAILURE);
  auto events = tutti::os::EventLoop::create();
  if (!events) return fail(events.status(), EXIT_FAILURE);
  return Job(std::move(parsed->options), *reaper, **events).run();
}

/// Ends as an interrupted program does, since a shell whose script has started us goes on to its
/// next command where we end by an exit code.
int end_interrupted() {
  std::signal(SIGINT, SIG_DFL);
  sigset_t interrupt;
  sigemptyset(&interrupt);
  sigaddset(&interrupt, SIGINT);
  std::raise(SIGINT);
  sigprocmask(SIG_UNBLOCK, &interrupt, nullptr);
  return 128 + SIGINT;
}

}  // namespace

int main(int argc, char** argv) {
  tutti::os::open_standard_streams();
  // Where it was ignored when we were started, the kernel would keep no ends of children for us.
  std::signal(SIGCHLD, SIG_DFL);
  int code = EXIT_FAILURE;
  try {
    code = run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "tuttirun: {}\n", error.what());
  }
  std::fflush(nullptr);
  if (code == 128 + SIGINT) return end_interrupted();
  if (tutti::launcher::Nodes::left_a_thread()) _exit(code);
  return code;
}
