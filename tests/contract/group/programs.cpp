#include "programs.hpp"

#include <random>

#include <gtest/gtest.h>

#include "support/prepared_call.hpp"

namespace tutti::test {
namespace {

using Counts = std::vector<std::size_t>;

/// Drawn alike on all ranks from `random`; what is free on each rank from `own`.
CallPlan draw(const ProcessGroup& group, const Program& program, std::mt19937_64& random,
              std::mt19937_64& own) {
  CallPlan plan;
  const Kind kind = plan.kind = program.kinds[random() % program.kinds.size()];
  plan.rank = group.rank();
  plan.size = group.size();
  const auto ranks = static_cast<std::size_t>(group.size());
  const auto me = static_cast<std::size_t>(group.rank());
  // Small counts often, and each size class now and then.
  const std::size_t limits[] = {2, 13, 200, 3000, program.most / 6, program.most};
  const std::size_t n = random() % (limits[random() % 6] + 1);
  const std::uint64_t salt = random() % 1000;
  plan.value = [salt](int from, std::size_t to, std::size_t i) {
    const std::size_t mixed = i * 31 + salt * 7 + to * 17 + static_cast<std::size_t>(from) * 13;
    return static_cast<double>(mixed % 101) - 50;
  };
  plan.root = static_cast<int>(random() % ranks);
  plan.uneven = random() % 2 == 0 && traits_of(kind).uneven != Uneven::no;
  if (random() % 4 == 0) plan.op = ReduceOp::max;
  Counts table(ranks * ranks, n);
  if (plan.uneven) {
    for (std::size_t& count : table) count = random() % (2 * n + 1);
  }
  if (kind != Kind::all_to_all) {  // one row for all
    for (std::size_t at = ranks; at < table.size(); ++at) table[at] = table[at % ranks];
  }
  Counts row;
  Counts column;
  for (std::size_t r = 0; r < ranks; ++r) {
    row.push_back(table[me * ranks + r]);
    column.push_back(table[r * ranks + me]);
  }
  const Counts mine{table[me]};
  const auto make = [&](Form in, Counts in_counts, Form out, Counts out_counts) {
    plan.in = in;
    plan.in_counts = std::move(in_counts);
    plan.out = out;
    plan.out_counts = std::move(out_counts);
  };
  const auto any = static_cast<Form>(own() % 3);
  const auto tensor = static_cast<Form>(own() % 2);
  switch (traits_of(kind).layout) {
    case Layout::gather: make(tensor, mine, any, row); break;
    case Layout::scatter: make(any, row, tensor, mine); break;
    case Layout::exchange: {
      // With a list on one side only a list on the other will do. If one rank gives splits, all do:
      // a list gives them.
      const Form both = !plan.uneven && any == Form::list ? Form::tensor : any;
      make(both, row, both, column);
      break;
    }
    case Layout::same: make(tensor, mine, Form::tensor, {}); break;  // in place
    default: break;
  }
  return plan;
}

/// A call of any type with its memory.
struct Call {
  Work work;
  std::function<void()> check;
};

template <class T>
Call start(ProcessGroup& group, CallPlan plan) {
  const auto call = std::make_shared<PreparedCall<T>>(std::move(plan));
  return {call->start(group), [call] { EXPECT_EQ(call->wrong(), 0U) << call->text(); }};
}

}  // namespace

void run(ProcessGroup& group, const Program& program) {
  std::mt19937_64 random(program.seed);
  std::mt19937_64 own(program.seed + 1000 + static_cast<std::uint64_t>(group.rank()));
  for (int round = 0; round < program.rounds; ++round) {
    std::vector<Call> calls(1 + random() % (round % 3 == 0 ? 20 : 3));
    for (Call& call : calls) {
      CallPlan plan = draw(group, program, random, own);
      switch (random() % 4) {
        case 0: call = start<std::int32_t>(group, std::move(plan)); break;
        case 1: call = start<std::int64_t>(group, std::move(plan)); break;
        case 2: call = start<double>(group, std::move(plan)); break;
        default: call = start<float>(group, std::move(plan)); break;
      }
    }
    std::vector<Call*> order;
    for (Call& call : calls) order.push_back(&call);
    std::shuffle(order.begin(), order.end(), own);
    for (Call* const call : order) call->work.wait();
    for (const Call& call : calls) call.check();
  }
}

void churn_groups(ProcessGroup& world, std::uint64_t seed, int count) {
  constexpr std::size_t kMostOpen = 6;
  constexpr int kMostGroups = 4096;
  std::mt19937_64 common(seed);  // alike on all ranks
  std::mt19937_64 own(seed * 31 + static_cast<std::uint64_t>(world.rank()));
  std::vector<int> all(static_cast<std::size_t>(world.size()));
  std::iota(all.begin(), all.end(), 0);
  std::vector<ProcessGroup> open;
  const auto close_one = [&] {
    std::swap(open[own() % open.size()], open.back());
    open.pop_back();
  };
  for (int i = 0; i < count; ++i) {
    open.push_back(world.new_group(all));
    if (common() % 8 == 0) {
      const auto root = static_cast<int>(common() % all.size());
      std::vector<int> value(1, world.rank() == root ? i : -1);
      open.back().broadcast(value, {.root = root}).wait();
      EXPECT_EQ(value[0], i);
    }
    while (open.size() > kMostOpen || (!open.empty() && own() % 2 == 0)) close_one();
  }
  while (!open.empty()) close_one();
  world.barrier().wait();
  std::vector<ProcessGroup> alone;
  for (int i = 1; i < kMostGroups; ++i) alone.push_back(world.new_subgroups(1));
  EXPECT_EQ(alone.size() + 1, std::size_t{kMostGroups});
}

}  // namespace tutti::test
