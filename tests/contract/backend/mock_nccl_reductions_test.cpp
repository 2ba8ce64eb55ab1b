#include <gtest/gtest.h>

#include <complex>
#include <concepts>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "contract/group/reduced_values.hpp"
#include "kernels/reduce.hpp"
#include "mock_nccl_ranks.hpp"
#include "unit/kernels/reduce_reference.hpp"

// Every reduce op with every dtype on NCCL, over mocks of NCCL and of CUDA's driver. The values are
// such that each result is exact, whatever the order and the rounding of the additions.
namespace tutti::test {
namespace {

namespace reference = kernels::testing;

constexpr std::size_t kCount = 8;  // elements of a block
constexpr int kTwo = 2;            // ranks

/// NCCL's manual: no op on bits, no integers of 16 bits, float8 from 2.24 on. Complex numbers are
/// two floats each, which multiply otherwise.
bool nccl_has(ReduceOp op, DType dtype, int version) {
  if (op == ReduceOp::band || op == ReduceOp::bor || op == ReduceOp::bxor) return false;
  switch (dtype) {
    case DType::int16:
    case DType::uint16: return false;
    case DType::float8_e4m3:
    case DType::float8_e5m2: return version >= 22400;
    case DType::complex64:
    case DType::complex128: return op == ReduceOp::sum || op == ReduceOp::avg;
    default: return true;
  }
}

template <class T>
T number(int value) {
  if constexpr (reference::Narrow<T>)
    return reference::narrowed<T>(value);
  else if constexpr (reference::Complex<T>)
    return T(static_cast<typename T::value_type>(value));
  else
    return static_cast<T>(value);
}

/// Element `i` of a rank's input.
template <class T>
T given(ReduceOp op, int rank, std::size_t i) {
  const int odd = static_cast<int>(i % 2);
  if constexpr (std::same_as<T, bool>) return ((i >> rank) & 1U) != 0;
  // The top bit, which the order of signed numbers reads otherwise than that of unsigned ones.
  if constexpr (std::integral<T> && !std::same_as<T, bool>) {
    if ((op == ReduceOp::min || op == ReduceOp::max) && rank == odd)
      return std::unsigned_integral<T> ? static_cast<T>(std::numeric_limits<T>::max() - 2)
                                       : std::numeric_limits<T>::min();
  }
  const int real = odd + 2 * rank;  // 0, 1, 2 or 3: E5M2 has these, and their sums
  if constexpr (reference::Complex<T>)
    return number<T>(real) + T(0, static_cast<typename T::value_type>(4 + real));
  else
    return number<T>(real);
}

template <class T>
T factor_of(int rank) {
  return number<T>(rank + 1);
}

template <class T>
T wanted(ReduceOp op, std::size_t i) {
  const T first = given<T>(op, 0, i);
  const T second = given<T>(op, 1, i);
  if constexpr (std::same_as<T, bool>)
    return reference::combine<T>(op, first, second);
  else
    return reduced<T>(op, {first, second}, {factor_of<T>(0), factor_of<T>(1)});
}

/// Rows of elements, whose addresses a vector<bool> would not give.
template <class T>
class Row {
 public:
  explicit Row(std::size_t count) : bytes_(count * sizeof(T)) {}
  void set(std::size_t i, T value) { std::memcpy(&bytes_[i * sizeof(T)], &value, sizeof(T)); }
  [[nodiscard]] bool is(std::size_t i, T value) const {
    return std::memcmp(&bytes_[i * sizeof(T)], &value, sizeof(T)) == 0;
  }
  [[nodiscard]] TensorView view() {
    return TensorView(bytes_.data(), reference::dtype<T>(), bytes_.size() / sizeof(T), kGpu);
  }

 private:
  std::vector<std::byte> bytes_;
};

template <class T>
class Reductions {
 public:
  Reductions(ProcessGroup& world, ReduceOp op, bool has, bool factor_on_gpu)
      : world_(world), op_(op), has_(has), factor_on_gpu_(factor_on_gpu) {}

  void run() {
    all_reduce();
    for (int root = 0; root < kTwo; ++root) reduce(root);
    reduce_scatter({});
    reduce_scatter({kCount + 3, kCount - 3});
  }

 private:
  [[nodiscard]] Row<T> input(std::size_t count) const {
    Row<T> row(count);
    for (std::size_t i = 0; i < count; ++i) row.set(i, given<T>(op_, world_.rank(), i));
    return row;
  }
  /// True if it has a result, and else it must have been refused at the call.
  bool submit(Collective call, const std::vector<std::size_t>& counts = {}) {
    Row<T> factor(1);
    factor.set(0, factor_of<T>(world_.rank()));
    Details details;
    if (op_ == ReduceOp::premul_sum) {
      details.factor = factor.view();
      if (!factor_on_gpu_)
        details.factor = TensorView(details.factor.data(), reference::dtype<T>(), 1);
    }
    details.input_counts = counts;
    call.op = op_;
    call.details = &details;
    if (!has_) {
      EXPECT_THROW((void)world_.submit(call, std::nullopt, false), InvalidArgument);
      return false;
    }
    finish(world_.submit(call, std::nullopt, false));
    return true;
  }
  void expect(const char* operation, const Row<T>& row, std::size_t count, std::size_t first = 0) {
    for (std::size_t i = 0; i < count; ++i) {
      EXPECT_TRUE(row.is(i, wanted<T>(op_, first + i)))
          << operation << ", element " << i << " of rank " << world_.rank();
    }
  }
  void all_reduce() {
    Row<T> row = input(kCount);
    Collective call;
    call.kind = Kind::all_reduce;
    call.input = call.output = row.view();
    if (submit(call)) expect("all_reduce", row, kCount);
  }
  void reduce(int root) {
    Row<T> row = input(kCount);
    Collective call;
    call.kind = Kind::reduce;
    call.root = root;
    call.input = call.output = row.view();
    if (submit(call) && world_.rank() == root) expect("reduce", row, kCount);
  }
  /// `counts`: of the blocks, if they differ.
  void reduce_scatter(const std::vector<std::size_t>& counts) {
    Row<T> from = input(kTwo * kCount);
    const std::size_t count = counts.empty() ? kCount : counts[world_.rank() == 0 ? 0 : 1];
    Row<T> to(count);
    Collective call;
    call.kind = Kind::reduce_scatter;
    call.input = from.view();
    call.output = to.view();
    if (submit(call, counts))
      expect("reduce_scatter", to, count, world_.rank() == 0 ? 0 : kTwo * kCount - count);
  }

  ProcessGroup& world_;
  ReduceOp op_;
  bool has_;
  bool factor_on_gpu_;
};

struct TypeName {
  template <class T>
  static std::string GetName(int) {
    return std::string(to_string(reference::dtype<T>()));
  }
};

template <class T>
class MockNcclReductions : public testing::Test {};

using Types = testing::Types<bool, std::uint8_t, std::int8_t, std::uint16_t, std::int16_t,
                             std::uint32_t, std::int32_t, std::uint64_t, std::int64_t, float,
                             double, reference::Half, reference::Brain, reference::E4M3,
                             reference::E5M2, std::complex<float>, std::complex<double>>;
TYPED_TEST_SUITE(MockNcclReductions, Types, TypeName);

TYPED_TEST(MockNcclReductions, AreRightOrRefused) {
  constexpr DType kDType = reference::dtype<TypeParam>();
  for (const int version : {21900, 22400}) {
    MockNcclWorld mock(kTwo);
    mock.network.version = version;
    run_nccl(mock, [&](ProcessGroup& world) {
      for (int o = 0; o < kReduceOpCount; ++o) {
        const auto op = static_cast<ReduceOp>(o);
        const bool has = kernels::is_supported(op, kDType) && nccl_has(op, kDType, version);
        for (const bool on_gpu : {false, true}) {
          SCOPED_TRACE(std::string(to_string(op)) + ", NCCL " + std::to_string(version) +
                       (on_gpu ? ", factor on the GPU" : ""));
          Reductions<TypeParam>(world, op, has, on_gpu).run();
        }
      }
    });
  }
}

}  // namespace
}  // namespace tutti::test
