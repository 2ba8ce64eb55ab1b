#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <tutti/backend/kinds.hpp>
#include <tutti/tutti.hpp>

// Random programs that every rank runs alike, with results that are known beforehand. Values are
// small whole numbers, so sums are exact in any order.
namespace tutti::test {

/// The calls that programs may make.
inline constexpr Kind kWholeKinds[] = {Kind::all_reduce, Kind::all_reduce, Kind::broadcast,
                                       Kind::barrier,    Kind::scan,       Kind::exclusive_scan};
inline constexpr Kind kBlockKinds[] = {Kind::reduce,  Kind::all_gather,     Kind::gather,
                                       Kind::scatter, Kind::reduce_scatter, Kind::all_to_all};

struct Program {
  std::uint64_t seed = 1;
  int rounds = 10;
  std::size_t most = 100'000;  ///< elements of a tensor, or of a block
  std::span<const Kind> kinds = kWholeKinds;
};

/// Runs rounds of up to 20 operations in flight, waited for in an order of this rank's own.
/// Tensors are of several types, contiguous, with strides or lists of tensors, with blocks alike or
/// not.
void run(ProcessGroup& group, const Program& program);

/// Makes groups of all ranks and closes each in an order of this rank's own, mostly without having
/// called anything in it. Then every slot but the world's must be free: groups are made until there
/// are 4096. Throws where a slot is not.
void churn_groups(ProcessGroup& world, std::uint64_t seed, int count);

}  // namespace tutti::test
