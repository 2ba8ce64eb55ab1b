// A rank that may take little works with what it gets, or says which limit is too low, and all
// ranks are told so at once.
#include "job.hpp"
#include "support/limited_cgroup.hpp"
#include "support/sanitized.hpp"

namespace tutti::fault {
namespace {

using testing::HasSubstr;

/// Of ranks that hear of a failure only from the one that has failed, after it has.
constexpr double kTold = 1;  // seconds

Words limited(const std::string& limits) {
  return {"bash", "-c", limits + " && exec \"$@\"", "bash"};
}

class Limits : public ::testing::Test {
 protected:
  /// `limits`: of each rank; empty: none.
  static std::vector<Worker> start(const Words& limits, const std::string& transport = "auto") {
    JobOptions options = job_of(transport, {"large"}, "20", static_cast<int>(limits.size()));
    for (const std::string& one : limits)
      options.prefixes.push_back(one.empty() ? Words() : limited(one));
    return start_job(options);
  }
  /// Rank `limited` of two has failed with that text, and the other one has been told it.
  static void expect_told(const std::string& limits, const std::string& text) {
    for (const std::size_t poor : {0U, 1U}) {
      SCOPED_TRACE(limits + " for rank " + std::to_string(poor));
      Words each(2);
      each[poor] = limits;
      std::vector<Worker> workers = start(each);
      expect_told(workers, poor, text);
    }
  }
  static void expect_told(std::vector<Worker>& workers, std::size_t poor, const std::string& text) {
    const Said failed = wait_for_error(workers[poor]);
    const Said told = wait_for_error(workers[1 - poor]);
    EXPECT_THAT(failed.text, HasSubstr(text));
    EXPECT_THAT(told.text, HasSubstr(text));
    EXPECT_EQ(ToldError(told.text).culprit, static_cast<int>(poor)) << told.text;
    EXPECT_LT(static_cast<double>(told.at - failed.at) / 1e9, kTold);
  }
};

TEST_F(Limits, LittleAddressSpaceIsEnough) {
  if (test::kSanitized) GTEST_SKIP() << "a sanitizer takes memory and threads of its own";
  for (const char* const transport : {"auto", "tcp", "ring"}) {
    SCOPED_TRACE(transport);
    auto workers = start({"ulimit -v 8000000", "ulimit -v 8000000"}, transport);
    expect_success(workers);
  }
  auto alone = start({"ulimit -v 1000000"});
  expect_success(alone);
  auto unlike = start({"", "ulimit -v 1000000", "ulimit -v 70000000"});
  expect_success(unlike);
}

TEST_F(Limits, NoLockedMemoryIsNeeded) {
  auto workers = start({"ulimit -l 0", "ulimit -l 0"});
  expect_success(workers);
}

TEST_F(Limits, TooLittleAddressSpaceIsNamedToAll) {
  if (test::kSanitized) GTEST_SKIP() << "a sanitizer takes memory and threads of its own";
  // For its own memory, for that of the other rank, for what a large operation takes.
  const Words numbers = {"0", "1"};
  for (const Words& mode : {Words{"large", "8"}, {"large", "48"}, {"starve", "8"}}) {
    for (const std::string& poor : numbers) {
      SCOPED_TRACE(mode[0] + " " + mode[1] + ", rank " + poor);
      JobOptions options = job_of("auto", {mode[0], poor, mode[1]}, "20", 2);
      if (mode[0] == "starve") options.prefixes.assign(2, limited("ulimit -v 8000000"));
      const auto store = serve_store("auto", options);
      auto workers = start_job(options);
      expect_told(workers, static_cast<std::size_t>(std::stoi(poor)), "(ulimit -v");
    }
  }
}

TEST_F(Limits, TooSmallFilesAreNamedToAll) {
  std::vector<Worker> workers = start({"ulimit -f 1000", ""});
  expect_told(workers, 0, "(ulimit -f)");
  workers = start({"", "ulimit -f 1000"});  // rank 0 makes the memory of the host
  expect_success(workers);
}

TEST_F(Limits, AreNamedToRanksThatMeetByAnExchangeOfTheirOwn) {
  JobOptions options = job_of("auto", {"exchanged"}, "20", 2);
  options.prefixes = {{}, limited("ulimit -n 12")};
  const auto store = serve_store("auto", options);
  auto workers = start_job(options);
  expect_told(workers, 1, "(ulimit -");
}

TEST_F(Limits, TooFewThreadsAreNamed) {
  if (test::kSanitized) GTEST_SKIP() << "a sanitizer takes memory and threads of its own";
  const test::LimitedCgroup group("pids", {"pids.max"}, {"pids.max"}, 1);
  if (group.folder().empty()) GTEST_SKIP() << "no cgroup can be made here";
  JobOptions options = job_of("auto", {"large"}, "20", 2);
  options.prefixes = {group.entering(), {}};
  auto workers = start_job(options);  // rank 0 would serve the store
  EXPECT_THAT(wait_for_error(workers[0]).text,
              testing::AllOf(testing::StartsWith("resource "), HasSubstr("(ulimit -u, pids.max)")));
}

TEST_F(Limits, TooFewDescriptorsAreNamedToAll) { expect_told("ulimit -n 20", "(ulimit -"); }

}  // namespace
}  // namespace tutti::fault
