#include "os/process.hpp"

#include <gmock/gmock.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "base/format.hpp"
#include "os/death_watch.hpp"
#include "os/host.hpp"
#include "support/refused_calls.hpp"
#include "support/temporary_folder.hpp"
#include "unit/os/pipe.hpp"

using namespace std::chrono_literals;
using tutti::Errc;
using namespace tutti::os;

namespace {

Deadline in_ten_seconds() { return std::chrono::steady_clock::now() + 10s; }

SpawnOptions shell(const std::string& script, std::vector<std::pair<int, int>> fds = {}) {
  return {.argv = {"sh", "-c", script},
          .environment = {"PATH=/usr/bin:/bin", "COLOUR=green"},
          .fds = std::move(fds),
          .parent_death_signal = {},
          .descriptors = {}};
}

ExitStatus run(const SpawnOptions& options) {
  auto process = spawn(options);
  EXPECT_TRUE(process) << process.status().message();
  auto end = process->wait(in_ten_seconds());
  EXPECT_TRUE(end && end->has_value());
  EXPECT_TRUE(process->collect());
  return end && end->has_value() ? **end : ExitStatus{-1, 0};
}

struct Pipe : tutti::test::Pipe {
  std::string read_all() {
    write.reset();
    std::string text;
    std::array<char, 256> buffer;
    ssize_t got = 0;
    while ((got = ::read(read.get(), buffer.data(), buffer.size())) > 0)
      text.append(buffer.data(), static_cast<std::size_t>(got));
    return text;
  }
};

TEST(Process, NamesSignalsAsTheCLibraryDoes) {
  for (int signal = 1; signal < NSIG; ++signal) {
    const char* const name = sigabbrev_np(signal);
    EXPECT_EQ(signal_name(signal), name != nullptr ? tutti::base::format("SIG{}", name)
                                                   : tutti::base::format("signal {}", signal));
  }
  EXPECT_EQ(signal_name(-1), "signal -1");
}

TEST(Process, TellsHowAChildEnded) {
  EXPECT_EQ(run(shell("exit 0")).shell_code(), 0);
  EXPECT_EQ(run(shell("exit 42")).code, 42);
  const ExitStatus killed = run(shell("kill -TERM $$"));
  EXPECT_EQ(killed.signal, SIGTERM);
  EXPECT_EQ(killed.shell_code(), 128 + SIGTERM);
}

TEST(DeathWatch, AsksWherePidfdsAreRefused) {
  for (const int error : {EPERM, ENOSYS}) {
    std::thread([&] {  // a filter is of one thread
      ASSERT_TRUE(tutti::test::refuse_calls({{SYS_pidfd_open}}, error));
      auto process = spawn(shell("exec sleep 1000"));
      ASSERT_TRUE(process);
      EXPECT_EQ(process->watch().fd(), -1);
      EXPECT_FALSE(process->watch().ended());
      auto soon = process->watch().wait(std::chrono::steady_clock::now() + 1ms);
      EXPECT_TRUE(soon && !*soon);
      // As a process that is not the parent sees it.
      EXPECT_FALSE(DeathWatch::of(getppid()).ended());
      EXPECT_TRUE(process->kill(SIGKILL));
      auto end = process->wait(in_ten_seconds());
      EXPECT_TRUE(end && *end && (*end)->signal == SIGKILL);
      EXPECT_TRUE(process->watch().ended());
      EXPECT_TRUE(process->collect());
      EXPECT_TRUE(process->watch().ended());
      EXPECT_TRUE(process->kill(SIGKILL)) << "there is nobody";
    })
        .join();
  }
}

TEST(Process, APeekedChildStaysAnExitingZombieUntilCollected) {
  Process process = spawn(shell("exec sleep 1000")).value();
  EXPECT_FALSE(process.is_exiting());
  EXPECT_TRUE(process.kill(SIGKILL));
  auto end = process.wait(in_ten_seconds());
  ASSERT_TRUE(end && end->has_value());
  EXPECT_EQ((*end)->signal, SIGKILL);
  EXPECT_TRUE(process.is_exiting());
  EXPECT_EQ(::kill(process.pid(), 0), 0) << "its number is still its own";
  EXPECT_TRUE(process.peek()->has_value());
  EXPECT_TRUE(process.collect());
  EXPECT_FALSE(process.is_exiting());
  EXPECT_EQ(::kill(process.pid(), 0), -1);
  EXPECT_FALSE(process.collect());
}

TEST(Process, GetsItsEnvironmentAndDescriptors) {
  Pipe out;
  Pipe numbers;
  EXPECT_EQ(run(shell("echo $COLOUR $HOME; echo seven >&7",
                      {{out.write.get(), 1}, {numbers.write.get(), 7}}))
                .code,
            0);
  EXPECT_EQ(out.read_all(), "green\n");
  EXPECT_EQ(numbers.read_all(), "seven\n");
}

TEST(Process, DescriptorsMayChangePlaces) {
  Pipe a;
  Pipe b;
  const int to_a = a.write.get();
  const int to_b = b.write.get();
  const auto script = tutti::base::format("echo to-a >&{}; echo to-b >&{}", to_b, to_a);
  EXPECT_EQ(run(shell(script, {{to_a, to_b}, {to_b, to_a}})).code, 0);
  EXPECT_EQ(a.read_all(), "to-a\n");
  EXPECT_EQ(b.read_all(), "to-b\n");
}

TEST(Process, AMissingProgramIsAnError) {
  SpawnOptions options;
  options.argv = {"/no/such/program"};
  auto process = spawn(options);
  EXPECT_EQ(process.status().code(), Errc::invalid_argument);
  EXPECT_THAT(process.status().message(), testing::HasSubstr("/no/such/program"));
  options.argv = {"no-such-program-in-path"};
  EXPECT_FALSE(spawn(options));
  const tutti::test::TemporaryFolder folder;
  options.argv = {folder.file("no_program", "")};
  EXPECT_EQ(spawn(options).status().code(), Errc::refused) << "there, but no program";
  options.argv = {};
  EXPECT_FALSE(spawn(options));
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "no child is left";
  EXPECT_EQ(errno, ECHILD);
}

TEST(Process, SignalsAreDefaultsInTheChild) {
  const auto before = std::signal(SIGTERM, SIG_IGN);
  const ExitStatus end = run(shell("kill -TERM $$; exit 1"));
  std::signal(SIGTERM, before);
  EXPECT_EQ(end.signal, SIGTERM);
}

TEST(Process, AGroupIsReachedAsAWhole) {
  Pipe out;
  Process process =
      spawn(shell("sleep 1000 & sleep 1000 & echo ready; wait", {{out.write.get(), 1}})).value();
  std::array<char, 6> ready;
  ASSERT_EQ(read(out.read.get(), ready.data(), ready.size()), 6);
  ASSERT_EQ(getpgid(process.pid()), process.pid()) << "the group is that of the child";
  EXPECT_TRUE(process.kill_group(SIGKILL));
  // The pipe ends only when all three have gone.
  EXPECT_EQ(out.read_all(), "");
  ASSERT_TRUE(process.wait(in_ten_seconds())->has_value());
  EXPECT_TRUE(process.collect());
}

TEST(Process, IsAnnouncedBeforeItRuns) {
  Pipe announce;
  SpawnOptions options = shell("exit 0");
  options.announce_fd = announce.write.get();
  Process process = spawn(options).value();
  pid_t told = 0;
  ASSERT_EQ(read(announce.read.get(), &told, sizeof told), static_cast<ssize_t>(sizeof told));
  EXPECT_EQ(told, process.pid());
  ASSERT_TRUE(process.wait(in_ten_seconds())->has_value());
  EXPECT_TRUE(process.collect());
}

// Any bytes can be the name of a host, and logs show it. Not tried where namespaces are forbidden.
TEST(Host, NameHasNoControlCharacters) {
  const std::string name = "a\x1b[2J\nb";
  EXPECT_EXIT(
      {
        const bool named = unshare(CLONE_NEWUSER | CLONE_NEWUTS) == 0 &&
                           sethostname(name.data(), name.size()) == 0;
        std::exit(named && host_name() != R"(a\x1b[2J\x0ab)" ? 1 : 0);
      },
      testing::ExitedWithCode(0), "");
}

TEST(Host, IsKnown) {
  EXPECT_FALSE(host_name().empty());
  EXPECT_EQ(boot_id().value().size(), 36U);
  EXPECT_EQ(boot_id().value(), boot_id().value());
  EXPECT_GT(network_namespace().value(), 0U);
}

}  // namespace
