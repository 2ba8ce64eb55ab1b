#include "job.hpp"
#include "support/sanitized.hpp"
#include "support/told.hpp"

// A death is seen of a process that has forked, execs, or exits in a signal handler or a callback.
namespace tutti::fault {
namespace {

/// A process that outlives its parent: ended here.
class Orphan {
 public:
  explicit Orphan(Worker& parent) {
    const auto said = parent.hear("child");
    EXPECT_TRUE(said);
    if (said) pid_ = std::stoi(said->text);
  }
  Orphan(const Orphan&) = delete;
  Orphan& operator=(const Orphan&) = delete;
  ~Orphan() {
    if (pid_ > 0) ::kill(pid_, SIGKILL);
  }
  [[nodiscard]] bool lives() const { return pid_ > 0 && ::kill(pid_, 0) == 0; }

 private:
  pid_t pid_ = 0;
};

class Forks : public ::testing::TestWithParam<const char*> {
 protected:
  static std::vector<Worker> start(const Words& arguments, int size) {
    return start_job(job_of(GetParam(), arguments, "120", size));
  }
};
INSTANTIATE_TEST_SUITE_P(Fault, Forks, ::testing::Values("auto", "ring", "tcp", "tls"),
                         name_of_way);

void expect_lost(Worker& worker, int rank) {
  const auto error = worker.hear("error");
  ASSERT_TRUE(error) << "was not told";
  EXPECT_THAT(error->text, testing::StartsWith("peer_lost " + std::to_string(rank) + " "));
}

TEST_P(Forks, TheDeathOfARankThatHasForkedIsSeenAtOnce) {
  auto workers = start({"forks"}, 3);
  ASSERT_NO_FATAL_FAILURE(hear_all(workers, "there"));
  const Orphan orphan(workers[2]);
  workers[2].signal(SIGKILL);
  for (const std::size_t rank : {0U, 1U}) expect_lost(workers[rank], 2);
  EXPECT_TRUE(orphan.lives()) << "shows nothing: the child has ended, too";
}

TEST_P(Forks, ARankThatExecsIsDead) {
  auto workers = start({"execs"}, 3);
  for (const std::size_t rank : {0U, 1U}) expect_lost(workers[rank], 2);
}

TEST_P(Forks, ExitWhereItIsLeastConvenientEnds) {
  for (const char* const where : {"exit_in_handler", "exit_in_callback"}) {
    for (const char* const kept : {"static", "leaked"}) {
      SCOPED_TRACE(std::string(where) + ", " + kept);
      JobOptions options = job_of(GetParam(), {where, kept}, "120", 2);
      // Memory of the call that exit() has cut short, OpenSSL's among it, is no leak.
      options.environment.push_back("ASAN_OPTIONS=detect_leaks=0:detect_stack_use_after_return=1");
      auto workers = start_job(options);
      ASSERT_TRUE(workers[1].hear("exits"));
      expect_success(workers[1]);
      EXPECT_TRUE(workers[0].hear("error")) << "the other rank was not told";
    }
  }
}

TEST_P(Forks, ChildrenAreRefusedEverythingButAWorldOfTheirOwn) {
  if (test::kSanitized) GTEST_SKIP() << "sanitizers do not like forks of programs with threads";
  auto workers = start({"children"}, 2);
  for (Worker& worker : workers) {
    EXPECT_TRUE(worker.wait()) << "hangs";
    EXPECT_TRUE(worker.heard("well"));
    for (const char* const word : {"wrong", "worked", "otherwise", "error"}) {
      const auto said = worker.heard(word);
      EXPECT_FALSE(said) << word << ' ' << said->text;
    }
  }
}

TEST(ForkedServer, TheDeathOfAStoreIsSeenAtOnceAndItsPortIsFree) {
  Worker server({RANK_WORKER, "serve"}, {});
  const auto port = server.hear("port");
  ASSERT_TRUE(port);
  const Orphan orphan(server);
  const auto number = static_cast<std::uint16_t>(std::stoi(port->text));
  const auto store = make_tcp_store({.port = number, .timeout = std::chrono::seconds(120)});
  ASSERT_EQ(store->get("key").size(), 5U);
  server.signal(SIGKILL);
  ASSERT_TRUE(server.wait());
  const auto before = Clock::now();
  const auto told = test::told<Error>([&] { (void)store->get("never set"); });
  EXPECT_EQ(told.code, Errc::store) << told.text;
  EXPECT_LT(Clock::now() - before, std::chrono::seconds(60)) << "its deadline has told it";
  const auto address = os::Address::parse("127.0.0.1", number);
  EXPECT_EQ(os::connect_tcp(address.value(), in(5)).status().code(), Errc::refused);
  EXPECT_TRUE(orphan.lives()) << "shows nothing: the child has ended, too";
}

}  // namespace
}  // namespace tutti::fault
