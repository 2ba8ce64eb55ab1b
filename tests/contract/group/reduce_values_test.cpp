#include "reductions.hpp"
#include "support/thread_worlds.hpp"

// Reductions of every dtype with every op through real operations, on values that show the rules:
// one order of additions, one rounding, one NaN, ordered zeros, integers that wrap around. Results
// are compared bit by bit.
namespace tutti {
namespace {

using test::ReducedValues;

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

/// One count of each kind of path: in the lines themselves, in a slot, in pieces. `parts`: how many
/// of the small ones.
void run_all(ProcessGroup& world, const ReducedValues& values, std::size_t most,
             std::size_t parts) {
  const std::size_t few = std::max<std::size_t>(3, values.inputs.size());
  for (int o = 0; o < test::kReduceOps; ++o) {
    const ReducedValues::Bytes& results = values.results[static_cast<std::size_t>(o)];
    if (results.empty()) continue;
    const test::OneResult wanted(results, values.dtype);
    test::Reductions calls(world, values, static_cast<ReduceOp>(o), wanted);
    for (std::size_t part = 0; part <= parts; ++part) {
      calls.take(part == 0 ? 0 : 11 * (part - 1), part == 0 ? most : few);
      calls.all_reduce();
      calls.reduce(0);
      calls.reduce(world.size() - 1);
      calls.scatter();
    }
  }
}

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
