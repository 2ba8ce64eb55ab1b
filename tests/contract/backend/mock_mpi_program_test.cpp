#include <gmock/gmock.h>

#include <tuple>

#include "mock_mpi_ranks.hpp"
#include "support/called_back.hpp"

// The backend on MPI beside a program that uses MPI itself: which thread may call it, who drives,
// and what of the program's MPI stays as it is.
namespace tutti::test {
namespace {

using namespace std::chrono_literals;

/// Runs so many ranks, of which rank 0 is told to have this level, and makes no forbidden call.
void run_at(mpi::Threading threading, int ranks,
            const std::function<void(ProcessGroup& world, MockRank& first)>& body) {
  MockMpi mpi(ranks);
  MockRank& first = mpi.rank(0);
  first.set_threading(threading);
  run_mock_mpi(mpi, [&](ProcessGroup& world) { body(world, first); });
  EXPECT_EQ(first.misuse(), "");
}

/// On a thread that has not called MPI_Init.
template <class Action>
void elsewhere(MockRank& rank, Action&& action) {
  std::thread([&] {
    rank.set_main_thread(false);
    action();
    rank.set_main_thread(true);
  }).join();
}

TEST(MockMpiProgram, BelowSerializedOnlyTheMainThreadCalls) {
  run_at(mpi::Threading::funneled, 1, [](ProcessGroup& world, MockRank& first) {
    std::vector<int> one{1};
    Work work = world.all_reduce(one);
    std::atomic<int> called{0};
    work.on_done(counts_in(called));
    work.wait();
    EXPECT_EQ(called, 1) << "by the caller, for there is no thread";
    elsewhere(first, [&] {
      Work refused = world.barrier();
      const Outcome error = error_of<BackendError>([&] { refused.wait(); });
      EXPECT_THAT(error.message(), testing::HasSubstr("MPI_THREAD_FUNNELED"));
    });
  });
}

TEST(MockMpiProgram, AGroupMayBeDestroyedByAThreadThatMustNotCallMpi) {
  run_at(mpi::Threading::funneled, 2, [](ProcessGroup& world, MockRank& first) {
    ProcessGroup group = world.new_subgroups(2);
    if (world.rank() == 0) {
      elsewhere(first, [&] { group = {}; });
      EXPECT_TRUE(world.health().ok());  // the main thread drives, and tells that it has left
      return;
    }
    const Outcome error = error_of<NetworkError>([&] { group.barrier().wait(); });
    EXPECT_EQ(error.code(), Errc::peer_left) << error.message();
  });
}

TEST(MockMpiProgram, AThreadThatMustNotCallMpiCanAbort) {
  run_at(mpi::Threading::funneled, 2, [](ProcessGroup& world, MockRank& first) {
    ProcessGroup group = world.new_subgroups(2);
    if (world.rank() == 0) elsewhere(first, [&] { group.abort("enough of it"); });
    std::vector<int> values{1};
    Work work = group.all_reduce(values);
    const Outcome error = error_of<BackendError>([&] { work.wait(); });
    EXPECT_THAT(error.message(), testing::HasSubstr("enough of it"));
  });
}

/// Whether MPI is called within this time though no thread of the program is in a call.
bool drives_alone(MockRank& rank, ProcessGroup& world, std::chrono::nanoseconds within) {
  std::vector<int> got{0};
  std::vector<int> sent{1};
  Work work = world.irecv(got, 0);
  const int before = rank.calls();
  const auto until = std::chrono::steady_clock::now() + within;
  while (rank.calls() == before && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(1ms);
  const bool drives = rank.calls() != before;
  world.isend(sent, 0).wait();
  work.wait();
  return drives;
}

TEST(MockMpiProgram, OnlyCallersDriveWhereTheProgramMayCallMpiAtTheSameTime) {
  using mpi::Threading;
  for (const auto& [begun, threading, alone] : {std::tuple{false, Threading::serialized, true},
                                                std::tuple{true, Threading::serialized, false},
                                                std::tuple{true, Threading::multiple, true}}) {
    MockMpi mpi(1);
    mpi.rank(0).set_threading(threading);
    if (begun) mpi.rank(0).set_initialized();
    run_mock_mpi(mpi, [&, alone = alone](ProcessGroup& world) {
      EXPECT_EQ(drives_alone(mpi.rank(0), world, alone ? kForever : 100ms), alone);
      // Whatever the level: any thread may wait, if not two at once.
      std::thread([&] { world.barrier().wait(); }).join();
    });
  }
}

TEST(MockMpiProgram, KeepsItsErrorHandlers) {
  for (const bool begun : {false, true}) {
    MockMpi mpi(1);
    if (begun) mpi.rank(0).set_initialized();
    run_mock_mpi(mpi, [&](ProcessGroup& world) { world.barrier().wait(); });
    EXPECT_EQ(mpi.rank(0).changed_handlers(), begun ? 0 : 1);
  }
}

TEST(MockMpiProgram, MayFinaliseMpiBeforeItsGroupsEnd) {
  MockMpi mpi(1);
  mpi.rank(0).set_initialized();
  mpi.rank(0).set_threading(mpi::Threading::multiple);
  run_mock_mpi(mpi, [&](ProcessGroup& world) {
    world.barrier().wait();
    mpi.rank(0).set_finalized();
    const Outcome error = error_of<BackendError>([&] { world.barrier().wait(); });
    EXPECT_THAT(error.message(), testing::HasSubstr("finalised"));
    world.abort("too late");
    EXPECT_FALSE(world.health().ok());
  });
  EXPECT_EQ(mpi.rank(0).misuse(), "");
}

}  // namespace
}  // namespace tutti::test
