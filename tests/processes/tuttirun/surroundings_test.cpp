// tuttirun where something of a usual process is missing: standard streams, system calls.

#include <thread>

#include "support/refused_calls.hpp"
#include "support/sanitized.hpp"
#include "support/temporary_folder.hpp"
#include "tuttirun_process.hpp"

using testing::HasSubstr;
using tutti::test::RefusedCall;

namespace {

namespace fs = std::filesystem;

/// A program with some of 0, 1 and 2 closed: "02".
Words without_streams(const std::string& closed, const Words& program) {
  return joined({{"python3", "-c",
                  "import os, sys\n"
                  "for fd in sys.argv[1]: os.close(int(fd))\n"
                  "os.execv(sys.argv[2], sys.argv[2:])",
                  closed},
                 program});
}

TEST(StandardStreams, MayBeClosed) {
  const tutti::test::TemporaryFolder folder;
  for (const char* const closed : {"0", "1", "2", "01", "02", "12", "012"}) {
    const std::string told = folder.at(closed).string();
    const Ended run(0,
                    without_streams(closed, joined({{TUTTIRUN},
                                                    shell("2", RANK_WORKER " exchange "
                                                                           ">\"$TOLD.$RANK\"")})),
                    {"TOLD=" + told});
    for (const char* const rank : {".0", ".1"}) {
      EXPECT_THAT(tutti::test::text_of(told + rank), HasSubstr("met everybody twice"))
          << "closed: " << closed;
    }
  }
}

TEST(StandardStreams, OfARankAreNeverADescriptorOfTheLibrary) {
  Tuttirun run(shell("2", "echo pid $$; exec " RANK_WORKER " rest_until_told <&- 2>&-"));
  run.read_until("there", 2);
  int looked_at = 0;
  for (const std::string& line : lines_of(run.out)) {
    if (!line.starts_with("pid ")) continue;
    const std::string fds = "/proc/" + line.substr(4) + "/fd/";
    for (const char* const number : {"0", "2"}) {
      std::error_code none;
      EXPECT_EQ(fs::read_symlink(fds + number, none).string(), "");
    }
    EXPECT_TRUE(fs::exists(fs::symlink_status(fds + "1")));
    kill(std::stoi(line.substr(4)), SIGUSR1);
    ++looked_at;
  }
  EXPECT_EQ(looked_at, 2);
  EXPECT_EQ(run.wait(), 0) << run.err;
}

/// Runs `body` in a thread whose calls, and those of what it starts, are answered so.
template <class Body>
void with_refused(const std::vector<RefusedCall>& calls, int error, const Body& body) {
  std::thread([&] {
    ASSERT_TRUE(tutti::test::refuse_calls(calls, error));
    body();
  }).join();
}

/// These calls, whatever their arguments.
std::vector<RefusedCall> calls(std::initializer_list<long> numbers) {
  std::vector<RefusedCall> all;
  for (const long number : numbers) all.push_back({number});
  return all;
}

void expect_a_job_runs_and_ends() {
  const Ended well(0, {"-n", "2", RANK_WORKER, "exchange"});
  EXPECT_EQ(times_in(well.out, "met everybody twice"), 2) << well.out << well.err;
  expect_told(7, HasSubstr("rank 1 failed first: exit code 7"),
              shell("3", "if [ $RANK = 1 ]; then exit 7; fi; exec sleep 1000"));
  Subreaper::expect_gone_after_death(
      shell("2", "trap '' TERM; sleep 1000 & echo ready; wait; sleep 1000"), 2);
}

TEST(RefusedCalls, PidfdsAreNotNeeded) {
  for (const int error : {EPERM, ENOSYS})
    with_refused({{SYS_pidfd_open}, {SYS_pidfd_send_signal}}, error, expect_a_job_runs_and_ends);
}

TEST(RefusedCalls, NothingNewIsNeeded) {
  // Its search for leaks takes ptrace.
  if (tutti::test::kSanitized) GTEST_SKIP() << "a sanitizer takes memory and threads of its own";
  constexpr std::uint32_t kPopulateWrite = 23;
  for (const int error : {EPERM, ENOSYS}) {
    std::vector<RefusedCall> all =
        calls({SYS_pidfd_open, SYS_pidfd_send_signal, SYS_close_range, SYS_membarrier,
               SYS_io_uring_setup, SYS_process_vm_readv, SYS_process_vm_writev, SYS_ptrace,
               SYS_kcmp, SYS_mbind, SYS_get_mempolicy, SYS_set_mempolicy, SYS_perf_event_open});
    all.push_back({SYS_madvise, 2, kPopulateWrite});
    with_refused(all, error, expect_a_job_runs_and_ends);
  }
  constexpr std::uint32_t kFlags = 1 | 2 | 8;  // close-on-exec, sealing, MFD_NOEXEC_SEAL
  with_refused({{SYS_memfd_create, 1, kFlags}}, EINVAL, expect_a_job_runs_and_ends);
  // Calls of the C library: it asks for the older ones after ENOSYS only.
  constexpr long kFaccessat2 = 439;
  constexpr long kEpollPwait2 = 441;
  with_refused(
      calls({SYS_clone3, SYS_statx, SYS_rseq, kFaccessat2, kEpollPwait2, SYS_io_uring_setup}),
      ENOSYS, expect_a_job_runs_and_ends);
}

}  // namespace
