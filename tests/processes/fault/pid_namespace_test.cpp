// Ranks on one host whose pids are numbers of different pid namespaces, as in containers.
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "job.hpp"
#include "network.hpp"

namespace tutti::fault {
namespace {

/// What makes a program the first process of a pid namespace of its own; empty: nothing does here.
std::vector<std::string> own_namespace() {
  const std::vector<std::string> as_root = {"unshare", "--pid", "--fork", "--mount-proc",
                                            "--kill-child"};
  std::vector<std::string> as_user = as_root;
  as_user.insert(as_user.begin() + 1, "-Ur");
  for (const auto& words : {as_root, as_user}) {
    std::vector<std::string> trial = words;
    trial.emplace_back("true");
    if (runs(trial)) return words;
  }
  return {};
}

/// The first process of the namespace that this `unshare` has made.
pid_t first_process_of(const Worker& unshare) {
  const std::string pid = std::to_string(unshare.pid());
  pid_t first = 0;
  std::ifstream("/proc/" + pid + "/task/" + pid + "/children") >> first;
  return first;
}

class PidNamespaces : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (first_.empty()) GTEST_SKIP() << "no pid namespace can be made here";
  }
  [[nodiscard]] JobOptions job(std::vector<std::string> arguments,
                               const std::string& timeout) const {
    JobOptions options;
    options.program = RANK_WORKER;
    options.size = 2;
    options.arguments = std::move(arguments);
    options.environment = way(GetParam());
    options.environment.push_back("TUTTI_TIMEOUT=" + timeout);
    options.prefixes = {first_, first_};
    return options;
  }

 private:
  std::vector<std::string> first_ = own_namespace();
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
  const ToldError told(error->text);
  EXPECT_EQ(told.code, "peer_lost") << error->text;
  EXPECT_EQ(told.culprit, 1) << error->text;
}

TEST_P(PidNamespaces, TheStateOfAnotherProcessIsNotTold) {
  JobOptions options = job({"idle", "30"}, "2");
  // In the namespace of rank 0 the number of rank 1, which is 1, is a shell's, and that is stopped.
  for (const char* const word : {"sh", "-c", "\"$@\"; exit $?", "sh"})
    options.prefixes[0].emplace_back(word);
  auto workers = start_job(options);
  ASSERT_NO_FATAL_FAILURE(hear_all(workers, "ready"));
  const pid_t shell = first_process_of(workers[0]);
  ASSERT_GT(shell, 0);
  ASSERT_EQ(::kill(shell, SIGSTOP), 0);
  const auto error = workers[0].hear("error");
  ASSERT_TRUE(error);
  const ToldError told(error->text);
  EXPECT_EQ(told.code, "timeout") << error->text;
  EXPECT_EQ(told.culprit, 1) << error->text;
  EXPECT_NE(told.text.find("has not made this call yet"), std::string::npos) << error->text;
  EXPECT_EQ(told.text.find("stopped"), std::string::npos) << error->text;
  EXPECT_EQ(::kill(shell, SIGCONT), 0);
}

}  // namespace
}  // namespace tutti::fault
