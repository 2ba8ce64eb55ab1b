// Several nodes, all on this host.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "tuttirun_process.hpp"

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::Not;

namespace {

std::string free_port() {
  auto listener = tutti::os::listen_tcp(tutti::os::Address::parse("127.0.0.1", 0).value());
  return std::to_string(tutti::os::local_address(listener->get())->port());
}

std::vector<std::string> node(int rank, const std::string& port, std::vector<std::string> rest) {
  std::vector<std::string> arguments = {"--nnodes",         "2",
                                        "--nproc-per-node", "2",
                                        "--master-addr",    "127.0.0.1",
                                        "--master-port",    port,
                                        "--node-rank",      std::to_string(rank)};
  arguments.insert(arguments.end(), rest.begin(), rest.end());
  return arguments;
}

TEST(TuttirunNodes, WorkersOfTwoNodesFindEachOther) {
  const std::string port = free_port();
  Tuttirun second(node(1, port, {EXCHANGE_WORKER}));
  Tuttirun first(node(0, port, {EXCHANGE_WORKER}));
  EXPECT_EQ(first.wait(), 0) << first.err;
  EXPECT_EQ(second.wait(), 0) << second.err;
  EXPECT_EQ(Tuttirun::count(first.out + second.out, "met everybody twice"), 4);
  EXPECT_EQ(first.err, "") << "nothing warns on loopback";
}

TEST(TuttirunNodes, ASecretFileIsUsedByAll) {
  const std::string path = testing::TempDir() + "tuttirun_secret_" + std::to_string(getpid());
  std::ofstream(path) << std::string(32, 's');
  ASSERT_EQ(chmod(path.c_str(), 0600), 0);
  const std::string port = free_port();
  Tuttirun first(node(0, port, {"--secret-file", path, EXCHANGE_WORKER}));
  Tuttirun second(node(1, port, {"--secret-file", path, EXCHANGE_WORKER}));
  EXPECT_EQ(first.wait(), 0) << first.err;
  EXPECT_EQ(second.wait(), 0) << second.err;
  unlink(path.c_str());
}

TEST(TuttirunNodes, AFailureOnOneNodeEndsTheOther) {
  const std::string port = free_port();
  const std::vector<std::string> program = {"bash", "-c",
                                            "if [ $RANK = 3 ]; then exit 9; fi; exec sleep 1000"};
  Tuttirun first(node(0, port, program));
  Tuttirun second(node(1, port, program));
  EXPECT_EQ(second.wait(), 9) << second.err;
  EXPECT_EQ(first.wait(), 9) << first.err;
  EXPECT_THAT(first.err, HasSubstr("rank 3 on node 1 failed first: exit code 9"));
}

TEST(TuttirunNodes, TheNodeThatServesWaitsForTheOthers) {
  const std::string port = free_port();
  Tuttirun first(node(0, port, {"true"}));
  Tuttirun second(node(1, port, {"bash", "-c", "read -t 0.5 line < <(sleep 10); exit 0"}));
  EXPECT_EQ(first.wait(), 0) << first.err;
  EXPECT_EQ(second.wait(), 0) << second.err;
}

TEST(TuttirunNodes, TheDeathOfTheServingNodeEndsTheOther) {
  const std::string port = free_port();
  Tuttirun first(node(0, port, {"bash", "-c", "echo ready; exec sleep 1000"}));
  Tuttirun second(node(1, port, {"bash", "-c", "echo ready; exec sleep 1000"}));
  first.read_until("ready", 2);
  second.read_until("ready", 2);
  first.signal(SIGKILL);
  EXPECT_EQ(first.wait(), 128 + SIGKILL);
  EXPECT_NE(second.wait(), 0);
  EXPECT_THAT(second.err, HasSubstr("node 0"));
}

}  // namespace
