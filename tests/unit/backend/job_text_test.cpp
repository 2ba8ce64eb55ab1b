#include "backend/native/job_text.hpp"

#include <gtest/gtest.h>

#include <tutti/version.hpp>

namespace tutti::native {
namespace {

TEST(JobText, OfOneHost) {
  JobFacts facts;
  facts.hosts = {"node-1", "node-1"};
  facts.ranks_here = 2;
  facts.cpus = 8;
  facts.selection = "barrier region_barrier";
  EXPECT_EQ(job_text(facts), "tutti " + std::string(version()) +
                                 ": 2 ranks on 1 host (node-1: 2); shared memory; 8 CPUs a host; "
                                 "algorithms: barrier region_barrier");
}

TEST(JobText, OfSeveralHosts) {
  JobFacts facts;
  for (int rank = 0; rank < 20; ++rank) facts.hosts.push_back("n" + std::to_string(rank / 2));
  facts.ranks_here = 2;
  facts.address = "10.0.0.1:4711";
  facts.interface = "eth0";
  facts.encrypted = true;
  const std::string text = job_text(facts);
  EXPECT_NE(text.find(": 20 ranks on 10 hosts (n0: 2, n1: 2, n2: 2, n3: 2, n4: 2, n5: 2, n6: 2, "
                      "n7: 2, ...); shared memory within a host, TCP between hosts (rank 0 at "
                      "10.0.0.1:4711 on eth0, TLS 1.3); 1 CPU a host; "),
            std::string::npos)
      << text;
}

TEST(JobText, RunsOfRanks) {
  EXPECT_EQ(ranks_text(std::vector<int>{}), "");
  EXPECT_EQ(ranks_text(std::vector<int>{3}), "3");
  EXPECT_EQ(ranks_text(std::vector<int>{0, 1, 2, 5, 7, 8}), "0-2, 5, 7-8");
  std::vector<int> even;
  for (int rank = 0; rank < 100; rank += 2) even.push_back(rank);
  EXPECT_EQ(ranks_text(even), "0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30, ...");
}

TEST(JobText, RoutesOfARank) {
  engine::World world;
  world.rank = 1;
  world.size = 5;
  world.local_of = {0, 1, 2, -1, -1};
  EXPECT_EQ(peers_text(world), "rank 1: shared memory with ranks 0, 2; TCP with ranks 3-4");
  world.local_of = {-1, 0, -1, -1, -1};
  EXPECT_EQ(peers_text(world), "rank 1: TCP with ranks 0, 2-4");
}

}  // namespace
}  // namespace tutti::native
