#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

/// The operations that can be measured, in one table.
namespace tutti::bench {

enum class Operation : std::uint32_t {
  all_reduce,
  broadcast,
  barrier,
  reduce,
  all_gather,
  gather,
  scatter,
  reduce_scatter,
  all_to_all,
  send_recv,  ///< there and back between the ranks 2k and 2k + 1
};

/// How many blocks of the point's size a buffer has.
enum class Blocks { none, one, one_per_rank };

/// What the harness and the workers must know of an operation.
struct OperationTraits {
  Operation operation = Operation::barrier;
  const char* name = "";
  Blocks input = Blocks::none;  ///< none: works in place, in the output
  Blocks output = Blocks::none;
  bool input_of_root_only = false;
  /// The result depends on the values of all: an element is a sum over the ranks.
  bool sums = false;
};

/// All of them, in the order of the enumeration.
std::span<const OperationTraits> all_operations();
const OperationTraits& traits_of(Operation operation);
/// Throws std::invalid_argument for a name that is none.
Operation operation_of(const std::string& name);

/// A number of blocks of `bytes` each.
std::size_t bytes_of(Blocks blocks, std::size_t bytes, int ranks);

}  // namespace tutti::bench
