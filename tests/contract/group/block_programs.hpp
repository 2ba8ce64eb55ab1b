#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <tutti/tutti.hpp>

#include "support/prepared_call.hpp"

// Random calls of the operations that have a block for each rank, in every form: one tensor, a list
// of tensors, uneven blocks, strides, in place. Results are known beforehand; whole numbers, so
// sums are exact.
namespace tutti::test {

/// What rank `from` gives to rank `to`, element i.
inline double block_value(int from, std::size_t to, std::size_t i, std::uint64_t salt) {
  return static_cast<double>((i * 31 + salt * 7 + to * 17 + static_cast<std::size_t>(from) * 13) %
                             61) -
         30;
}

/// A random call of one kind with its memory; T is the type of the elements.
template <class T>
class BlockCall {
 public:
  /// Drawn alike on all ranks from `random`; what is free on each rank from `own`.
  BlockCall(ProcessGroup& group, Kind kind, std::mt19937_64& random, std::mt19937_64& own,
            std::size_t most)
      : call_(draw(group, kind, random, own, most)) {}

  [[nodiscard]] Work start(ProcessGroup& group) { return call_.start(group); }
  void check() const { EXPECT_EQ(call_.wrong(), 0U) << call_.text(); }

 private:
  static CallPlan draw(ProcessGroup& group, Kind kind, std::mt19937_64& random,
                       std::mt19937_64& own, std::size_t most) {
    CallPlan plan;
    plan.kind = kind;
    plan.rank = group.rank();
    plan.size = group.size();
    const auto ranks = static_cast<std::size_t>(group.size());
    const std::size_t limits[] = {2, 13, 200, 3000, most};
    const std::size_t n = random() % (limits[random() % 5] + 1);
    const std::uint64_t salt = random() % 1000;
    plan.value = [salt](int from, std::size_t to, std::size_t i) {
      return block_value(from, to, i, salt);
    };
    plan.root = static_cast<int>(random() % ranks);
    plan.uneven = random() % 2 == 0 && (kind == Kind::all_gather || kind == Kind::reduce_scatter ||
                                        kind == Kind::all_to_all);
    if (random() % 4 == 0) plan.op = ReduceOp::max;
    std::vector<std::size_t> table(ranks * ranks, n);
    if (plan.uneven) {
      for (std::size_t& count : table) count = random() % (2 * n + 1);
    }
    if (kind != Kind::all_to_all) {  // one row for all
      for (std::size_t s = 1; s < ranks; ++s) {
        for (std::size_t d = 0; d < ranks; ++d) table[s * ranks + d] = table[d];
      }
    }
    const auto me = static_cast<std::size_t>(plan.rank);
    std::vector<std::size_t> row;
    std::vector<std::size_t> column;
    for (std::size_t r = 0; r < ranks; ++r) {
      row.push_back(table[me * ranks + r]);
      column.push_back(table[r * ranks + me]);
    }
    const std::vector<std::size_t> mine{table[me]};
    const auto make = [&](Form in, std::vector<std::size_t> in_counts, Form out,
                          std::vector<std::size_t> out_counts) {
      plan.in = in;
      plan.in_counts = std::move(in_counts);
      plan.out = out;
      plan.out_counts = std::move(out_counts);
    };
    const auto all_forms = [&] { return static_cast<Form>(own() % 3); };
    const auto tensor_forms = [&] { return static_cast<Form>(own() % 2); };
    // Splits are of tensors; with a list on one side only a list on the other will do.
    auto both = all_forms();
    switch (kind) {
      case Kind::all_gather:
      case Kind::gather: make(tensor_forms(), mine, all_forms(), row); break;
      case Kind::scatter:
      case Kind::reduce_scatter: make(all_forms(), row, tensor_forms(), mine); break;
      case Kind::all_to_all:
        // If one gives splits, all do: a list gives them.
        if (!plan.uneven && both == Form::list) both = Form::tensor;
        make(both, row, both, column);
        break;
      default: make(tensor_forms(), mine, Form::tensor, {}); break;  // reduce: in place
    }
    return plan;
  }

  PreparedCall<T> call_;
};

inline constexpr Kind kBlockKinds[] = {Kind::reduce,  Kind::all_gather,     Kind::gather,
                                       Kind::scatter, Kind::reduce_scatter, Kind::all_to_all};

/// `rounds` rounds of up to 12 calls in flight, waited for in a random order.
template <class T>
void run_blocks(ProcessGroup& group, std::uint64_t seed, int rounds, std::size_t most) {
  std::mt19937_64 random(seed);
  std::mt19937_64 own(seed + 1000 + static_cast<std::uint64_t>(group.rank()));
  for (int round = 0; round < rounds; ++round) {
    const std::size_t n = 1 + random() % (round % 3 == 0 ? 12 : 3);
    std::vector<std::unique_ptr<BlockCall<T>>> calls;
    std::vector<Work> works;
    for (std::size_t i = 0; i < n; ++i) {
      calls.push_back(
          std::make_unique<BlockCall<T>>(group, kBlockKinds[random() % 6], random, own, most));
      works.push_back(calls.back()->start(group));
    }
    std::vector<std::size_t> order(n);
    for (std::size_t i = 0; i < n; ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), own);
    for (const std::size_t i : order) works[i].wait();
    for (const auto& call : calls) call->check();
  }
}

}  // namespace tutti::test
