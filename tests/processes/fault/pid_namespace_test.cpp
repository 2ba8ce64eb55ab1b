// Ranks on one host whose pids are numbers of different pid namespaces, as in containers.
#include "job.hpp"

namespace tutti::fault {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

/// The first process of the namespace that this `unshare` has made.
pid_t first_process_of(const Worker& unshare) {
  const std::vector<pid_t> children = test::children_of(unshare.pid());
  return children.empty() ? 0 : children.front();
}

class PidNamespaces : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (first_.empty()) GTEST_SKIP() << "no pid namespace can be made here";
  }
  [[nodiscard]] JobOptions job(const Words& arguments, const std::string& timeout) const {
    JobOptions options = job_of(GetParam(), arguments, timeout, 2);
    options.prefixes = {first_, first_};
    return options;
  }

 private:
  Words first_ = test::own_pid_namespace();
};
INSTANTIATE_TEST_SUITE_P(Fault, PidNamespaces, ::testing::Values("auto", "ring", "tcp"),
                         name_of_way);

TEST_P(PidNamespaces, AKilledRankIsNamedAtOnce) {
  auto workers = start_job(job({"churn_together", "7", "1000000"}, "60"));
  ASSERT_NO_FATAL_FAILURE(hear_all(workers, "ready"));
  const pid_t killed = first_process_of(workers[1]);
  ASSERT_GT(killed, 0);
  ASSERT_EQ(::kill(killed, SIGKILL), 0);
  const auto error = workers[0].hear("error", 30);  // half of the timeout
  ASSERT_TRUE(error) << "the death is not seen";
  EXPECT_THAT(error->text, StartsWith("peer_lost 1 "));
}

TEST_P(PidNamespaces, TheStateOfAnotherProcessIsNotTold) {
  JobOptions options = job({"idle", "30"}, "2");
  // In the namespace of rank 0 the number of rank 1, which is 1, is a shell's, and that is stopped.
  options.prefixes[0] = joined({options.prefixes[0], {"sh", "-c", "\"$@\"; exit $?", "sh"}});
  auto workers = start_job(options);
  ASSERT_NO_FATAL_FAILURE(hear_all(workers, "ready"));
  const pid_t shell = first_process_of(workers[0]);
  ASSERT_GT(shell, 0);
  ASSERT_EQ(::kill(shell, SIGSTOP), 0);
  const auto error = workers[0].hear("error");
  ASSERT_TRUE(error);
  EXPECT_THAT(error->text, AllOf(StartsWith("timeout 1 "), HasSubstr("has not made this call yet"),
                                 testing::Not(HasSubstr("stopped"))));
  EXPECT_EQ(::kill(shell, SIGCONT), 0);
}

}  // namespace
}  // namespace tutti::fault
