// The bits of every op on every dtype, as an x86-64 recorded them: other processors have the same.
// TUTTI_RECORD_BITS=1 stores them anew.

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "base/fnv.hpp"
#include "unit/kernels/kernel_arrays.hpp"

namespace tutti::kernels {
namespace {

using namespace testing;

constexpr int kMostSources = 33;
constexpr std::size_t kMostBytes = 20'016;  // enough for non-temporal stores
constexpr const char* kRecorded = TUTTI_RECORDED_BITS;

/// Any bits in every fourth word; in the others floats have exponents near each other and round.
std::vector<std::vector<std::uint64_t>> inputs_of(DType dtype) {
  const bool complex = dtype == DType::complex64 || dtype == DType::complex128;
  const std::size_t size = size_of(dtype) / (complex ? 2 : 1);
  std::uint64_t exponent_bits = 0;
  std::uint64_t exponents = 0;
  for (std::size_t end = size; end <= 8; end += size) {
    exponent_bits |= std::uint64_t{0x7c} << (8 * end - 8);
    exponents |= std::uint64_t{0x3c} << (8 * end - 8);
  }
  std::mt19937_64 random(static_cast<unsigned>(dtype) + 1);
  std::vector rows(kMostSources, std::vector<std::uint64_t>(kMostBytes / 8));
  for (auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      row[i] = random();
      if (i % 4 != 0) row[i] = (row[i] & ~exponent_bits) | exponents;
    }
  }
  return rows;
}

/// The output of a call with (dst, sources, how many, count) for many and few of both.
template <class Call>
std::uint64_t hash_of(DType dtype, const std::vector<const void*>& sources, const Call& call) {
  std::uint64_t hash = base::kFnvBasis;
  const std::size_t most = kMostBytes / size_of(dtype);
  for (const int k : {1, 2, 3, 7, 8, 9, 17, kMostSources}) {
    for (const std::size_t count :
         {std::size_t{1}, std::size_t{3}, std::size_t{61}, std::size_t{300}, most - 1, most}) {
      std::vector<std::uint64_t> result(kMostBytes / 8);
      call(result.data(), sources.data(), k, count);
      for (const std::uint64_t word : result) hash = base::fnv_add(hash, word);
    }
  }
  return hash;
}

std::string all_hashes() {
  std::ostringstream text;
  const auto line = [&](DType dtype, const char* what, std::uint64_t hash) {
    text << to_string(dtype) << ' ' << what << ' ' << std::hex << hash << std::dec << '\n';
  };
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    const auto rows = inputs_of(dtype);
    std::vector<const void*> sources;
    for (const auto& row : rows) sources.push_back(row.data());
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::product, ReduceOp::min, ReduceOp::max,
                              ReduceOp::band, ReduceOp::bor, ReduceOp::bxor}) {
      if (!is_supported(op, dtype)) continue;
      const std::uint64_t plain = hash_of(dtype, sources, find_reduce(op, dtype));
      EXPECT_EQ(hash_of(dtype, sources, find_reduce_nt(op, dtype)), plain) << to_string(op);
      line(dtype, to_string(op).data(), plain);
    }
    if (dtype == DType::bool_) continue;
    line(dtype, "average",
         hash_of(dtype, sources, [&](void* dst, auto from, int k, std::size_t count) {
           find_average(dtype)(dst, from, k, count, 3);
         }));
    line(dtype, "scale",
         hash_of(dtype, sources, [&](void* dst, auto from, int k, std::size_t count) {
           find_scale(dtype)(dst, from[0], from[k - 1], k % 2 == 0, count);
         }));
  }
  return text.str();
}

TEST(RecordedBits, AreTheSameOnEveryProcessor) {
  if (std::getenv("TUTTI_RECORD_BITS") != nullptr) std::ofstream(kRecorded) << all_hashes();
  std::stringstream recorded;
  recorded << std::ifstream(kRecorded).rdbuf();
  ForEachTarget::run([&] {
    std::istringstream now(all_hashes());
    std::istringstream then(recorded.str());
    std::string ours;
    std::string theirs;
    while (std::getline(now, ours)) {
      std::getline(then, theirs);
      EXPECT_EQ(ours, theirs);
    }
    EXPECT_FALSE(std::getline(then, theirs));
  });
}

}  // namespace
}  // namespace tutti::kernels
