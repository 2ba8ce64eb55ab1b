#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <tutti/arguments.hpp>
#include <tutti/backend/kinds.hpp>
#include <tutti/tensor.hpp>

#include "verify/sim/random.hpp"

// Random programs: what every rank calls, and what must come out.
namespace tutti::engine::simulation {

using verify::sim::Random;

enum class Action : std::uint8_t { call, make, remove };

/// One line of a program.
struct Item {
  Action action = Action::call;
  int group = 0;
  Kind kind = Kind::barrier;
  ReduceOp op = ReduceOp::sum;
  DType dtype = DType::float32;
  int root = 0;
  std::size_t count = 0;     ///< of a block, where the kind has blocks
  bool uneven = false;       ///< blocks of different sizes around that number
  std::uint64_t number = 0;  ///< seed of its data
};

/// Elements of the block that `from` has for `to`.
[[nodiscard]] std::size_t block_of(const Item& item, int from, int to);
/// Elements of each block of a rank's input and output; empty: it has none.
[[nodiscard]] std::vector<std::size_t> input_blocks(const Item& item, int rank, int size);
[[nodiscard]] std::vector<std::size_t> output_blocks(const Item& item, int rank, int size);

struct GroupPlan {
  std::uint64_t id = 0;
  std::string name;
  std::vector<int> ranks;
};

/// A program for all ranks. A rank carries out the lines of the groups that it is in.
struct Script {
  std::vector<GroupPlan> groups;
  std::vector<Item> items;
};

struct ScriptOptions {
  std::vector<int> ranks;      ///< who takes part
  std::uint64_t first_id = 1;  ///< of group ids
  int items = 12;
  bool exact = false;  ///< only operations that do not round
};
[[nodiscard]] Script make_script(Random& random, const ScriptOptions& options);

/// What `rank` (of the group) gives to an operation.
[[nodiscard]] std::vector<std::byte> input_of(const Item& item, int rank, int size);
/// What a rank gets, computed in the order of docs/reference/semantics.md, by other means than the
/// library's. A rank that gets nothing: its input.
[[nodiscard]] std::vector<std::byte> result_of(const Item& item, int rank, int size);

/// Memory of one call: a view, and around and between its elements bytes that nobody may touch.
class Buffer {
 public:
  Buffer(Random& random, DType dtype, std::size_t count);
  [[nodiscard]] TensorView view() noexcept;
  /// Puts values (in a row) where the elements are.
  void put(const std::vector<std::byte>& values) noexcept;
  /// The elements are these, and nothing else has changed.
  [[nodiscard]] bool holds(const std::vector<std::byte>& values) const noexcept;
  /// Nothing has been written since it was made.
  [[nodiscard]] bool untouched() const noexcept;
  /// From here on it belongs to the program again: nobody else may write.
  void take_back() noexcept;
  [[nodiscard]] bool left_alone() const noexcept;

 private:
  enum class Layout : std::uint8_t { row, steps, transposed };
  [[nodiscard]] std::size_t offset(std::size_t index) const noexcept;

  Layout layout_ = Layout::row;
  DType dtype_;
  std::size_t count_;
  std::size_t lead_ = 0;    ///< elements before the first
  std::size_t stride_ = 1;  ///< steps: between two elements; transposed: rows
  std::vector<std::byte> bytes_;
};

}  // namespace tutti::engine::simulation
