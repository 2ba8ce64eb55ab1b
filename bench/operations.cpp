#include "bench/operations.hpp"

#include <array>
#include <stdexcept>

namespace tutti::bench {

namespace {

constexpr std::array<OperationTraits, 10> kOperations{{
    {Operation::all_reduce, "all_reduce", Blocks::none, Blocks::one, false, true},
    {Operation::broadcast, "broadcast", Blocks::none, Blocks::one, false, false},
    {Operation::barrier, "barrier", Blocks::none, Blocks::none, false, false},
    {Operation::reduce, "reduce", Blocks::none, Blocks::one, false, true},
    {Operation::all_gather, "all_gather", Blocks::one, Blocks::one_per_rank, false, false},
    {Operation::gather, "gather", Blocks::one, Blocks::one_per_rank, false, false},
    {Operation::scatter, "scatter", Blocks::one_per_rank, Blocks::one, true, false},
    {Operation::reduce_scatter, "reduce_scatter", Blocks::one_per_rank, Blocks::one, false, true},
    {Operation::all_to_all, "all_to_all", Blocks::one_per_rank, Blocks::one_per_rank, false, false},
    {Operation::send_recv, "send_recv", Blocks::none, Blocks::one, false, false},
}};

constexpr bool in_order() {
  for (std::size_t i = 0; i < kOperations.size(); ++i) {
    if (kOperations[i].operation != static_cast<Operation>(i)) return false;
  }
  return true;
}
static_assert(in_order());

}  // namespace

std::span<const OperationTraits> all_operations() { return kOperations; }

const OperationTraits& traits_of(Operation operation) {
  return kOperations.at(static_cast<std::size_t>(operation));
}

Operation operation_of(const std::string& name) {
  for (const auto& traits : kOperations) {
    if (name == traits.name) return traits.operation;
  }
  throw std::invalid_argument("no such operation: " + name);
}

std::size_t bytes_of(Blocks blocks, std::size_t bytes, int ranks) {
  switch (blocks) {
    case Blocks::none: return 0;
    case Blocks::one: return bytes;
    case Blocks::one_per_rank: return bytes * static_cast<std::size_t>(ranks);
  }
  return 0;
}

}  // namespace tutti::bench
