#include "contract/group/reductions.hpp"
#include "mock_nccl_ranks.hpp"

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

/// The inputs of both ranks, and the results of one op. Each rank has one factor.
template <class T>
ReducedValues values_of(ReduceOp op) {
  ReducedValues values;
  values.dtype = reference::dtype<T>();
  values.count = kTwo * kCount;
  for (int rank = 0; rank < kTwo; ++rank) {
    std::vector<T> row;
    for (std::size_t i = 0; i < values.count; ++i) row.push_back(given<T>(op, rank, i));
    values.inputs.push_back(bytes_of(row));
    values.factors.push_back(bytes_of(std::vector<T>(values.count, number<T>(rank + 1))));
  }
  values.results[static_cast<std::size_t>(op)] =
      reduced_results(element_rules<T>(), values, kTwo, op);
  return values;
}

struct TypeName {
  template <class T>
  static std::string GetName(int) {
    return std::string(to_string(reference::dtype<T>()));
  }
};

template <class T>
class MockNcclReductions : public testing::Test {};

TYPED_TEST_SUITE(MockNcclReductions, OfEveryType<testing::Types>, TypeName);

TYPED_TEST(MockNcclReductions, AreRightOrRefused) {
  constexpr DType kDType = reference::dtype<TypeParam>();
  for (const int version : {21900, 22400}) {
    MockNcclWorld mock(kTwo);
    mock.network.version = version;
    run_nccl(mock, [&](ProcessGroup& world) {
      for (int o = 0; o < kReduceOps; ++o) {
        const auto op = static_cast<ReduceOp>(o);
        const bool has = kernels::is_supported(op, kDType) && nccl_has(op, kDType, version);
        const ReducedValues values = values_of<TypeParam>(has ? op : ReduceOp::sum);
        const OneResult wanted(values.results[static_cast<std::size_t>(has ? op : ReduceOp::sum)],
                               kDType);
        for (const Device factors : {Device(), kGpu}) {
          SCOPED_TRACE(std::string(to_string(op)) + ", NCCL " + std::to_string(version) +
                       ", factor on " + to_string(factors));
          Reductions calls(world, values, op, wanted, {}, kGpu);
          calls.take_one_factor(factors);
          const auto call = [&](const auto& reduction) {
            if (has)
              reduction();
            else
              EXPECT_THROW(reduction(), InvalidArgument);
          };
          calls.take(0, kCount);
          call([&] { calls.all_reduce(); });
          for (int root = 0; root < kTwo; ++root) call([&] { calls.reduce(root); });
          calls.take(0, kTwo * kCount);
          call([&] { calls.scatter(); });
          call([&] { calls.scatter_uneven({kCount + 3, kCount - 3}); });
        }
      }
    });
  }
}

}  // namespace
}  // namespace tutti::test
