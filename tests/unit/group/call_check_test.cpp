#include "group/call_check.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace tutti {
namespace {

using testing::HasSubstr;

/// A right call of rank 1 of 4, to be spoilt.
struct Given {
  std::vector<float> in = std::vector<float>(40);
  std::vector<float> out = std::vector<float>(40);
  std::vector<std::size_t> counts;
  std::vector<TensorView> views;
  Details details{};
  Collective call;

  Given(Kind kind, std::size_t input, std::size_t output) {
    call.kind = kind;
    call.timeout = std::chrono::seconds(1);
    call.input = TensorView(in.data(), DType::float32, input);
    call.output = TensorView(out.data(), DType::float32, output);
    call.details = &details;
  }
  [[nodiscard]] std::string wrong(int rank = 1) const { return what_is_wrong(call, rank, 4); }
  /// Tensors of 4, 4, 4, ... elements, but for one.
  std::span<const TensorView> list(float* memory, std::size_t odd_one, std::size_t count) {
    for (std::size_t r = 0; r < 4; ++r)
      views.emplace_back(memory + 10 * r, DType::float32, r == odd_one ? count : 4);
    return views;
  }
};

TEST(CallCheck, RightCallsPass) {
  EXPECT_EQ(Given(Kind::barrier, 0, 0).wrong(), "");
  EXPECT_EQ(Given(Kind::all_reduce, 10, 10).wrong(), "");
  EXPECT_EQ(Given(Kind::reduce, 10, 10).wrong(), "");
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
  EXPECT_THAT(Given(Kind::all_reduce, 10, 11).wrong(), HasSubstr("input's dtype and count"));
  EXPECT_THAT(Given(Kind::all_gather, 4, 15).wrong(), HasSubstr("must have 4 times the input's 4"));
  EXPECT_THAT(Given(Kind::gather, 4, 15).wrong(0), HasSubstr("must have 4 times"));
  EXPECT_THAT(Given(Kind::scatter, 17, 4).wrong(0), HasSubstr("4 times the output's 4"));
  EXPECT_THAT(Given(Kind::reduce_scatter, 12, 4).wrong(), HasSubstr("4 times the output's 4"));
  EXPECT_THAT(Given(Kind::all_to_all, 15, 15).wrong(), HasSubstr("cannot be divided evenly"));
  EXPECT_THAT(Given(Kind::all_to_all, 16, 12).wrong(), HasSubstr("must be equal"));
}

TEST(CallCheck, UnevenCountsMustFit) {
  Given gather(Kind::all_gather, 4, 10);
  gather.counts = {1, 4, 2, 3};
  gather.details.output_counts = gather.counts;
  EXPECT_EQ(gather.wrong(1), "");
  EXPECT_THAT(gather.wrong(2), HasSubstr("block 2 of the output has 2 elements"));
  gather.counts = {1, 4, 2, 4};
  gather.details.output_counts = gather.counts;
  EXPECT_THAT(gather.wrong(1), HasSubstr("sum up to 11, but it has 10"));
  gather.counts = {1, 4, 5};
  gather.details.output_counts = gather.counts;
  EXPECT_THAT(gather.wrong(1), HasSubstr("3 counts for the output in a group of 4"));
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
  gather.details.outputs = gather.list(gather.out.data(), 4, 0);
  EXPECT_EQ(gather.wrong(0), "");
  Given uneven(Kind::gather, 4, 0);
  uneven.details.outputs = uneven.list(uneven.out.data(), 2, 5);
  EXPECT_THAT(uneven.wrong(0), HasSubstr("the output for rank 2 has 5 elements, not 4"));
  Given all(Kind::all_gather, 4, 0);
  all.details.outputs = all.list(all.out.data(), 2, 5);
  EXPECT_EQ(all.wrong(1), "");
  all.details.outputs = all.details.outputs.first(3);
  EXPECT_THAT(all.wrong(1), HasSubstr("a list of 3 tensors as output in a group of 4"));
  Given type(Kind::all_gather, 4, 0);
  (void)type.list(type.out.data(), 4, 0);
  type.views[3] = TensorView(type.out.data(), DType::int32, 4);
  type.details.outputs = type.views;
  EXPECT_THAT(type.wrong(1), HasSubstr("the output for rank 3 is int32, not float32"));
}

TEST(CallCheck, MemoryMustBeThere) {
  Given call(Kind::all_reduce, 10, 10);
  call.call.input = TensorView(nullptr, DType::float32, 10);
  EXPECT_THAT(call.wrong(), HasSubstr("no memory"));
  Given folded(Kind::all_reduce, 4, 4);
  folded.call.output = TensorView(folded.out.data(), DType::float32, std::array<std::int64_t, 1>{4},
                                  std::array<std::int64_t, 1>{0});
  EXPECT_THAT(folded.wrong(), HasSubstr("stride of 0"));
}

TEST(CallCheck, OverlapsAreToldButForTheOwnBlock) {
  Given gather(Kind::all_gather, 4, 16);
  gather.call.input = TensorView(gather.out.data() + 4, DType::float32, 4);
  EXPECT_EQ(gather.wrong(1), "");
  EXPECT_THAT(gather.wrong(2), HasSubstr("only this rank's own block"));
  Given scatter(Kind::reduce_scatter, 16, 4);
  scatter.call.output = TensorView(scatter.in.data() + 4, DType::float32, 4);
  EXPECT_EQ(scatter.wrong(1), "");
  EXPECT_THAT(scatter.wrong(0), HasSubstr("overlap"));
  Given exchange(Kind::all_to_all, 16, 16);
  exchange.call.output = exchange.call.input;
  EXPECT_THAT(exchange.wrong(), HasSubstr("overlap"));
}

TEST(CallCheck, TensorsOfAListMustNotOverlapWhereTheyAreWritten) {
  Given gather(Kind::all_gather, 4, 0);
  gather.details.outputs = gather.list(gather.out.data(), 4, 0);
  EXPECT_EQ(gather.wrong(1), "");
  gather.call.input = gather.views[1];
  EXPECT_EQ(gather.wrong(1), "") << "in place";
  EXPECT_EQ(gather.wrong(2), "input and output overlap; only this rank's own block may be both");
  gather.call.input = TensorView(gather.in.data(), DType::float32, 4);
  gather.views[3] = gather.views[0];
  EXPECT_THAT(gather.wrong(1), HasSubstr("two tensors of the output overlap"));
  gather.views[3] = TensorView(gather.out.data() + 22, DType::float32, 4);
  EXPECT_THAT(gather.wrong(1), HasSubstr("two tensors of the output overlap"));
  // What has strides is not judged.
  gather.views[3] = TensorView(gather.out.data(), DType::float32, std::array<std::int64_t, 1>{4},
                               std::array<std::int64_t, 1>{2});
  EXPECT_EQ(gather.wrong(1), "");
  // What is only read may be the same twice.
  Given scatter(Kind::reduce_scatter, 0, 4);
  scatter.details.inputs = scatter.list(scatter.in.data(), 4, 0);
  scatter.views[3] = scatter.views[0];
  EXPECT_EQ(scatter.wrong(1), "");
  scatter.call.output = scatter.views[1];
  EXPECT_EQ(scatter.wrong(1), "");
  scatter.views[2] = scatter.views[1];
  EXPECT_THAT(scatter.wrong(1), HasSubstr("only this rank's own block"));
  EXPECT_THAT(scatter.wrong(2), HasSubstr("only this rank's own block"));
  Given exchange(Kind::all_to_all, 0, 0);
  std::vector<TensorView> in;
  for (std::size_t r = 0; r < 4; ++r)
    in.emplace_back(exchange.in.data() + 10 * r, DType::float32, 4);
  exchange.details.inputs = in;
  exchange.details.outputs = exchange.list(exchange.out.data(), 4, 0);
  EXPECT_EQ(exchange.wrong(1), "");
  in[1] = exchange.views[1];
  EXPECT_EQ(exchange.wrong(1), "input and output overlap");
  in[1] = in[0];
  EXPECT_EQ(exchange.wrong(1), "");
  exchange.views[1] = exchange.views[0];
  EXPECT_THAT(exchange.wrong(1), HasSubstr("two tensors of the output overlap"));
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
  std::vector<float> factors(3);
  scaled.details.factor = view_of(factors);
  EXPECT_THAT(scaled.wrong(), HasSubstr("factor has 3 elements"));
  Given part(Kind::reduce_scatter, 16, 4);
  part.call.op = ReduceOp::premul_sum;
  std::vector<float> as_many_as_the_output(4);
  part.details.factor = view_of(as_many_as_the_output);
  EXPECT_THAT(part.wrong(), HasSubstr("factor has 4 elements"));
  std::vector<double> other_type(16);
  part.details.factor = view_of(other_type);
  EXPECT_THAT(part.wrong(), HasSubstr("the input's dtype"));
  Given plain(Kind::all_reduce, 10, 10);
  plain.details.factor = view_of(factors);
  EXPECT_THAT(plain.wrong(), HasSubstr("not PREMUL_SUM"));
  Given listed(Kind::all_reduce, 4, 4);
  listed.details.inputs = listed.list(listed.in.data(), 4, 0);
  EXPECT_THAT(listed.wrong(), HasSubstr("a side that is one tensor"));
}

}  // namespace
}  // namespace tutti
