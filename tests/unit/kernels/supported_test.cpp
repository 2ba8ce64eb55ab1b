// Which pairs of op and dtype have a meaning: the table in docs/reference/semantics.md, read by
// this test.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "kernels/reduce.hpp"

namespace tutti::kernels {
namespace {

std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells;
  std::stringstream stream(line.substr(1));
  for (std::string cell; std::getline(stream, cell, '|');) {
    cell.erase(std::remove(cell.begin(), cell.end(), '`'), cell.end());
    const auto first = cell.find_first_not_of(' ');
    cells.push_back(first == std::string::npos
                        ? ""
                        : cell.substr(first, cell.find_last_not_of(' ') + 1 - first));
  }
  return cells;
}

/// Of each dtype, the ops that the page gives a meaning.
std::map<std::string, std::map<std::string, bool>> read_table() {
  std::ifstream page(TUTTI_DOCS "/semantics.md");
  std::map<std::string, std::map<std::string, bool>> table;
  std::vector<std::string> header;
  for (std::string line; std::getline(page, line);) {
    if (line.rfind("| dtype |", 0) == 0) {
      header = cells_of(line);
    } else if (line.rfind('|', 0) != 0) {
      header.clear();
    } else if (!header.empty() && line.rfind("|--", 0) != 0) {
      const std::vector<std::string> cells = cells_of(line);
      EXPECT_EQ(cells.size(), header.size()) << line;
      std::stringstream dtypes(cells[0]);
      for (std::string dtype; std::getline(dtypes >> std::ws, dtype, ',');) {
        for (std::size_t i = 1; i < std::min(cells.size(), header.size()); ++i) {
          // PRODUCT and MIN in one cell are two columns with the same meaning.
          std::stringstream ops(header[i]);
          for (std::string op; std::getline(ops >> std::ws, op, ',');)
            table[dtype][op] = cells[i] != "-";
        }
      }
    }
  }
  return table;
}

TEST(SupportedPairs, AreTheOnesInTheDocuments) {
  auto table = read_table();
  ASSERT_EQ(table.size(), static_cast<std::size_t>(kDTypeCount));
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    auto& row = table[std::string(to_string(dtype))];
    ASSERT_EQ(row.size(), static_cast<std::size_t>(kReduceOpCount)) << to_string(dtype);
    for (int j = 0; j < kReduceOpCount; ++j) {
      const auto op = static_cast<ReduceOp>(j);
      ASSERT_EQ(row.count(std::string(to_string(op))), 1U) << to_string(op);
      EXPECT_EQ(is_supported(op, dtype), row[std::string(to_string(op))])
          << to_string(op) << " of " << to_string(dtype);
    }
  }
}

TEST(SupportedPairs, HaveKernels) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_EQ(find_average(dtype) != nullptr, is_supported(ReduceOp::avg, dtype));
    EXPECT_EQ(find_scale(dtype) != nullptr, is_supported(ReduceOp::premul_sum, dtype));
    for (int j = 0; j < kReduceOpCount; ++j) {
      const auto op = static_cast<ReduceOp>(j);
      SCOPED_TRACE(std::string(to_string(op)) + " of " + std::string(to_string(dtype)));
      const bool summed = op == ReduceOp::avg || op == ReduceOp::premul_sum;
      const bool has = is_supported(op, dtype) && !summed;
      EXPECT_EQ(find_reduce(op, dtype) != nullptr, has);
      EXPECT_EQ(find_reduce_nt(op, dtype) != nullptr, has);
    }
  }
}

TEST(SupportedPairs, AnyByteButZeroIsTrue) {
  std::vector<std::uint8_t> left;
  std::vector<std::uint8_t> right;
  for (int a = 0; a < 256; ++a) {
    for (int b = 0; b < 256; ++b) {
      left.push_back(static_cast<std::uint8_t>(a));
      right.push_back(static_cast<std::uint8_t>(b));
    }
  }
  const std::array<const void*, 2> sources = {left.data(), right.data()};
  std::vector<std::uint8_t> result(left.size());
  for (int j = 0; j < kReduceOpCount; ++j) {
    const auto op = static_cast<ReduceOp>(j);
    if (!is_supported(op, DType::bool_)) continue;
    SCOPED_TRACE(to_string(op));
    for (const ReduceFn reduce :
         {find_reduce(op, DType::bool_), find_reduce_nt(op, DType::bool_)}) {
      reduce(result.data(), sources.data(), 1, left.size());
      for (std::size_t i = 0; i < left.size(); ++i) ASSERT_EQ(result[i], left[i] != 0 ? 1 : 0);
      reduce(result.data(), sources.data(), 2, left.size());
      for (std::size_t i = 0; i < left.size(); ++i) {
        const bool a = left[i] != 0;
        const bool b = right[i] != 0;
        bool wanted = a && b;
        if (op == ReduceOp::sum || op == ReduceOp::max || op == ReduceOp::bor) wanted = a || b;
        if (op == ReduceOp::bxor) wanted = a != b;
        ASSERT_EQ(result[i], wanted ? 1 : 0) << int{left[i]} << " and " << int{right[i]};
      }
    }
  }
}

}  // namespace
}  // namespace tutti::kernels
