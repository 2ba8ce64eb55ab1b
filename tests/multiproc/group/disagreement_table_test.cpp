#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "disagreement_cells.hpp"
#include "support/long_tests.hpp"

// One rank of a job calls something else than all others, in every way that there is. Started by
// tuttirun; each cell has a group of its own, over all ranks, which it breaks.
namespace tutti {
namespace {

using test::Aspect;
using test::Cell;

/// One call of a cell with its memory, whatever the type of its elements.
class CellCall {
 public:
  CellCall(const test::Operation& operation, const test::Arguments& arguments, bool integers,
           ProcessGroup& group)
      : operation_(operation), root_(arguments.root) {
    const test::CallPlan plan = test::plan_of(operation, arguments, group.rank(), group.size());
    if (integers)
      integers_.emplace(plan);
    else
      floats_.emplace(plan);
  }
  void run(ProcessGroup& group) { integers_ ? integers_->run(group) : floats_->run(group); }
  [[nodiscard]] bool unchanged() const {
    return integers_ ? integers_->unchanged() : floats_->unchanged();
  }
  /// Must its memory be as it was?
  [[nodiscard]] bool bound(int rank, int odd) const {
    return test::uses_what_differs(operation_, root_, rank, odd);
  }

 private:
  test::Operation operation_;
  int root_;
  std::optional<test::PreparedCall<float>> floats_;
  std::optional<test::PreparedCall<std::int32_t>> integers_;
};

/// What this rank calls in a cell, in its order.
std::vector<CellCall> calls_of(const Cell& cell, ProcessGroup& group) {
  const bool odd = group.rank() == cell.odd;
  test::Arguments arguments{.count = cell.count};
  test::Operation first = cell.operation;
  bool integers = false;
  std::vector<CellCall> calls;
  if (odd) {
    switch (cell.aspect) {
      case Aspect::operation: first = cell.other; break;
      case Aspect::dtype: integers = true; break;
      case Aspect::count:
        arguments.count -= 1;
        arguments.members = group.size() - 1;
        break;
      case Aspect::root: arguments.root = group.size() - 1; break;
      case Aspect::reduce_op: arguments.op = ReduceOp::max; break;
      case Aspect::order: first = cell.other; break;
    }
  }
  calls.emplace_back(first, arguments, integers, group);
  if (cell.aspect == Aspect::order)
    calls.emplace_back(odd ? cell.operation : cell.other, arguments, integers, group);
  return calls;
}

/// "rank 3", but not the beginning of "rank 31".
bool names_rank(const std::string& text, int rank) {
  const std::string name = "rank " + std::to_string(rank);
  for (std::size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + 1)) {
    const std::size_t end = at + name.size();
    if (end == text.size() || text[end] < '0' || text[end] > '9') return true;
  }
  return false;
}

/// Runs one cell on a group that is its own; what was wrong, or nothing.
std::string run_cell(const Cell& cell, ProcessGroup& group, bool strict) {
  std::vector<CellCall> calls = calls_of(cell, group);
  std::string error;
  try {
    for (CellCall& call : calls) call.run(group);
    group.barrier().wait();
  } catch (const DisagreementError& problem) {
    error = problem.what();
  } catch (const Error& problem) {
    return std::string("another kind of error: ") + problem.what();
  }
  if (error.empty()) return "no error";
  if (group.health().ok()) return "the group is whole after: " + error;
  if (!names_rank(error, cell.odd)) return "does not name the odd one: " + error;
  bool another = false;
  for (int rank = 0; rank < group.size(); ++rank)
    another |= rank != cell.odd && names_rank(error, rank);
  if (!another) return "names one rank only: " + error;
  const std::size_t called = error.find(" called ");
  const bool calls_named =
      called != std::string::npos && error.find(" called ", called + 1) != std::string::npos;
  const bool sizes_named = error.find(" elements to ") != std::string::npos;
  if (!calls_named && !sizes_named) return "does not name both calls: " + error;
  for (const CellCall& call : calls) {
    const bool bound = strict || call.bound(group.rank(), cell.odd);
    if (bound && !call.unchanged()) return "memory was written; " + error;
  }
  return {};
}

struct Way {
  const char* name;
  Config::TransportChoice transport;
  int hosts;  ///< as if the ranks were on so many hosts
  bool interleaved;
};
constexpr Way kWays[] = {
    {"shared memory", Config::TransportChoice::automatic, 1, false},
    {"TCP", Config::TransportChoice::tcp, 1, false},
    {"mixed", Config::TransportChoice::automatic, 2, false},
    {"mixed, interleaved", Config::TransportChoice::automatic, 2, true},
};

int variable(const char* name) {
  const char* const text = std::getenv(name);
  return text == nullptr ? 0 : std::atoi(text);
}

void run_table(Config::Agree agree) {
  const bool strict = agree == Config::Agree::strict;
  const int size = variable("WORLD_SIZE");
  const int rank = variable("RANK");
  for (const Way& way : kWays) {
    if (way.interleaved && size < 3) continue;  // the same as the one before
    SCOPED_TRACE(way.name);
    Config config;
    config.agree = agree;
    config.timeout = std::chrono::seconds(20);
    config.log_level = LogLevel::off;
    config.transport = way.transport;
    const int host = way.interleaved ? rank % way.hosts : rank * way.hosts / size;
    if (way.hosts > 1) config.host_id = "host" + std::to_string(host);
    ProcessGroup world = init_process_group({.config = config});
    std::vector<int> everybody(static_cast<std::size_t>(size));
    std::iota(everybody.begin(), everybody.end(), 0);
    const std::vector<Cell> cells = test::make_cells(size, test::long_tests() ? test::Cells::all
                                                           : size <= 3        ? test::Cells::sizes
                                                                              : test::Cells::few);
    const auto begin = std::chrono::steady_clock::now();
    int wrong = 0;
    for (const Cell& cell : cells) {
      std::optional<ProcessGroup> group = world.new_group(everybody);
      const std::string problem = run_cell(cell, *group, strict);
      if (!problem.empty() && ++wrong <= 10)
        ADD_FAILURE() << "rank " << rank << ": " << cell.text() << ": " << problem;
    }
    EXPECT_EQ(wrong, 0) << "of " << cells.size() << " cells";
    world.barrier().wait();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    if (rank == 0)
      std::printf("%zu cells, %d ranks, %s%s: %.1f s\n", cells.size(), size, way.name,
                  strict ? ", strict" : "", took.count());
  }
}

TEST(DisagreementTable, EveryRankIsToldOfBothCallsAndOutputsStayAsTheyWere) {
  run_table(Config::Agree::normal);
}

TEST(DisagreementTable, StrictLeavesEverythingAsItWas) { run_table(Config::Agree::strict); }

}  // namespace
}  // namespace tutti
