#include <algorithm>
#include <cstdio>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "reduced_values.hpp"
#include "support/thread_worlds.hpp"

// Reductions of every dtype with every op through real operations, on values that show the rules:
// one order of additions, one rounding, one NaN, ordered zeros, integers that wrap around. Results
// are compared bit by bit.
namespace tutti {
namespace {

using test::kReduceOps;
using test::ReducedValues;

std::string hex(std::span<const std::byte> bytes) {
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

  void run(ReduceOp op) {
    op_ = op;
    all_reduce();
    reduce(0);
    reduce(world_.size() - 1);
    reduce_scatter();
  }

 private:
  [[nodiscard]] std::size_t element() const { return size_of(values_.dtype); }
  [[nodiscard]] std::span<const std::byte> part(const ReducedValues::Bytes& all) const {
    return std::span(all).subspan(first_ * element(), count_ * element());
  }
  [[nodiscard]] ReducedValues::Bytes mine() const {
    const auto bytes = part(values_.inputs[static_cast<std::size_t>(world_.rank())]);
    return {bytes.begin(), bytes.end()};
  }
  [[nodiscard]] std::span<const std::byte> result() const {
    return part(values_.results[static_cast<std::size_t>(op_)]);
  }
  [[nodiscard]] TensorView factors(std::size_t count) {
    if (op_ != ReduceOp::premul_sum) return {};
    const auto bytes = part(values_.factors[static_cast<std::size_t>(world_.rank())]);
    factors_.assign(bytes.begin(), bytes.end());
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
    compare("reduce_scatter", output, result().subspan(begin * element(), output.size()), begin);
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
      inputs += " " + hex(part(input).subspan((begin + i) * element(), element()));
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
void run_all(ProcessGroup& world, const ReducedValues& values, std::size_t most,
             std::size_t parts) {
  const std::size_t few = std::max<std::size_t>(3, values.inputs.size());
  for (int o = 0; o < kReduceOps; ++o) {
    if (values.results[static_cast<std::size_t>(o)].empty()) continue;
    const auto op = static_cast<ReduceOp>(o);
    Slice(world, values, 0, most).run(op);
    for (std::size_t part = 0; part < parts; ++part) Slice(world, values, 11 * part, few).run(op);
  }
}

/// Where the ranks are, and what is asked for by name there.
struct Algorithms {
  const char* names = "";
  test::Way way = test::Way::shm;
};
constexpr Algorithms kAlgorithms[] = {
    {"all_reduce:slice_owner,reduce:slice_owner,reduce_scatter:chunked"},
    {"all_reduce:recursive_doubling,reduce:binomial", test::Way::tcp},
    {"all_reduce:binomial,reduce:owners", test::Way::tcp},
    {"all_reduce:two_level,reduce:two_level,reduce_scatter:two_level", test::Way::halves},
};

constexpr std::size_t kMost = 3001;
constexpr std::size_t kSome = 640;  // every pair of odd values is among them

class ReduceValues : public testing::TestWithParam<int> {
 protected:
  static test::ElementRules rules() { return test::element_rules(static_cast<DType>(GetParam())); }
};
INSTANTIATE_TEST_SUITE_P(Types, ReduceValues, testing::Range(0, kDTypeCount), [](const auto& one) {
  return std::string(to_string(static_cast<DType>(one.param)));
});

TEST_P(ReduceValues, FollowTheRulesBitByBit) {
  for (const int size : test::world_sizes()) {
    const ReducedValues values = test::reduced_values(rules(), kMost, size, 1);
    test::World{size}.run([&](ProcessGroup& world) {
      run_all(world, values, kMost, 12);
      run_all(world, values, kSome, 0);
    });
    test::World{size, test::Way::tcp}.run(
        [&](ProcessGroup& world) { run_all(world, values, kSome, 2); });
  }
}

TEST_P(ReduceValues, FollowThemWhateverTheAlgorithm) {
  constexpr int kRanks = 8;  // of other numbers some fall back to others
  const ReducedValues values = test::reduced_values(rules(), kSome, kRanks, 2);
  for (const Algorithms& one : kAlgorithms) {
    SCOPED_TRACE(one.names);
    test::World{kRanks, one.way}.run([&](ProcessGroup& world) { run_all(world, values, kSome, 2); },
                                     [&](Config& config) { config.algorithms = one.names; });
  }
}

}  // namespace
}  // namespace tutti
