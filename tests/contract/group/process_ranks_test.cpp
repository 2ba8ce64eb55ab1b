#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <random>
#include <thread>

#include "programs.hpp"
#include "support/long_tests.hpp"
#include "support/rotation.hpp"
#include "support/told.hpp"

// The same programs with real processes, started by tuttirun; support/ranks_main.cpp makes no
// world.
namespace tutti {
namespace {

/// As the launcher has said, encrypted or not.
Config configured() { return Config::from_environment().value(); }

int variable(const char* name) {
  const char* const text = std::getenv(name);
  EXPECT_NE(text, nullptr) << name;
  return text == nullptr ? 0 : std::atoi(text);
}

/// Where the ranks are: each a host of its own, or shared memory inside a host and TCP between.
enum class Hosts { one, one_by_tcp, dealt_out, runs };

Config config_of(Hosts hosts) {
  Config config = configured();
  const int rank = variable("RANK");
  switch (hosts) {
    case Hosts::one: break;
    case Hosts::one_by_tcp: config.transport = Config::TransportChoice::tcp; break;
    case Hosts::dealt_out: config.host_id = rank % 2 == 0 ? "even" : "odd"; break;
    case Hosts::runs: config.host_id = rank < variable("WORLD_SIZE") / 2 ? "one" : "other"; break;
  }
  return config;
}
constexpr Hosts kAllHosts[] = {Hosts::one, Hosts::one_by_tcp, Hosts::dealt_out, Hosts::runs};

/// For what takes long: one of them by rotation, and that in which ranks reach each other in all
/// ways.
std::vector<Hosts> some_hosts() {
  std::vector<Hosts> some;
  for (const int one :
       test::sizes_by_rotation({static_cast<int>(Hosts::dealt_out)},
                               {static_cast<int>(Hosts::one), static_cast<int>(Hosts::one_by_tcp),
                                static_cast<int>(Hosts::runs)}))
    some.push_back(static_cast<Hosts>(one));
  return some;
}

ProcessGroup world_on(Hosts hosts) { return init_process_group({.config = config_of(hosts)}); }

TEST(ProcessRanks, GiveKnownResultsAgainAndAgain) {
  for (std::uint64_t world_number = 0; world_number < 3; ++world_number) {
    ProcessGroup world = init_process_group();  // on one port, one after the other
    EXPECT_TRUE(is_initialized());
    test::run(world, {.seed = 11 + world_number, .most = 200'000});
    std::vector<int> odd;
    for (int r = 1; r < world.size(); r += 2) odd.push_back(r);
    if (!odd.empty()) {
      if (ProcessGroup group = world.new_group(odd))
        test::run(group, {.seed = 23, .rounds = 5, .most = 50'000});
    }
    world.barrier().wait();
  }
  EXPECT_FALSE(is_initialized());
}

TEST(ProcessRanks, GiveTheSameWhereverTheyAre) {
  for (const Hosts hosts : {Hosts::one_by_tcp, Hosts::dealt_out}) {
    ProcessGroup world = world_on(hosts);
    test::run(world, {.seed = 31, .most = 200'000});
  }
}

TEST(ProcessRanks, GiveTheSameByMessagesOfOneHost) {
  for (const char* const algorithms :
       {"all_reduce:ring,broadcast:binomial_broadcast,barrier:direct_barrier",
        "all_reduce:direct,broadcast:scatter_all_gather_broadcast,barrier:dissemination_barrier"}) {
    Config config = configured();
    config.algorithms = algorithms;
    ProcessGroup world = init_process_group({.config = config});
    test::run(world, {.seed = 37, .most = 200'000});
  }
}

TEST(ProcessRanks, CombineByAnOpOfTheProgram) {
  const auto digits = [](std::uint64_t a, std::uint64_t b) { return a * 10 + b; };
  for (const Hosts hosts : kAllHosts) {
    ProcessGroup world = world_on(hosts);
    const UserOp op = UserOp::of<std::uint64_t>("digits", digits);
    std::uint64_t expected = 0;
    for (int r = 0; r < world.size(); ++r) expected = digits(expected, std::uint64_t(r));
    for (const std::size_t count : {std::size_t{3}, std::size_t{20'001}}) {
      std::vector<std::uint64_t> buffer(count, static_cast<std::uint64_t>(world.rank()));
      world.all_reduce(buffer, op).wait();
      EXPECT_EQ(buffer, std::vector<std::uint64_t>(count, expected));
    }
    if (world.size() == 1) continue;
    // No rank has made the other's op. A group of its own: the world must not break.
    ProcessGroup group = world.new_subgroups(world.size());
    const UserOp other =
        UserOp::of<std::uint64_t>("op of rank " + std::to_string(world.rank()), digits);
    std::vector<std::uint64_t> one(1);
    const auto error = test::told<DisagreementError>([&] { group.all_reduce(one, other).wait(); });
    EXPECT_THAT(error.text,
                testing::HasSubstr("an op that this process has not made (all ranks must give the "
                                   "UserOp the same name and block)"));
    world.barrier().wait();  // nobody leaves before all have heard of it
  }
}

TEST(ProcessRanks, KeepNoSlotsOfGroupsThatAreClosed) {
  ProcessGroup world = init_process_group();
  // A minute for all of them with 8 ranks on 2 CPUs; one slot that is lost is seen with few, too.
  test::churn_groups(world, 43, world.size() > 3 && !test::long_tests() ? 30 : 300);
}

TEST(ProcessRanks, TakeSeveralTensorsAtOnceAndWaitForTheLatest) {
  for (const Hosts hosts : {Hosts::one, Hosts::dealt_out}) {
    ProcessGroup world = world_on(hosts);
    std::vector<int> few(3, 1);
    std::vector<int> many(300'000, world.rank());
    std::vector<int> none;
    const std::vector<TensorView> all{TensorView(few), TensorView(none), TensorView(many)};
    for (int round = 0; round < 5; ++round) {
      std::fill(few.begin(), few.end(), 1);
      std::fill(many.begin(), many.end(), world.rank());
      world.all_reduce_coalesced(all).wait();
      EXPECT_EQ(few, std::vector<int>(3, world.size()));
      EXPECT_EQ(many, std::vector<int>(300'000, world.size() * (world.size() - 1) / 2));
      world.monitored_barrier({.wait_all_ranks = round % 2 == 0});
    }
  }
}

/// Half of the ranks on another host, as runs (which sums need) or dealt out.
TEST(ProcessRanks, GiveBlocksAndSumsToOneOnTwoHosts) {
  for (const Hosts hosts : {Hosts::runs, Hosts::dealt_out}) {
    ProcessGroup world = world_on(hosts);
    test::run(world, {.seed = 12, .rounds = 20, .most = 400, .kinds = test::kBlockKinds});
    test::run(world, {.seed = 13, .most = 30'000, .kinds = test::kBlockKinds});
  }
}

/// Numbers in which the order of additions shows: every rank the same, as `expected` where that is
/// known.
std::uint32_t bits_of_sum(ProcessGroup& world, std::size_t count) {
  const auto mine = static_cast<float>(world.rank());
  std::vector<float> sum(count, world.rank() % 2 == 0 ? 1e8F + mine * 64 : 1.25F + mine / 3);
  world.all_reduce(sum).wait();
  std::vector<std::int64_t> least(1, std::numeric_limits<std::int64_t>::max());
  std::vector<std::int64_t> most(1, 0);
  for (const float one : sum) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &one, sizeof(bits));
    least[0] = std::min<std::int64_t>(least[0], bits);
    most[0] = std::max<std::int64_t>(most[0], bits);
  }
  world.all_reduce(least, {.op = ReduceOp::min}).wait();
  world.all_reduce(most, {.op = ReduceOp::max}).wait();
  EXPECT_EQ(least[0], most[0]) << "ranks or elements differ, " << count;
  return static_cast<std::uint32_t>(most[0]);
}

TEST(ProcessRanks, AddInOneOrderWhereverTheyAre) {
  std::optional<std::uint32_t> first;
  for (const Hosts hosts : kAllHosts) {
    ProcessGroup world = world_on(hosts);
    for (const std::size_t count : {1, 900, 20'000, 300'000}) {
      const std::uint32_t bits = bits_of_sum(world, count);
      EXPECT_EQ(bits, first.value_or(bits)) << count << ", hosts " << static_cast<int>(hosts);
      first = bits;
    }
  }
}

TEST(ProcessRanks, SendToEverybodyOnTwoHosts) {
  for (const Hosts hosts : {Hosts::runs, Hosts::dealt_out}) {
    ProcessGroup world = world_on(hosts);
    const auto ranks = static_cast<std::size_t>(world.size());
    for (const std::size_t count : {std::size_t{0}, std::size_t{3}, std::size_t{150'000}}) {
      const std::vector<int> mine(count, world.rank());
      std::vector<std::vector<int>> theirs(ranks, std::vector<int>(count, -1));
      std::vector<Work> works;
      for (int other = 0; other < world.size(); ++other) {
        works.push_back(world.isend(mine, other, {.tag = 5}));
        works.push_back(world.irecv(theirs[static_cast<std::size_t>(other)], other, {.tag = 5}));
      }
      wait_all(works);
      for (std::size_t other = 0; other < ranks; ++other)
        EXPECT_EQ(theirs[other], std::vector<int>(count, static_cast<int>(other)));
      // And from whoever comes: each other rank once.
      if (world.rank() != 0) {
        world.send(mine, 0, {.tag = 6});
        continue;
      }
      std::vector<int> sources;
      for (std::size_t i = 1; i < ranks; ++i) {
        std::vector<int> got(count, -1);
        sources.push_back(world.recv(got, any_source, {.tag = 6}));
        EXPECT_EQ(got, std::vector<int>(count, sources.back()));
      }
      std::sort(sources.begin(), sources.end());
      for (std::size_t i = 1; i < ranks; ++i) EXPECT_EQ(sources[i - 1], static_cast<int>(i));
    }
  }
}

/// What this process has of the system for its groups.
struct Holdings {
  std::vector<std::string> threads;  ///< their names
  int sockets = 0;
};
Holdings holdings() {
  Holdings now;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream file(thread.path() / "comm");
    std::getline(file, now.threads.emplace_back());
  }
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;  // the descriptor that lists them
    const std::string target = std::filesystem::read_symlink(entry.path(), gone).string();
    now.sockets += target.starts_with("socket:") ? 1 : 0;
  }
  return now;
}

/// As `holdings`, once the threads of init have ended and the progress thread has its name: where
/// ranks spin on all CPUs, either may take a while.
Holdings settled_holdings() {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  Holdings now = holdings();
  const auto is_settled = [&] {
    return now.threads.size() == 1 ||
           (now.threads.size() == 2 && std::ranges::count(now.threads, "tutti-progress") == 1);
  };
  while (!is_settled() && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    now = holdings();
  }
  return now;
}

TEST(ProcessRanks, OpenNothingForAThousandGroups) {
  constexpr int kGroups = 1000;
  for (const Hosts hosts : some_hosts()) {
    ProcessGroup world = world_on(hosts);
    const auto ranks = static_cast<std::size_t>(world.size());
    // All who can be connected are, before they are counted.
    std::vector<int> all(ranks, 1);
    std::vector<int> got(ranks);
    world.all_to_all(got, all).wait();
    std::vector<Work> works;
    for (int other = 0; other < world.size(); ++other) {
      const auto at = static_cast<std::size_t>(other);
      works.push_back(world.isend(std::span(all).subspan(at, 1), other));
      works.push_back(world.irecv(std::span(got).subspan(at, 1), other));
    }
    wait_all(works);
    world.barrier().wait();
    const Holdings before = settled_holdings();
    EXPECT_GE(before.threads.size(), 1U);
    std::mt19937 random(17);  // alike on all ranks
    std::vector<ProcessGroup> groups;
    for (int i = 0; i < kGroups; ++i) {  // all of them stay
      std::vector<int> members;
      for (int rank = 0; rank < world.size(); ++rank) {
        if (i % 8 == 0 || random() % 4 != 0) members.push_back(rank);
      }
      if (members.empty()) members.push_back(0);
      auto group = world.new_group(members);
      if (!group) continue;
      groups.push_back(std::move(group));
      if (i % 5 != 0) continue;
      std::vector<int> one(1, 1);
      groups.back().all_reduce(one).wait();
      EXPECT_EQ(one[0], groups.back().size());
    }
    const Holdings after = holdings();
    EXPECT_THAT(after.threads, testing::UnorderedElementsAreArray(before.threads));
    // Fewer: where both have dialled each other at once, one of the two was still being closed.
    EXPECT_LE(after.sockets, before.sockets) << "hosts " << static_cast<int>(hosts);
    world.barrier().wait();  // nobody closes what another still counts
  }
}

TEST(ProcessRanks, HaveTwoNamesInAGroup) {
  ProcessGroup world = init_process_group();
  // The odd ones, the last first; all ranks of the world can be asked for, members or not.
  const ProcessGroup group =
      world.split(world.rank() % 2 == 1 ? std::optional<int>(0) : std::nullopt, -world.rank());
  ASSERT_EQ(static_cast<bool>(group), world.rank() % 2 == 1);
  if (!group) return;
  int local = 0;
  for (int global = world.size() - 1; global >= 0; --global) {
    if (global % 2 == 0) {
      EXPECT_EQ(group.group_rank(global), std::nullopt);
      continue;
    }
    EXPECT_EQ(group.group_rank(global), local);
    EXPECT_EQ(group.global_rank(local), global);
    ++local;
  }
  EXPECT_EQ(local, group.size());
  EXPECT_EQ(group.group_rank(world.rank()), group.rank());
  EXPECT_EQ(group.group_rank(-1), std::nullopt);
  EXPECT_EQ(group.group_rank(world.size()), std::nullopt);
  EXPECT_THROW((void)group.global_rank(local), InvalidArgument);
}

}  // namespace
}  // namespace tutti
