#pragma once

#include <algorithm>
#include <cstdio>
#include <span>
#include <string>

#include <gtest/gtest.h>
#include <tutti/tutti.hpp>

#include "reduced_values.hpp"

// Calls that reduce what reduced_values.hpp gives; results are compared bit by bit.
namespace tutti::test {

inline std::string hex(std::span<const std::byte> bytes) {
  std::string text = "0x";
  for (std::size_t i = bytes.size(); i-- > 0;) {
    char digits[3];
    std::snprintf(digits, sizeof(digits), "%02x", static_cast<unsigned>(bytes[i]));
    text += digits;
  }
  return text;
}

/// A part of the elements, and the calls of one rank that reduce them.
class Slice {
 public:
  Slice(ProcessGroup& world, const ReducedValues& values, std::size_t first, std::size_t count)
      : world_(world), values_(values), first_(first), count_(count) {}

  /// The same of the ranks up to each.
  void run_scans(ReduceOp op, const ElementRules& rules) {
    op_ = op;
    for (const bool exclusive : {false, true}) {
      auto buffer = mine();
      world_
          .scan(TensorView(buffer.data(), values_.dtype, count_),
                {.op = op_, .exclusive = exclusive, .factors = factors(count_)})
          .wait();
      const auto ranks = static_cast<std::size_t>(world_.rank() + (exclusive ? 0 : 1));
      compare(exclusive ? "exclusive_scan" : "scan", buffer,
              ranks > 0 ? part(reduced_results(rules, values_, ranks, op_)) : mine(), 0);
    }
  }

  void run(ReduceOp op) {
    op_ = op;
    all_reduce();
    reduce(0);
    reduce(world_.size() - 1);
    reduce_scatter();
  }

 private:
  [[nodiscard]] std::size_t element() const { return size_of(values_.dtype); }
  [[nodiscard]] ReducedValues::Bytes part(const ReducedValues::Bytes& all) const {
    const auto bytes = std::span(all).subspan(first_ * element(), count_ * element());
    return {bytes.begin(), bytes.end()};
  }
  [[nodiscard]] ReducedValues::Bytes mine() const {
    return part(values_.inputs[static_cast<std::size_t>(world_.rank())]);
  }
  [[nodiscard]] ReducedValues::Bytes result() const {
    return part(values_.results[static_cast<std::size_t>(op_)]);
  }
  [[nodiscard]] TensorView factors(std::size_t count) {
    if (op_ != ReduceOp::premul_sum) return {};
    factors_ = part(values_.factors[static_cast<std::size_t>(world_.rank())]);
    return TensorView(factors_.data(), values_.dtype, count);
  }

  void all_reduce() {
    auto buffer = mine();
    world_
        .all_reduce(TensorView(buffer.data(), values_.dtype, count_),
                    {.op = op_, .factors = factors(count_)})
        .wait();
    compare("all_reduce", buffer, result(), 0);
  }
  void reduce(int root) {
    auto buffer = mine();
    world_
        .reduce(TensorView(buffer.data(), values_.dtype, count_),
                {.root = root, .op = op_, .factors = factors(count_)})
        .wait();
    if (world_.rank() == root)
      compare("reduce", buffer, result(), 0);
    else
      EXPECT_EQ(buffer, mine()) << "reduce changes the buffer of another rank";
  }
  void reduce_scatter() {
    const std::size_t block = count_ / static_cast<std::size_t>(world_.size());
    const std::size_t all = block * static_cast<std::size_t>(world_.size());
    auto input = mine();
    ReducedValues::Bytes output(block * element());
    world_
        .reduce_scatter(TensorView(output.data(), values_.dtype, block),
                        TensorView(input.data(), values_.dtype, all),
                        {.op = op_, .factors = factors(all)})
        .wait();
    const std::size_t begin = block * static_cast<std::size_t>(world_.rank());
    const auto all_results = result();
    compare("reduce_scatter", output,
            std::span(all_results).subspan(begin * element(), output.size()), begin);
  }

  /// `begin`: the place of the first of them in the slice.
  void compare(const char* operation, std::span<const std::byte> found,
               std::span<const std::byte> wanted, std::size_t begin) const {
    ASSERT_EQ(found.size(), wanted.size());
    const auto [at, other] = std::mismatch(found.begin(), found.end(), wanted.begin());
    if (at == found.end()) return;
    const auto i = static_cast<std::size_t>(at - found.begin()) / element();
    std::string inputs;
    for (const auto& input : values_.inputs)
      inputs += " " + hex(std::span(input).subspan((first_ + begin + i) * element(), element()));
    ADD_FAILURE() << operation << " " << to_string(op_) << " of " << to_string(values_.dtype)
                  << ", rank " << world_.rank() << " of " << world_.size() << ", element "
                  << begin + i << " of " << count_ << ": "
                  << hex(found.subspan(i * element(), element())) << " instead of "
                  << hex(wanted.subspan(i * element(), element())) << ", from" << inputs;
  }

  ProcessGroup& world_;
  const ReducedValues& values_;
  std::size_t first_;
  std::size_t count_;
  ReduceOp op_ = ReduceOp::sum;
  ReducedValues::Bytes factors_;
};

/// One count of each kind of path: in the lines themselves, in a slot, in pieces. `parts`: how many
/// of the small ones.
inline void run_all(ProcessGroup& world, const ReducedValues& values, std::size_t most,
                    std::size_t parts) {
  const std::size_t few = std::max<std::size_t>(3, values.inputs.size());
  for (int o = 0; o < kReduceOps; ++o) {
    if (values.results[static_cast<std::size_t>(o)].empty()) continue;
    const auto op = static_cast<ReduceOp>(o);
    Slice(world, values, 0, most).run(op);
    for (std::size_t part = 0; part < parts; ++part) Slice(world, values, 11 * part, few).run(op);
  }
}

}  // namespace tutti::test
