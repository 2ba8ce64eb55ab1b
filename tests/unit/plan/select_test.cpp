#include "plan/select.hpp"

#include <gtest/gtest.h>

#include <set>

namespace tutti::plan {
namespace {

constexpr std::size_t kKiB = 1024;

Topology hosts(std::vector<int> host_of) { return make_topology(std::move(host_of)); }

Choice reduce(std::size_t bytes, const Topology& t, int cpus) {
  return select(Kind::all_reduce, true, bytes, t, cpus, "");
}

TEST(Topology, NumbersHostsInOrderOfFirstRanks) {
  const Topology t = hosts({7, 7, 2, 7});
  EXPECT_EQ(t.host_of, (std::vector<int>{0, 0, 1, 0}));
  EXPECT_EQ(t.hosts, 2);
  EXPECT_EQ(t.max_per_host, 3);
  EXPECT_EQ(t.id, hosts({1, 1, 0, 1}).id);
  EXPECT_NE(t.id, hosts({0, 0, 1, 1}).id);
}

TEST(Topology, KnowsWhenHostsAreAligned) {
  EXPECT_TRUE(hosts({0, 0, 0}).aligned);
  EXPECT_TRUE(hosts({0, 0, 1, 1, 2}).aligned);
  EXPECT_TRUE(hosts({0, 1, 2, 3}).aligned);
  EXPECT_TRUE(hosts({0, 0, 0, 0, 1, 1, 1}).aligned);
  EXPECT_FALSE(hosts({0, 0, 0, 1, 1, 1}).aligned);
  EXPECT_FALSE(hosts({0, 1, 0, 1}).aligned);
  EXPECT_FALSE(hosts({0, 1, 1}).aligned);
  EXPECT_FALSE(hosts({0, 0, 0, 0, 1, 1, 2, 2}).aligned);
}

TEST(Select, OnOneHostWithACpuForEach) {
  const Topology two = hosts({0, 0});
  EXPECT_EQ(reduce(8, two, 2).algorithm, "one_shot");
  EXPECT_EQ(reduce(32 * kKiB, two, 2).algorithm, "one_shot");
  EXPECT_EQ(reduce(32 * kKiB + 1, two, 2).algorithm, "slice_owner");
  EXPECT_EQ(reduce(256 * kKiB, two, 2).chunk_bytes, 128 * kKiB);
  EXPECT_EQ(reduce(2048 * kKiB, two, 2).chunk_bytes, 256 * kKiB);
}

TEST(Select, OnOneHostWithMoreRanksThanCpus) {
  const Topology eight = hosts({0, 0, 0, 0, 0, 0, 0, 0});
  EXPECT_EQ(reduce(1 * kKiB, eight, 2).algorithm, "one_shot");
  EXPECT_EQ(reduce(4 * kKiB, eight, 2).algorithm, "shared_one_shot");
  EXPECT_EQ(reduce(17 * kKiB, eight, 2).algorithm, "slice_owner");
  EXPECT_EQ(reduce(17 * kKiB, eight, 2).chunk_bytes, 256 * kKiB);
}

TEST(Select, BetweenHosts) {
  const Topology apart = hosts({0, 1, 2, 3});
  EXPECT_EQ(reduce(64, apart, 2).algorithm, "exchange");
  EXPECT_EQ(reduce(8 * kKiB + 1, apart, 2).algorithm, "direct");
  EXPECT_EQ(select(Kind::barrier, false, 0, apart, 2, "").algorithm, "direct_barrier");
  const Topology mixed = hosts({0, 0, 1, 1});
  EXPECT_EQ(reduce(64, mixed, 2).algorithm, "two_level");
  EXPECT_EQ(reduce(64, mixed, 2).chunk_bytes, 0U);
  EXPECT_EQ(select(Kind::barrier, false, 0, mixed, 2, "").algorithm, "two_level_barrier");
}

TEST(Select, AlwaysFindsSomethingThatCanRunAndKeepsTheOrder) {
  for (int size = 1; size <= 130; ++size) {
    for (const int per_host : {1, 2, 3, 200}) {
      std::vector<int> host_of;
      for (int r = 0; r < size; ++r) host_of.push_back(r / per_host);
      const Topology t = hosts(host_of);
      for (const Kind kind : {Kind::barrier, Kind::broadcast, Kind::all_reduce}) {
        for (std::size_t bytes = 0; bytes < std::size_t{1} << 33; bytes = bytes * 8 + 1) {
          const Choice c = select(kind, true, bytes, t, 2, "");
          const Algorithm* const a = find_algorithm(kind, c.algorithm);
          ASSERT_NE(a, nullptr);
          EXPECT_EQ(a->build, c.build);
          EXPECT_EQ(a->order, OrderClass::binomial);
          EXPECT_TRUE(!a->one_host || t.one_host());
        }
      }
    }
  }
}

TEST(Select, TakesWhatIsAskedFor) {
  const Topology apart = hosts({0, 1, 2});
  const std::string_view text = "broadcast:binomial_broadcast, all_reduce:ring";
  EXPECT_EQ(select(Kind::all_reduce, true, 8, apart, 2, text).algorithm, "ring");
  EXPECT_EQ(select(Kind::broadcast, false, 1 << 20, apart, 2, text).algorithm,
            "binomial_broadcast");
  EXPECT_EQ(select(Kind::barrier, false, 0, apart, 2, text).algorithm, "direct_barrier");
}

TEST(Select, DoesNotTakeSharedMemoryBetweenHosts) {
  EXPECT_EQ(select(Kind::all_reduce, true, 8, hosts({0, 1}), 2, "all_reduce:one_shot").algorithm,
            "exchange");
}

TEST(CheckOverride, SaysWhatIsWrong) {
  EXPECT_TRUE(check_override("").ok());
  EXPECT_TRUE(check_override("all_reduce:ring,broadcast:binomial_broadcast").ok());
  const Status kind = check_override("reduce:ring");
  EXPECT_EQ(kind.code(), Errc::invalid_argument);
  EXPECT_NE(kind.message().find("\"reduce\""), std::string_view::npos);
  const Status name = check_override("all_reduce:rings");
  EXPECT_EQ(name.code(), Errc::invalid_argument);
  EXPECT_NE(name.message().find("\"rings\""), std::string_view::npos);
  EXPECT_NE(name.message().find("slice_owner"), std::string_view::npos);
  EXPECT_FALSE(check_override("ring").ok());
  EXPECT_FALSE(check_override("all_reduce:binomial_broadcast").ok());
}

TEST(Algorithms, HaveNamesOfTheirOwn) {
  std::set<std::string_view> names;
  for (const Algorithm& a : algorithms()) EXPECT_TRUE(names.insert(a.name).second) << a.name;
}

}  // namespace
}  // namespace tutti::plan
