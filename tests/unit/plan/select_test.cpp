#include "plan/select.hpp"
#include "plan/selection_text.hpp"

#include <gtest/gtest.h>

#include <set>
#include <utility>
#include <vector>

#include <tutti/backend/kinds.hpp>

#include "proof_cases.hpp"

namespace tutti::plan {
namespace {

using verify::in_blocks;

constexpr std::size_t kKiB = 1024;

Topology hosts(std::vector<int> host_of) { return make_topology(std::move(host_of)); }

Choice pick(Kind kind, std::size_t bytes, const Topology& t, std::string_view text = {}) {
  return select({.kind = kind, .bytes = bytes, .rounds = true, .cpus = 2, .override_text = text},
                t);
}

Choice reduce(std::size_t bytes, const Topology& t) { return pick(Kind::all_reduce, bytes, t); }

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
  EXPECT_EQ(reduce(8, two).algorithm, "one_shot");
  EXPECT_EQ(reduce(32 * kKiB, two).algorithm, "one_shot");
  EXPECT_EQ(reduce(32 * kKiB + 1, two).algorithm, "slice_owner");
  EXPECT_EQ(reduce(256 * kKiB, two).chunk_bytes, 512 * kKiB);
  EXPECT_EQ(reduce(4096 * kKiB, two).chunk_bytes, 512 * kKiB);
  EXPECT_EQ(reduce(4097 * kKiB, two).chunk_bytes, 256 * kKiB);
}

TEST(Select, NamesTheRuleThatDecided) {
  const Topology four = hosts({0, 1, 2, 3});
  const Query query{.kind = Kind::all_reduce, .bytes = 40 * kKiB, .rounds = true, .cpus = 2};
  const Choice choice = select(query, four);
  ASSERT_NE(choice.rule, nullptr);
  EXPECT_EQ(choice.rule->algorithm, choice.algorithm);
  std::vector<Refusal> refusals;
  for (const Rule& rule : rules()) {
    const Refusal refusal = refusal_of(rule, query, four);
    if (refusal != Refusal::elsewhere) refusals.push_back(refusal);
    if (&rule == choice.rule) break;
  }
  EXPECT_EQ(refusals, (std::vector{Refusal::ranks, Refusal::bytes, Refusal::bytes, Refusal::none}));
  EXPECT_EQ(pick(Kind::all_reduce, 8, four, "all_reduce:ring").rule, nullptr);
}

TEST(Select, OnOneHostWithMoreRanksThanCpus) {
  const Topology eight = hosts({0, 0, 0, 0, 0, 0, 0, 0});
  EXPECT_EQ(reduce(1 * kKiB, eight).algorithm, "one_shot");
  EXPECT_EQ(reduce(4 * kKiB, eight).algorithm, "shared_one_shot");
  EXPECT_EQ(reduce(17 * kKiB, eight).algorithm, "slice_owner");
  EXPECT_EQ(reduce(17 * kKiB, eight).chunk_bytes, 256 * kKiB);
}

TEST(Select, BetweenHosts) {
  const Topology apart = hosts({0, 1, 2, 3});
  EXPECT_EQ(reduce(64, apart).algorithm, "exchange");
  EXPECT_EQ(reduce(32 * kKiB, apart).algorithm, "exchange");
  EXPECT_EQ(reduce(32 * kKiB + 1, apart).algorithm, "direct");
  EXPECT_EQ(reduce(256 * kKiB, in_blocks(2, 1)).algorithm, "exchange");
  EXPECT_EQ(reduce(256 * kKiB + 1, in_blocks(2, 1)).algorithm, "direct");
  EXPECT_EQ(reduce(8 * kKiB + 1, in_blocks(5, 1)).algorithm, "direct");
  const auto broadcast = [](std::size_t bytes, int ranks) {
    return pick(Kind::broadcast, bytes, in_blocks(ranks, 1)).algorithm;
  };
  EXPECT_EQ(broadcast(32 * kKiB, 4), "direct_broadcast");
  EXPECT_EQ(broadcast(32 * kKiB + 1, 4), "scatter_all_gather_broadcast");
  EXPECT_EQ(broadcast(8 * kKiB, 16), "direct_broadcast");
  EXPECT_EQ(broadcast(8 * kKiB + 1, 16), "binomial_broadcast");
  EXPECT_EQ(broadcast(8, 17), "binomial_broadcast");
  EXPECT_EQ(pick(Kind::barrier, 0, apart).algorithm, "direct_barrier");
  const Topology mixed = hosts({0, 0, 1, 1});
  EXPECT_EQ(reduce(64, mixed).algorithm, "two_level");
  EXPECT_EQ(reduce(64, mixed).chunk_bytes, 0U);
  EXPECT_EQ(pick(Kind::barrier, 0, mixed).algorithm, "two_level_barrier");
  for (const Kind kind : {Kind::reduce, Kind::gather, Kind::scatter})
    EXPECT_EQ(pick(kind, 64, mixed).algorithm, "two_level") << to_string(kind);
  EXPECT_EQ(reduce(64, in_blocks(100, 1)).algorithm, "recursive_doubling");
}

TEST(Select, AlwaysFindsSomethingThatCanRunAndKeepsItsPromises) {
  std::set<Kind> kinds;
  for (const Algorithm& a : algorithms()) kinds.insert(a.kind);
  for (int size = 1; size <= 130; ++size) {
    for (const int per_host : {1, 2, 3, 200}) {
      const Topology t = in_blocks(size, per_host);
      for (const Kind kind : kinds) {
        for (std::size_t bytes = 0; bytes < std::size_t{1} << 33; bytes = bytes * 8 + 1) {
          for (const bool special : {false, true}) {
            const Query q{kind, bytes, true, special, special, 2, {}, !special};
            const Choice c = select(q, t);
            const Algorithm* const a = find_algorithm(kind, c.algorithm);
            ASSERT_NE(a, nullptr) << to_string(kind);
            EXPECT_EQ(a->build, c.build);
            EXPECT_EQ(a->order, OrderClass::binomial);
            EXPECT_TRUE(!a->one_host || t.one_host());
            EXPECT_TRUE(!special || !a->even_blocks) << a->name;
            EXPECT_TRUE(!special || !traits_of(kind).reduces || a->single_pass) << a->name;
            EXPECT_TRUE(!special || kind != Kind::all_to_all || a->any_splits) << a->name;
          }
        }
      }
    }
  }
}

// The engine runs what it is given: where nothing fits, a kind lacks a last row for that place.
TEST(Select, HasALastRowForEveryKindAndPlace) {
  std::set<Kind> kinds{Kind::barrier};
  for (int k = 0; k < kKindCount; ++k) {
    const auto kind = static_cast<Kind>(k);
    if (has_data(kind) && is_collective(kind)) kinds.insert(kind);
  }
  struct Place {
    const char* name;
    Topology topology;
    int cpus;
  };
  const Place places[] = {{"fit", in_blocks(200, 200), 200},
                          {"oversubscribed", in_blocks(200, 200), 2},
                          {"spread", in_blocks(200, 1), 2},
                          {"mixed", in_blocks(200, 2), 2}};
  constexpr std::size_t kHuge = std::size_t{1} << 50;
  for (const Kind kind : kinds) {
    const KindTraits& traits = traits_of(kind);
    for (const Place& place : places) {
      for (int what = 0; what < 8; ++what) {
        Query q;
        q.kind = kind;
        q.bytes = kHuge;
        q.cpus = place.cpus;
        q.rounds = (what & 1) != 0;
        q.narrow = (what & 2) != 0 && traits.reduces;
        q.uneven = (what & 4) != 0 && traits.uneven == Uneven::pairwise;
        q.even_blocks = (what & 4) == 0 || traits.uneven == Uneven::no;
        const Choice choice = select(q, place.topology);
        EXPECT_NE(choice.build, nullptr) << traits.name << ", " << place.name << ", query " << what;
      }
    }
  }
}

TEST(Select, OfUnevenSplitsDoesNotLookAtTheirSize) {
  // Each rank knows another one.
  for (const std::string_view text : {"", "all_to_all:direct_all_to_all", "all_to_all:chunked"}) {
    for (const Topology& t : {hosts({0, 0}), hosts({0, 1}), hosts({0, 0, 1})}) {
      const Choice small = select({Kind::all_to_all, 1, false, false, true, 2, text}, t);
      const Choice large = select({Kind::all_to_all, 1 << 30, false, false, true, 2, text}, t);
      EXPECT_EQ(small.algorithm, "direct_all_to_all");
      EXPECT_EQ(large.algorithm, "direct_all_to_all");
      EXPECT_EQ(small.chunk_bytes, large.chunk_bytes);
    }
  }
}

TEST(Select, TakesWhatNeedsEvenBlocksOnlyWhereTheyAre) {
  const Topology mixed = hosts({0, 0, 1, 1});
  Query q{Kind::reduce_scatter, 1 << 20, true, false, false, 2, "reduce_scatter:two_level"};
  EXPECT_EQ(select(q, mixed).algorithm, "direct");
  q.even_blocks = true;
  EXPECT_EQ(select(q, mixed).algorithm, "two_level");
  q.override_text = {};
  EXPECT_EQ(select(q, mixed).algorithm, "two_level");
}

TEST(Select, DoesNotTakePartialSumsOfNarrowFloatsEvenIfAskedTo) {
  const Query q{Kind::all_reduce, 8, true, true, false, 2, "all_reduce:ring"};
  EXPECT_EQ(select(q, hosts({0, 1, 2})).algorithm, "exchange");
  EXPECT_EQ(select(q, hosts({0, 0, 1})).algorithm, "exchange");
}

TEST(Select, TakesWhatIsAskedFor) {
  const Topology apart = hosts({0, 1, 2});
  const std::string_view text = "broadcast:binomial_broadcast, all_reduce:ring";
  EXPECT_EQ(pick(Kind::all_reduce, 8, apart, text).algorithm, "ring");
  EXPECT_EQ(pick(Kind::broadcast, 1 << 20, apart, text).algorithm, "binomial_broadcast");
  EXPECT_EQ(pick(Kind::barrier, 0, apart, text).algorithm, "direct_barrier");
}

TEST(Select, DoesNotTakeSharedMemoryBetweenHosts) {
  EXPECT_EQ(pick(Kind::all_reduce, 8, hosts({0, 1}), "all_reduce:one_shot").algorithm, "exchange");
}

TEST(CheckOverride, SaysWhatIsWrong) {
  EXPECT_TRUE(check_override("").ok());
  EXPECT_TRUE(check_override("all_reduce:ring,broadcast:binomial_broadcast").ok());
  EXPECT_TRUE(check_override("all_gather:ring").ok());
  const Outcome kind = check_override("reduces:ring");
  EXPECT_EQ(kind.code(), Errc::invalid_argument);
  EXPECT_NE(kind.message().find("\"reduces\""), std::string_view::npos);
  EXPECT_NE(kind.message().find("all_to_all, scan, exclusive_scan)"), std::string_view::npos);
  EXPECT_FALSE(check_override("new_group:direct").ok());
  const Outcome name = check_override("all_reduce:rings");
  EXPECT_EQ(name.code(), Errc::invalid_argument);
  EXPECT_NE(name.message().find("\"rings\""), std::string_view::npos);
  EXPECT_NE(name.message().find("slice_owner"), std::string_view::npos);
  EXPECT_FALSE(check_override("ring").ok());
  EXPECT_FALSE(check_override("all_reduce:binomial_broadcast").ok());
}

TEST(Algorithms, HaveNamesOfTheirOwnWithinTheirKind) {
  std::set<std::pair<Kind, std::string_view>> names;
  for (const Algorithm& a : algorithms()) {
    EXPECT_TRUE(names.emplace(a.kind, a.name).second) << a.name;
    EXPECT_TRUE(check_override(std::string(to_string(a.kind)) + ":" + std::string(a.name)).ok());
  }
}

TEST(SelectionText, TellsWhereAnotherAlgorithmBegins) {
  EXPECT_EQ(
      selection_text(make_topology({0, 0}), 2, ""),
      "barrier region_barrier; broadcast broadcast_one_shot, broadcast_chunked above 64 KiB; "
      "all_reduce one_shot, slice_owner above 32 KiB; all_gather one_shot, chunked above 128 "
      "KiB; reduce_scatter one_shot, chunked above 64 KiB; all_to_all one_shot, chunked above "
      "64 KiB");
  EXPECT_NE(selection_text(make_topology({0, 1}), 2, "all_reduce:ring").find("all_reduce ring; "),
            std::string::npos);
}

}  // namespace
}  // namespace tutti::plan
