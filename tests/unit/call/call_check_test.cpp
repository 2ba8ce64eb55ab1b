#include "call/call_check.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "call/views_check.hpp"
#include "group/overlap.hpp"

namespace tutti {
namespace {

using testing::HasSubstr;

TensorView floats(std::vector<float>& memory, std::size_t begin, std::size_t count) {
  return {memory.data() + begin, DType::float32, count};
}
TensorView column(std::vector<float>& memory, std::size_t first, std::int64_t stride) {
  return {memory.data() + first, DType::float32, std::array<std::int64_t, 1>{4},
          std::array<std::int64_t, 1>{stride}};
}

/// A right call of rank 1 of 4, to be spoilt.
struct Given {
  std::vector<float> in = std::vector<float>(40);
  std::vector<float> out = std::vector<float>(40);
  std::vector<TensorView> views;
  Details details{};
  Collective call;

  Given(Kind kind, std::size_t input, std::size_t output) {
    call = {.kind = kind,
            .timeout = std::chrono::seconds(1),
            .input = floats(in, 0, input),
            .output = floats(out, 0, output),
            .details = &details};
  }
  [[nodiscard]] std::string wrong(int rank = 1) const { return call::what_is_wrong(call, rank, 4); }
  /// Of a call that is right otherwise.
  [[nodiscard]] Overlap overlap(int rank = 1) const {
    EXPECT_EQ(wrong(rank), "");
    return overlap_of(call, rank);
  }
  /// Tensors of 4 elements in one of the memories.
  std::span<const TensorView> list(std::vector<float>& memory) {
    for (std::size_t r = 0; r < 4; ++r) views.push_back(floats(memory, 10 * r, 4));
    return views;
  }
};

TEST(CallCheck, RightCallsPass) {
  for (const Kind kind : {Kind::all_reduce, Kind::reduce, Kind::scan})
    EXPECT_EQ(Given(kind, 10, 10).wrong(), "");
  EXPECT_EQ(Given(Kind::barrier, 0, 0).wrong(), "");
  Given exclusive(Kind::exclusive_scan, 10, 10);
  exclusive.call.output = TensorView(nullptr, DType::float32, 10);
  EXPECT_EQ(exclusive.wrong(0), "") << "rank 0 has no output";
  EXPECT_NE(exclusive.wrong(1), "");
  EXPECT_EQ(Given(Kind::all_gather, 4, 16).wrong(), "");
  EXPECT_EQ(Given(Kind::gather, 4, 0).wrong(1), "") << "only the root has an output";
  EXPECT_EQ(Given(Kind::gather, 4, 16).wrong(0), "");
  EXPECT_EQ(Given(Kind::scatter, 0, 4).wrong(1), "") << "only the root has an input";
  EXPECT_EQ(Given(Kind::scatter, 16, 4).wrong(0), "");
  EXPECT_EQ(Given(Kind::reduce_scatter, 16, 4).wrong(), "");
  EXPECT_EQ(Given(Kind::all_to_all, 16, 16).wrong(), "");
  EXPECT_EQ(Given(Kind::all_to_all, 0, 0).wrong(), "");
}

TEST(CallCheck, CountsMustFit) {
  EXPECT_THAT(Given(Kind::all_reduce, 10, 11).wrong(), HasSubstr("has 11 elements, the input 10"));
  EXPECT_THAT(Given(Kind::all_gather, 4, 15).wrong(), HasSubstr("must have 4 times the input's 4"));
  EXPECT_THAT(Given(Kind::gather, 4, 15).wrong(0), HasSubstr("must have 4 times"));
  EXPECT_THAT(Given(Kind::scatter, 17, 4).wrong(0), HasSubstr("4 times the output's 4"));
  EXPECT_THAT(Given(Kind::reduce_scatter, 12, 4).wrong(), HasSubstr("4 times the output's 4"));
  EXPECT_THAT(Given(Kind::all_to_all, 15, 15).wrong(), HasSubstr("cannot be divided evenly"));
  EXPECT_THAT(Given(Kind::all_to_all, 16, 12).wrong(), HasSubstr("must be equal"));
}

TEST(CallCheck, UnevenCountsMustFit) {
  const auto wrong = [](int rank, const std::vector<std::size_t>& counts) {
    Given gather(Kind::all_gather, 4, 10);
    gather.details.output_counts = counts;
    return gather.wrong(rank);
  };
  EXPECT_EQ(wrong(1, {1, 4, 2, 3}), "");
  EXPECT_THAT(wrong(2, {1, 4, 2, 3}), HasSubstr("block 2 of the output has 2 elements"));
  EXPECT_THAT(wrong(1, {1, 4, 2, 4}), HasSubstr("sum up to 11, but it has 10"));
  EXPECT_THAT(wrong(1, {1, 4, 2, 2}), HasSubstr("sum up to 9, but it has 10"));
  EXPECT_THAT(wrong(1, {1, 4, 5}), HasSubstr("3 counts for the output in a group of 4"));
  // With a root (0) the others have their own count only.
  for (const Kind kind : {Kind::gather, Kind::scatter}) {
    const bool gathers = kind == Kind::gather;
    const auto rooted = [&](int rank, const std::vector<std::size_t>& counts) {
      Given call(kind, gathers ? 4 : 10, gathers ? 10 : 4);
      (gathers ? call.details.output_counts : call.details.input_counts) = counts;
      return call.wrong(rank);
    };
    const std::string all = gathers ? "output" : "input";
    const std::string one = gathers ? "input" : "output";
    EXPECT_EQ(rooted(0, {4, 1, 2, 3}), "");
    EXPECT_EQ(rooted(0, {1, 4, 2, 3}),
              "block 0 of the " + all + " has 1 elements, but this rank's " + one + " has 4");
    EXPECT_EQ(rooted(0, {4, 1, 2, 2}),
              "the counts for the " + all + " sum up to 9, but it has 10 elements");
    EXPECT_EQ(rooted(0, {4}),
              "1 counts for the " + all + " in a group of 4; give one for each rank");
    EXPECT_EQ(rooted(1, {4}), "");
    EXPECT_EQ(rooted(1, {5}), "the count for this rank is 5, but its " + one + " has 4 elements");
    EXPECT_EQ(rooted(2, {4, 1}),
              "2 counts for the " + all +
                  " in a group of 4; give one for each rank, or on a rank other than the root its "
                  "own count alone");
  }
}

TEST(CallCheck, SplitsMustFit) {
  Given call(Kind::all_to_all, 10, 12);
  const std::vector<std::size_t> in{1, 4, 2, 3};
  std::vector<std::size_t> out{3, 4, 3, 2};
  call.details.input_counts = in;
  EXPECT_THAT(call.wrong(), HasSubstr("give both or none"));
  call.details.output_counts = out;
  EXPECT_EQ(call.wrong(), "");
  out = {4, 3, 3, 2};
  EXPECT_THAT(call.wrong(), HasSubstr("sends itself 4 elements but expects 3"));
}

TEST(CallCheck, ListsMustFit) {
  Given gather(Kind::gather, 4, 0);
  gather.details.outputs = gather.list(gather.out);
  EXPECT_EQ(gather.wrong(0), "");
  gather.views[2] = floats(gather.out, 20, 5);
  EXPECT_EQ(gather.wrong(0),
            "the output for rank 2 has 5 elements, not 4; all blocks must have the same number, or "
            "all ranks give output_counts");
  std::vector<std::size_t> counts{4, 4, 5, 4};
  gather.details.output_counts = counts;
  EXPECT_EQ(gather.wrong(0), "");
  counts[3] = 6;
  EXPECT_EQ(gather.wrong(0), "the count for rank 3 is 6, but the output for rank 3 has 4 elements");
  gather.details.output_counts = std::span(counts).first(3);
  EXPECT_EQ(gather.wrong(0), "3 counts for the output in a group of 4; give one for each rank");
  Given all(Kind::all_gather, 4, 0);
  all.details.outputs = all.list(all.out);
  all.views[2] = floats(all.out, 20, 5);
  EXPECT_EQ(all.wrong(1), "");
  all.details.outputs = all.details.outputs.first(3);
  EXPECT_THAT(all.wrong(1), HasSubstr("a list of 3 tensors as output in a group of 4"));
  all.details.outputs = all.views;
  all.views[3] = TensorView(all.out.data(), DType::int32, 4);
  EXPECT_THAT(all.wrong(1), HasSubstr("the output for rank 3 is int32, not float32"));
}

TEST(CallCheck, AllTensorsMustBeOnOneDevice) {
  constexpr Device kFirst{DeviceType::cuda, 0};
  constexpr Device kSecond{DeviceType::cuda, 1};
  const auto on = [](const TensorView& view, Device device) {
    return TensorView(view.data(), view.dtype(), view.count(), device);
  };
  for (const Kind kind : {Kind::all_reduce, Kind::broadcast, Kind::reduce, Kind::all_to_all}) {
    for (const int rank : {0, 1}) {
      Given call(kind, 8, 8);
      call.call.input = on(call.call.input, kSecond);
      call.call.output = on(call.call.output, kSecond);
      EXPECT_EQ(call.wrong(rank), "");
      call.call.output = on(call.call.output, kFirst);
      EXPECT_THAT(call.wrong(rank),
                  HasSubstr("the output is in the memory of cuda:0, not of cuda:1"))
          << to_string(kind);
    }
  }
  Given scatter(Kind::scatter, 16, 4);
  scatter.call.output = on(scatter.call.output, kFirst);
  EXPECT_THAT(scatter.wrong(0), HasSubstr("the input is in the memory of cpu, not of cuda:0"));
  EXPECT_EQ(scatter.wrong(1), "") << "only the root has an input";
  Given list(Kind::all_gather, 4, 0);
  list.details.outputs = list.list(list.out);
  list.views[2] = on(list.views[2], kFirst);
  EXPECT_THAT(list.wrong(), HasSubstr("the output for rank 2 is in the memory of cuda:0"));
  Given factors(Kind::all_reduce, 10, 10);
  factors.call.op = ReduceOp::premul_sum;
  const TensorView one = floats(factors.out, 0, 1);
  factors.details.factor = on(one, kFirst);
  EXPECT_THAT(factors.wrong(), HasSubstr("the factor is in the memory of cuda:0"));
  factors.call.input = on(factors.call.input, kFirst);
  factors.call.output = on(factors.call.output, kFirst);
  EXPECT_EQ(factors.wrong(), "");
  factors.details.factor = one;
  EXPECT_EQ(factors.wrong(), "") << "a number may come from the host";
  factors.details.factor = floats(factors.in, 0, 10);
  EXPECT_THAT(factors.wrong(), HasSubstr("the factor is in the memory of cpu"));
}

TEST(CallCheck, MemoryMustBeThere) {
  Given call(Kind::all_reduce, 10, 10);
  call.call.input = TensorView(nullptr, DType::float32, 10);
  EXPECT_THAT(call.wrong(), HasSubstr("no memory"));
  Given folded(Kind::all_reduce, 4, 4);
  folded.call.output = column(folded.out, 0, 0);
  EXPECT_THAT(folded.wrong(), HasSubstr("stride of 0"));
}

/// By counting.
bool has_twins(const std::vector<std::int64_t>& shape, const std::vector<std::int64_t>& strides) {
  std::vector<std::int64_t> offsets{0};
  for (std::size_t d = 0; d < shape.size(); ++d) {
    std::vector<std::int64_t> next;
    for (const std::int64_t offset : offsets) {
      for (std::int64_t i = 0; i < shape[d]; ++i) next.push_back(offset + i * strides[d]);
    }
    offsets = std::move(next);
  }
  std::sort(offsets.begin(), offsets.end());
  return std::adjacent_find(offsets.begin(), offsets.end()) != offsets.end();
}

TEST(CallCheck, AViewOverlapsItselfExactlyWhereTwoElementsAreOne) {
  float memory = 0;
  const auto overlaps = [&](const std::vector<std::int64_t>& shape,
                            const std::vector<std::int64_t>& strides) {
    return call::overlaps_itself(TensorView(&memory, DType::float32, shape, strides));
  };
  std::mt19937 random(7);
  const auto any = [&](int low, int high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  int twins = 0;
  for (int i = 0; i < 20000; ++i) {
    std::vector<std::int64_t> shape;
    std::vector<std::int64_t> strides;
    for (std::int64_t d = any(0, 4); d > 0; --d) {
      shape.push_back(any(0, 5));
      strides.push_back(any(-14, 14));
    }
    const bool expected = has_twins(shape, strides);
    EXPECT_EQ(overlaps(shape, strides), expected)
        << testing::PrintToString(shape) << " " << testing::PrintToString(strides);
    twins += expected ? 1 : 0;
  }
  EXPECT_GT(twins, 2000);
  EXPECT_LT(twins, 18000);
  // Large ones take no time: rows that overlap, and every other element of a transposed matrix.
  const std::int64_t large = std::int64_t{1} << 40;
  EXPECT_TRUE(overlaps({2, large}, {1, 1}));
  EXPECT_TRUE(overlaps({large, 3}, {2, 1}));
  EXPECT_FALSE(overlaps({1024, large / 2}, {1, 2048}));
  EXPECT_FALSE(overlaps({1024, large / 2}, {-1, -2048}));
  EXPECT_TRUE(overlaps({large, 7}, {0, 1}));
}

TEST(CallCheck, OverlapsAreToldButForTheOwnBlock) {
  Given gather(Kind::all_gather, 4, 16);
  gather.call.input = floats(gather.out, 4, 4);
  EXPECT_EQ(gather.overlap(1), Overlap::none);
  EXPECT_EQ(gather.overlap(2), Overlap::input);
  Given scatter(Kind::reduce_scatter, 16, 4);
  scatter.call.output = floats(scatter.in, 4, 4);
  EXPECT_EQ(scatter.overlap(1), Overlap::none);
  EXPECT_EQ(scatter.overlap(0), Overlap::input);
  Given exchange(Kind::all_to_all, 16, 16);
  exchange.call.output = exchange.call.input;
  EXPECT_EQ(exchange.overlap(), Overlap::input);
}

TEST(CallCheck, TensorsOfAListThatOverlapWhereTheyAreWrittenAreTold) {
  Given gather(Kind::all_gather, 4, 0);
  gather.details.outputs = gather.list(gather.out);
  EXPECT_EQ(gather.overlap(1), Overlap::none);
  gather.call.input = gather.views[1];
  EXPECT_EQ(gather.overlap(1), Overlap::none) << "in place";
  EXPECT_EQ(gather.overlap(2), Overlap::input);
  gather.call.input = floats(gather.in, 0, 4);
  for (const std::size_t begin : {0, 22}) {
    gather.views[3] = floats(gather.out, begin, 4);
    EXPECT_EQ(gather.overlap(1), Overlap::output);
  }
  // Outputs with strides are not judged among themselves.
  gather.views[3] = column(gather.out, 0, 2);
  EXPECT_EQ(gather.overlap(1), Overlap::none);
  // What is only read may be the same twice.
  Given scatter(Kind::reduce_scatter, 0, 4);
  scatter.details.inputs = scatter.list(scatter.in);
  scatter.views[3] = scatter.views[0];
  EXPECT_EQ(scatter.overlap(1), Overlap::none);
  scatter.call.output = scatter.views[1];
  EXPECT_EQ(scatter.overlap(1), Overlap::none);
  scatter.views[2] = scatter.views[1];
  EXPECT_EQ(scatter.overlap(1), Overlap::input);
  EXPECT_EQ(scatter.overlap(2), Overlap::input);
  Given exchange(Kind::all_to_all, 0, 0);
  std::vector<TensorView> in;
  for (std::size_t r = 0; r < 4; ++r) in.push_back(floats(exchange.in, 10 * r, 4));
  exchange.details.inputs = in;
  exchange.details.outputs = exchange.list(exchange.out);
  EXPECT_EQ(exchange.overlap(1), Overlap::none);
  in[1] = exchange.views[1];
  EXPECT_EQ(exchange.overlap(1), Overlap::input);
  in[1] = in[0];
  EXPECT_EQ(exchange.overlap(1), Overlap::none);
  exchange.views[1] = exchange.views[0];
  EXPECT_EQ(exchange.overlap(1), Overlap::output);
}

TEST(CallCheck, StridedTensorsOverlapWithAllThatTheyReachOver) {
  Given gather(Kind::all_gather, 4, 0);
  gather.details.outputs = gather.list(gather.in);
  gather.views[1] = column(gather.out, 0, 2);
  gather.call.input = gather.views[1];
  EXPECT_EQ(gather.overlap(1), Overlap::none) << "in place";
  EXPECT_EQ(gather.overlap(2), Overlap::input);
  gather.call.input = column(gather.out, 6, -2);
  EXPECT_EQ(gather.overlap(1), Overlap::input) << "the same memory in another order";
  gather.call.input = column(gather.out, 7, 2);
  EXPECT_EQ(gather.overlap(1), Overlap::none) << "right behind it";
  gather.call.input = column(gather.out, 13, -2);
  EXPECT_EQ(gather.overlap(1), Overlap::none) << "right behind it, backwards";
  gather.call.input = column(gather.out, 12, -2);
  EXPECT_EQ(gather.overlap(1), Overlap::input);
  Given exchange(Kind::all_to_all, 4, 4);
  exchange.call.input = column(exchange.out, 0, 2);
  exchange.call.output = exchange.call.input;
  EXPECT_EQ(exchange.overlap(), Overlap::input);
}

TEST(CallCheck, RootTimeoutAndFactorMustBeRight) {
  Given root(Kind::gather, 4, 0);
  root.call.root = 4;
  EXPECT_THAT(root.wrong(), HasSubstr("root must be a rank of the group, 0 to 3"));
  Given time(Kind::barrier, 0, 0);
  time.call.timeout = std::chrono::seconds(0);
  EXPECT_THAT(time.wrong(), HasSubstr("timeout must be positive"));
  Given scaled(Kind::all_reduce, 10, 10);
  scaled.call.op = ReduceOp::premul_sum;
  EXPECT_THAT(scaled.wrong(), HasSubstr("needs a factor"));
  scaled.details.factor = floats(scaled.in, 0, 3);
  EXPECT_THAT(scaled.wrong(), HasSubstr("factor has 3 elements"));
  Given part(Kind::reduce_scatter, 16, 4);
  part.call.op = ReduceOp::premul_sum;
  part.details.factor = floats(part.in, 0, 4);  // as many as the output has
  EXPECT_THAT(part.wrong(), HasSubstr("factor has 4 elements"));
  part.details.factor = TensorView(part.in.data(), DType::float64, 16);
  EXPECT_THAT(part.wrong(),
              HasSubstr("the factor is float64; it must have the input's dtype, float32"));
  part.details.factor = TensorView(nullptr, DType::float32, 0);
  EXPECT_THAT(part.wrong(), HasSubstr("factor has 0 elements"));
  Given plain(Kind::all_reduce, 10, 10);
  plain.details.factor = floats(plain.in, 0, 3);
  EXPECT_THAT(plain.wrong(), HasSubstr("not PREMUL_SUM"));
  Given listed(Kind::all_reduce, 4, 4);
  listed.details.inputs = listed.list(listed.in);
  EXPECT_THAT(listed.wrong(), HasSubstr("a side that is one tensor"));
}

}  // namespace
}  // namespace tutti
