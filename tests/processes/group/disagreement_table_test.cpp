#include <gtest/gtest.h>

#include "disagreement_cells.hpp"
#include "support/rotation.hpp"

// One rank of a job calls something else than all others, in every way that there is. Started by
// tuttirun; each cell has a group of its own, over all ranks, which it breaks.
namespace tutti {
namespace {

using test::Aspect;
using test::Cell;
using test::MonitoredCell;
using test::names_rank;

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
  [[nodiscard]] bool right() const {
    return (integers_ ? integers_->wrong() : floats_->wrong()) == 0;
  }
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

/// The same elements divided otherwise.
std::vector<std::size_t> other_tensors(Aspect aspect, std::size_t count) {
  std::vector<std::size_t> tensors = test::tensors_of(count);
  if (aspect == Aspect::tensors) {
    tensors[tensors.size() - 2] += tensors.back();
    tensors.pop_back();
  } else {
    --tensors.front();
    ++tensors.back();
  }
  return tensors;
}

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
      case Aspect::tensors:
      case Aspect::division: arguments.tensors = other_tensors(cell.aspect, cell.count); break;
      case Aspect::single: first.blocks = test::Operation::Blocks::even; break;
      case Aspect::one_dtype: return calls;  // see call_mixed
    }
  }
  calls.emplace_back(first, arguments, integers, group);
  if (cell.aspect == Aspect::order)
    calls.emplace_back(odd ? cell.operation : cell.other, arguments, integers, group);
  return calls;
}

/// Calls an operation of several tensors with two dtypes; what was wrong, or nothing.
std::string call_mixed(const test::Operation& operation, std::size_t count, ProcessGroup& group) {
  const std::size_t all = count * static_cast<std::size_t>(group.size());
  std::vector<float> some(count, 1.0F);
  std::vector<std::int32_t> others(count, 1);
  std::vector<float> some_of_all(all, 1.0F);
  std::vector<std::int32_t> others_of_all(all, 1);
  const std::vector<TensorView> blocks{TensorView(some), TensorView(others)};
  const std::vector<TensorView> whole{TensorView(some_of_all), TensorView(others_of_all)};
  try {
    switch (operation.kind) {
      case Kind::broadcast: group.broadcast_coalesced(blocks).wait(); break;
      case Kind::all_gather: group.all_gather_coalesced(whole, blocks).wait(); break;
      case Kind::reduce_scatter: group.reduce_scatter_coalesced(blocks, whole).wait(); break;
      default: group.all_reduce_coalesced(blocks).wait();
    }
    return "two dtypes were taken";
  } catch (const InvalidArgument&) {
  }
  const auto ones = [](const auto& data) {
    return std::ranges::count(data, 1) == std::ssize(data);
  };
  const bool unchanged = ones(some) && ones(others) && ones(some_of_all) && ones(others_of_all);
  if (!unchanged) return "memory was written by a call that was refused";
  return group.health().ok() ? "" : "a call that was refused has broken the group";
}

/// Runs one cell on a group that is its own; what was wrong, or nothing.
std::string run_cell(const Cell& cell, ProcessGroup& group, bool strict) {
  std::vector<CellCall> calls = calls_of(cell, group);
  std::string error;
  try {
    if (calls.empty()) {
      const std::string problem = call_mixed(cell.operation, cell.count, group);
      if (!problem.empty()) return problem;
    }
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
  // Of the counts of a scatter each rank compares its own only, also if strict.
  const bool own_count = cell.aspect == Aspect::count && cell.operation.kind == Kind::scatter &&
                         cell.operation.blocks == test::Operation::Blocks::counts;
  for (const CellCall& call : calls) {
    const bool bound = (strict && !own_count) || call.bound(group.rank(), cell.odd);
    if (bound && !call.unchanged()) return "memory was written; " + error;
  }
  return {};
}

/// Runs one cell on a group that is its own; what was wrong, or nothing. A monitored barrier is
/// compared with nothing: who is somewhere else has not come, and is named.
std::string run_monitored_cell(const MonitoredCell& cell, ProcessGroup& group,
                               std::chrono::milliseconds limit) {
  const int rank = group.rank();
  CellCall call(cell.other, {}, false, group);
  std::string error;
  try {
    if (cell.monitors(rank))
      group.monitored_barrier({.timeout = limit, .wait_all_ranks = true});
    else
      call.run(group);
    group.barrier().wait();
  } catch (const TimeoutError& problem) {
    error = problem.what();
  } catch (const Error& problem) {
    return std::string("another kind of error: ") + problem.what();
  }
  if (error.empty()) return "no error";
  if (group.health().ok()) return "the group is whole after: " + error;
  bool any = false;
  for (int one = 0; one < group.size(); ++one) {
    const bool named = names_rank(error, one);
    any |= named;
    // Where rank 0 monitors, it is its time that passes: all who are somewhere else are missing.
    if (cell.monitors(0) && !cell.monitors(one) && !named)
      return "does not name rank " + std::to_string(one) + ": " + error;
  }
  if (!any) return "names nobody: " + error;
  if (!cell.monitors(rank) && call.bound(rank, cell.odd) && !call.unchanged())
    return "memory was written; " + error;
  return {};
}

struct Way {
  const char* name;
  Config::TransportChoice transport;
  int hosts;  ///< as if the ranks were on so many hosts
  bool interleaved;
  const char* algorithms;  ///< asked for by name; then cells of these operations only
};
constexpr Way kWays[] = {
    {"shared memory", Config::TransportChoice::automatic, 1, false, ""},
    {"TCP", Config::TransportChoice::tcp, 1, false, ""},
    {"TCP, handed on", Config::TransportChoice::tcp, 1, false,
     "all_gather:ring,gather:binomial,reduce_scatter:ring"},
    {"mixed", Config::TransportChoice::automatic, 2, false, ""},
    {"mixed, interleaved", Config::TransportChoice::automatic, 2, true, ""},
};

int variable(const char* name) {
  const char* const text = std::getenv(name);
  return text == nullptr ? 0 : std::atoi(text);
}

/// TUTTI_BACKEND: another one than the native has one way only, its own.
std::string backend() { return Config::from_environment().value().backend; }

/// The world of a way, and what else all tests of it need.
struct Place {
  Place(const Way& way, Config::Agree agree)
      : size(variable("WORLD_SIZE")),
        rank(variable("RANK")),
        world(init_process_group({.config = config(way, agree)})),
        everybody(static_cast<std::size_t>(size)) {
    std::iota(everybody.begin(), everybody.end(), 0);
  }
  [[nodiscard]] Config config(const Way& way, Config::Agree agree) const {
    const int host = way.interleaved ? rank % way.hosts : rank * way.hosts / size;
    Config config;
    config.agree = agree;
    config.backend = backend();
    config.timeout = std::chrono::seconds(20);
    config.log_level = LogLevel::off;
    config.transport = way.transport;
    config.algorithms = way.algorithms;
    if (way.hosts > 1) config.host_id = "host" + std::to_string(host);
    return config;
  }
  /// After the last cell: tells, and fails if something was wrong.
  void end(const Way& way, const char* what, std::size_t cells, int wrong) {
    EXPECT_EQ(wrong, 0) << "of " << cells << " cells";
    world.barrier().wait();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    if (rank == 0)
      std::printf("%zu %s, %d ranks, %s: %.1f s\n", cells, what, size, way.name, took.count());
  }

  int size;
  int rank;
  ProcessGroup world;
  std::vector<int> everybody;
  std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
};

/// Two interleaved ranks are two that are not; two that hand on send each other their own.
bool is_other_way(const Way& way) {
  if (backend() != Config().backend) return &way == std::begin(kWays);
  return variable("WORLD_SIZE") > 2 || (!way.interleaved && *way.algorithms == '\0');
}

bool belongs_to(const Way& way, const test::Operation& operation) {
  const std::string name = std::string(traits_of(operation.kind).name) + ":";
  return *way.algorithms == '\0' ||
         std::string_view(way.algorithms).find(name) != std::string::npos;
}

/// That what the cells change one thing of is otherwise right.
void run_agreeing(Place& place, const Way& way) {
  for (const test::Operation& operation : test::cell_operations()) {
    if (!belongs_to(way, operation)) continue;
    CellCall call(operation, {.count = 700}, false, place.world);
    call.run(place.world);
    EXPECT_TRUE(call.right()) << operation.name;
  }
}

void run_table(Config::Agree agree) {
  const bool strict = agree == Config::Agree::strict;
  for (const Way& way : kWays) {
    if (!is_other_way(way)) continue;
    SCOPED_TRACE(way.name);
    Place place(way, agree);
    run_agreeing(place, way);
    const auto which = test::long_tests() ? test::Cells::all
                       : place.size <= 3  ? test::Cells::sizes
                                          : test::Cells::few;
    std::size_t cells = 0;
    int wrong = 0;
    std::uint64_t number = strict ? 1 : 0;
    for (const Cell& cell : test::make_cells(place.size, which)) {
      if (!belongs_to(way, cell.operation) || !test::has_its_turn(number++, 3)) continue;
      ++cells;
      ProcessGroup group = place.world.new_group(place.everybody);
      const std::string problem = run_cell(cell, group, strict);
      if (!problem.empty() && ++wrong <= 10)
        ADD_FAILURE() << "rank " << place.rank << ": " << cell.text() << ": " << problem;
    }
    place.end(way, strict ? "cells, strict" : "cells", cells, wrong);
  }
}

TEST(DisagreementTable, EveryRankIsToldOfBothCallsAndOutputsStayAsTheyWere) {
  run_table(Config::Agree::normal);
}

TEST(DisagreementTable, StrictLeavesEverythingAsItWas) { run_table(Config::Agree::strict); }

TEST(DisagreementTable, WhoIsElsewhereIsMissingInAMonitoredBarrier) {
  constexpr std::chrono::milliseconds kShort(100);
  std::size_t turn = 0;
  for (const Way& way : kWays) {
    if (!is_other_way(way)) continue;
    SCOPED_TRACE(way.name);
    Place place(way, Config::Agree::normal);
    int wrong = 0;
    const auto cells = test::make_monitored_cells(place.size, test::long_tests(), turn++);
    for (const MonitoredCell& cell : cells) {
      // Where rank 0 does not monitor, nobody's time is over but that of the group.
      const std::chrono::milliseconds timeout =
          cell.monitors(0) ? std::chrono::seconds(20) : kShort;
      ProcessGroup group = place.world.new_group(place.everybody, {.timeout = timeout});
      const std::string problem = run_monitored_cell(cell, group, kShort);
      if (!problem.empty() && ++wrong <= 10)
        ADD_FAILURE() << "rank " << place.rank << ": " << cell.text() << ": " << problem;
    }
    place.end(way, "cells with a monitored_barrier", cells.size(), wrong);
  }
}

}  // namespace
}  // namespace tutti
