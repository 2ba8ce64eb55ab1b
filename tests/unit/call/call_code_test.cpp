#include "call/call_code.hpp"

#include "call/extent.hpp"
#include "call/gpu_calls.hpp"

#include <gtest/gtest.h>

#include <set>

namespace tutti::call {
namespace {

Collective all_reduce(std::vector<float>& data, ReduceOp op) {
  return {
      .kind = Kind::all_reduce, .op = op, .input = TensorView(data), .output = TensorView(data)};
}

CallCode encode_in(const Collective& call, int size = 4) {
  return encode(call, extent_of(call, 0, size));
}

// The table of docs/design/fingerprint.md. Ranks of different builds compare these: never change
// them.
TEST(CallCode, IsFrozen) {
  std::vector<float> data(1000);
  Collective call = all_reduce(data, ReduceOp::max);
  call.root = 3;
  const auto code_of = [&](Kind kind, std::uint64_t digest = 0) {
    call.kind = kind;
    call.digest = digest;
    return encode_in(call);
  };
  EXPECT_EQ(code_of(Kind::all_reduce), (CallCode{0xffffffff000b0402ULL, 1000, 0}));
  EXPECT_EQ(code_of(Kind::broadcast), (CallCode{0x00000003000bff01ULL, 1000, 0}));
  EXPECT_EQ(code_of(Kind::barrier), (CallCode{0xffffffff00ffff00ULL, 0, 0}));
  EXPECT_EQ(code_of(Kind::new_group, 0x1234), (CallCode{0xffffffff00ffff03ULL, 0, 0x1234}));
  call.root = 0;  // 5: no kind has the number 4
  EXPECT_EQ(code_of(Kind::reduce), (CallCode{0x00000000000b0405ULL, 1000, 0}));
}

/// Names in the order of their numbers.
template <class Enum>
std::vector<std::string> names_of(int count) {
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i) names.emplace_back(to_string(static_cast<Enum>(i)));
  return names;
}

TEST(CallCode, NumbersOfKindsOpsAndTypesAreFrozen) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(names_of<Kind>(kKindCount),
            (Names{"barrier", "broadcast", "all_reduce", "new_group", "unused", "reduce",
                   "all_gather", "gather", "scatter", "reduce_scatter", "all_to_all", "send",
                   "recv", "scan", "exclusive_scan", "probe"}));
  EXPECT_EQ(names_of<ReduceOp>(kReduceOpCount),
            (Names{"SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR", "PREMUL_SUM"}));
  EXPECT_EQ(names_of<DType>(kDTypeCount),
            (Names{"bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64",
                   "float16", "bfloat16", "float32", "float64", "float8_e4m3", "float8_e5m2",
                   "complex64", "complex128"}));
}

TEST(CallCode, OfBlocksIsFrozen) {
  std::vector<float> data(12);
  Collective call{
      .op = ReduceOp::sum, .root = 2, .input = TensorView(data), .output = TensorView(data)};
  const auto code_of = [&](Kind kind) {
    call.kind = kind;
    return encode_in(call);
  };
  // Of what holds a block of each rank: what is agreed is one block.
  EXPECT_EQ(code_of(Kind::all_to_all), (CallCode{0xffffffff000bff0aULL, 3, 0}));
  EXPECT_EQ(code_of(Kind::all_gather), (CallCode{0xffffffff000bff06ULL, 12, 0}));
  EXPECT_EQ(code_of(Kind::reduce_scatter), (CallCode{0xffffffff000b0009ULL, 12, 0}));
  EXPECT_EQ(code_of(Kind::gather), (CallCode{0x00000002000bff07ULL, 12, 0}));
  EXPECT_EQ(code_of(Kind::scatter), (CallCode{0x00000002000bff08ULL, 12, 0}));
  // Splits say nothing of their sizes.
  Details details;
  const std::vector<std::size_t> splits{1, 2, 3, 6};
  details.input_counts = splits;
  details.output_counts = splits;
  call.details = &details;
  EXPECT_EQ(code_of(Kind::all_to_all), (CallCode{0xffffffff000bff0aULL, ~std::uint64_t{0}, 0}));
  // Nor do counts, which only the root has of all ranks.
  EXPECT_EQ(code_of(Kind::gather), (CallCode{0x00000002000bff07ULL, ~std::uint64_t{0}, 0}));
  EXPECT_EQ(code_of(Kind::scatter), (CallCode{0x00000002000bff08ULL, ~std::uint64_t{0}, 0}));
  // Uneven blocks: their sum, and a digest of all.
  std::uint64_t digest = 0xcbf29ce484222325ULL;
  for (const std::size_t count : splits) digest = chain(digest, CallCode{count, 0, 0});
  EXPECT_EQ(code_of(Kind::all_gather), (CallCode{0xffffffff000bff06ULL, 12, digest | 1}));
}

TEST(CallCode, ChainIsFrozen) {
  EXPECT_EQ(chain_start(1, 2), 0xf2826f98653e9e57ULL);
  EXPECT_EQ(chain(0xf2826f98653e9e57ULL, CallCode{0xffffffff000b0402ULL, 1000, 0}),
            0x1c70a137033eb622ULL);
  EXPECT_EQ(hash_text("world"), 0x4074742ca9fe362bULL);
}

TEST(CallCode, EveryAgreedFieldChangesTheFingerprint) {
  std::vector<float> data(8);
  std::vector<float> more(9);
  std::vector<std::int32_t> numbers(8);
  const Collective base = all_reduce(data, ReduceOp::sum);
  std::vector<Collective> calls(5, base);
  calls[1].input = TensorView(numbers);
  calls[2].digest = 1;
  calls[3].kind = calls[4].kind = Kind::broadcast;
  calls[4].root = 1;
  calls.push_back(all_reduce(data, ReduceOp::max));
  calls.push_back(all_reduce(more, ReduceOp::sum));
  std::set<std::uint64_t> seen;
  for (const Collective& call : calls) {
    const CallCode code = encode_in(call);
    EXPECT_TRUE(seen.insert(chain(chain_start(7, 0), code)).second) << describe(code);
  }
}

TEST(CallCode, FreeFieldsDoNot) {
  std::vector<float> data(8);
  std::vector<float> elsewhere(16);
  const Collective base = all_reduce(data, ReduceOp::sum);
  Collective other = base;
  other.input = TensorView(elsewhere.data(), DType::float32, std::array<std::int64_t, 1>{8},
                           std::array<std::int64_t, 1>{2});
  other.output = TensorView(data);
  other.timeout = std::chrono::seconds(1);
  other.root = 5;  // has no meaning in an all_reduce
  EXPECT_EQ(encode_in(base), encode_in(other));
}

TEST(CallCode, OrderOfCallsCounts) {
  const CallCode a{1, 2, 3};
  const CallCode b{4, 5, 6};
  const std::uint64_t start = chain_start(1, 1);
  EXPECT_NE(chain(chain(start, a), b), chain(chain(start, b), a));
  EXPECT_NE(start, chain_start(1, 2));
  EXPECT_NE(start, chain_start(2, 1));
}

TEST(CallCode, DescribesAnyBits) {
  std::vector<float> data(1000);
  EXPECT_EQ(describe(encode_in(all_reduce(data, ReduceOp::sum))),
            "all_reduce(SUM, float32 x 1000)");
  EXPECT_EQ(describe(encode_in(Collective{})), "barrier()");
  Collective of_gpus = all_reduce(data, ReduceOp::sum);
  of_gpus.digest = gpu_call_digest(0);
  EXPECT_EQ(describe(encode_in(of_gpus)), "all_reduce(SUM, float32 x 1000, on GPUs)");
  const std::uint64_t ones = ~std::uint64_t{0};
  EXPECT_FALSE(describe(CallCode{ones, ones, ones}).empty());
  EXPECT_FALSE(describe(CallCode{0xffffff02ULL, ones, ones}).empty());
}

}  // namespace
}  // namespace tutti::call
