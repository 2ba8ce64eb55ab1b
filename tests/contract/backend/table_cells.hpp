#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <string>
#include <string_view>
#include <tuple>

#include <tutti/tutti.hpp>

namespace tutti::test {

/// The cells of the table operations x dtypes x reduce ops that this rank has tried.
class TableCells {
 public:
  static TableCells& of_process() {
    static TableCells cells;
    return cells;
  }

  /// What one call of the cell has given; a cell is right if all of its calls are.
  void add(std::string_view operation, DType dtype, std::string_view op, bool right) {
    const auto at = std::tuple(std::string(operation), dtype, std::string(op));
    const auto [cell, first] = cells_.try_emplace(at, right);
    cell->second = cell->second && right;
  }
  /// A pair of dtype and op that has no meaning, and was refused.
  void add_refused() { ++refused_; }
  void set_world(const ProcessGroup& world) {
    backend_ = world.backend();
    rank_ = world.rank();
    size_ = world.size();
  }

  /// One line, by rank 0: tests/processes/backend/five_mpis.py reads it.
  void print() const {
    if (rank_ != 0 || cells_.empty()) return;
    std::size_t right = 0;
    for (const auto& [at, cell] : cells_) right += cell ? 1 : 0;
    std::printf("TABLE of %s, %d ranks: %zu of %zu cells right, %d pairs refused\n",
                backend_.c_str(), size_, right, cells_.size(), refused_);
  }

 private:
  std::map<std::tuple<std::string, DType, std::string>, bool> cells_;
  std::string backend_;
  int rank_ = -1;
  int size_ = 0;
  int refused_ = 0;
};

/// Prints the line at the end of the program.
class PrintTable final : public testing::Environment {
 public:
  void TearDown() override { TableCells::of_process().print(); }
};

}  // namespace tutti::test
