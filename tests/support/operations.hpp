#pragma once

#include <cstddef>
#include <ostream>
#include <string_view>
#include <utility>
#include <vector>

#include <tutti/backend/kinds.hpp>
#include "support/prepared_call.hpp"

// Every operation in every form, as one table, for the tests that go over all of them.
namespace tutti::test {

struct Operation {
  /// How elements are given: blocks alike, in a list, with counts; or several tensors.
  enum class Blocks { even, list, counts, several };
  std::string_view name;
  Kind kind = Kind::barrier;
  Blocks blocks = Blocks::even;
};

/// For GoogleTest.
inline void PrintTo(const Operation& operation, std::ostream* out) { *out << operation.name; }

/// The collectives.
inline constexpr Operation kOperations[] = {
    {"all_reduce", Kind::all_reduce},
    {"broadcast", Kind::broadcast},
    {"reduce", Kind::reduce},
    {"scan", Kind::scan},
    {"exclusive_scan", Kind::exclusive_scan},
    {"all_gather", Kind::all_gather},
    {"all_gather_list", Kind::all_gather, Operation::Blocks::list},
    {"all_gather_uneven", Kind::all_gather, Operation::Blocks::counts},
    {"gather", Kind::gather},
    {"gather_list", Kind::gather, Operation::Blocks::list},
    {"gather_uneven", Kind::gather, Operation::Blocks::counts},
    {"scatter", Kind::scatter},
    {"scatter_list", Kind::scatter, Operation::Blocks::list},
    {"scatter_uneven", Kind::scatter, Operation::Blocks::counts},
    {"reduce_scatter", Kind::reduce_scatter},
    {"reduce_scatter_list", Kind::reduce_scatter, Operation::Blocks::list},
    {"reduce_scatter_uneven", Kind::reduce_scatter, Operation::Blocks::counts},
    {"all_to_all", Kind::all_to_all},
    {"all_to_all_list", Kind::all_to_all, Operation::Blocks::list},
    {"all_to_all_splits", Kind::all_to_all, Operation::Blocks::counts},
    {"barrier", Kind::barrier},
    {"new_group", Kind::new_group},
};

/// Those of several tensors in one operation.
inline constexpr Operation kCoalesced[] = {
    {"all_reduce_coalesced", Kind::all_reduce, Operation::Blocks::several},
    {"broadcast_coalesced", Kind::broadcast, Operation::Blocks::several},
    {"all_gather_coalesced", Kind::all_gather, Operation::Blocks::several},
    {"reduce_scatter_coalesced", Kind::reduce_scatter, Operation::Blocks::several},
};

/// Point to point: each rank sends to the next one.
inline constexpr Operation kRing = {"send_recv", Kind::send};

/// All of them in one list.
inline std::vector<Operation> all_operations() {
  std::vector<Operation> all(std::begin(kOperations), std::end(kOperations));
  all.push_back(kRing);
  return all;
}

/// What a rank calls an operation with.
struct Arguments {
  std::size_t count = 64;  ///< elements of a block; of uneven ones: of the smallest
  int root = 0;
  ReduceOp op = ReduceOp::sum;
  int members = 0;  ///< new_group: how many of the ranks; 0: all
  /// Several tensors: elements of each, or of its block for each rank; empty: tensors_of(count).
  std::vector<std::size_t> tensors = {};
};

/// So many elements in three tensors, one of them of a single element.
inline std::vector<std::size_t> tensors_of(std::size_t count) {
  const std::size_t first = count / 2;
  const std::size_t second = count > first ? 1 : 0;
  return {first, second, count - first - second};
}

/// What rank `from` gives to rank `to`, element i: small whole numbers, so that sums are exact.
inline double plain_value(int from, std::size_t to, std::size_t i) {
  return static_cast<double>((i * 31 + to * 17 + static_cast<std::size_t>(from) * 13) % 61) - 30;
}

/// The call of one rank. `value` as in CallPlan.
inline CallPlan plan_of(const Operation& operation, const Arguments& arguments, int rank, int size,
                        std::function<double(int, std::size_t, std::size_t)> value = plain_value) {
  CallPlan plan;
  plan.kind = operation.kind;
  plan.rank = rank;
  plan.size = size;
  plan.root = arguments.root;
  plan.op = arguments.op;
  plan.uneven = operation.blocks == Operation::Blocks::counts;
  plan.value = std::move(value);
  // A list of a gather or scatter with a root has even blocks.
  const bool even = operation.blocks == Operation::Blocks::even ||
                    (traits_of(operation.kind).rooted && !plan.uneven);
  const auto block = [&](int from, int to) {
    if (even) return arguments.count;
    if (operation.kind == Kind::all_to_all)
      return arguments.count + static_cast<std::size_t>(from + 2 * to);
    return arguments.count + static_cast<std::size_t>(to);
  };
  if (operation.blocks == Operation::Blocks::several) {
    plan.tensors = arguments.tensors.empty() ? tensors_of(arguments.count) : arguments.tensors;
    std::vector<std::size_t> of_all = plan.tensors;
    for (std::size_t& count : of_all) count *= static_cast<std::size_t>(size);
    const Layout layout = traits_of(operation.kind).layout;
    plan.in = plan.out = Form::list;
    plan.in_counts = layout == Layout::scatter ? of_all : plan.tensors;
    if (layout != Layout::same) plan.out_counts = layout == Layout::gather ? of_all : plan.tensors;
    return plan;
  }
  const std::vector<std::size_t> mine{block(rank, rank)};
  std::vector<std::size_t> row;
  std::vector<std::size_t> column;
  for (int r = 0; r < size; ++r) {
    row.push_back(block(rank, r));
    column.push_back(block(r, rank));
  }
  const Form blocks = operation.blocks == Operation::Blocks::list ? Form::list : Form::tensor;
  switch (traits_of(operation.kind).layout) {
    case Layout::same: plan.in_counts = {arguments.count}; break;
    case Layout::gather:
      plan.in_counts = mine;
      plan.out_counts = row;
      plan.out = blocks;
      break;
    case Layout::scatter:
      plan.in_counts = row;
      plan.out_counts = mine;
      plan.in = blocks;
      break;
    case Layout::exchange:
      plan.in_counts = row;
      plan.out_counts = column;
      plan.in = plan.out = blocks;
      break;
    case Layout::pair: plan.in_counts = plan.out_counts = {arguments.count}; break;
    case Layout::none: break;
  }
  plan.members.resize(static_cast<std::size_t>(arguments.members > 0 ? arguments.members : size));
  std::iota(plan.members.begin(), plan.members.end(), 0);
  return plan;
}

}  // namespace tutti::test
