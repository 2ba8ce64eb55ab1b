#include "kernels/pack.hpp"

#include "kernels/copy.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <complex>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace tutti::kernels {
namespace {

struct Layout {
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;

  [[nodiscard]] std::size_t count() const {
    std::size_t product = 1;
    for (const std::int64_t size : shape) product *= static_cast<std::size_t>(size);
    return product;
  }

  /// Where each element lies, by definition: the last index runs fastest. Worked out once.
  [[nodiscard]] const std::vector<std::int64_t>& offsets() const {
    for (std::size_t i = offsets_.size(); i < count(); ++i) {
      offsets_.push_back(0);
      auto rest = static_cast<std::int64_t>(i);
      for (std::size_t d = shape.size(); d-- > 0;) {
        offsets_.back() += rest % shape[d] * strides[d];
        rest /= shape[d];
      }
    }
    return offsets_;
  }

  [[nodiscard]] std::string text() const {
    std::string text;
    for (std::size_t d = 0; d < shape.size(); ++d)
      text += std::to_string(shape[d]) + "/" + std::to_string(strides[d]) + " ";
    return text;
  }

  mutable std::vector<std::int64_t> offsets_ = {};
};

/// Memory that holds all elements of a layout and knows where element 0 is.
template <class T>
struct Memory {
  explicit Memory(const Layout& layout) {
    std::int64_t low = 0;
    std::int64_t high = 0;
    for (const std::int64_t offset : layout.offsets()) {
      low = std::min(low, offset);
      high = std::max(high, offset);
    }
    origin = -low;
    values.resize(static_cast<std::size_t>(high - low + 1));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = T(static_cast<int>(i % 119) + 1);
  }
  [[nodiscard]] T& at(std::int64_t offset) {
    return values[static_cast<std::size_t>(origin + offset)];
  }
  [[nodiscard]] TensorView view(const Layout& layout) {
    return TensorView(&at(0), *dtype_of<T>(), layout.shape, layout.strides);
  }
  std::vector<T> values;
  std::int64_t origin = 0;
};

template <class T>
void check_pack(const Layout& layout, std::size_t first, std::size_t count) {
  Memory<T> memory(layout);
  std::vector<T> packed(count + 2, T(125));
  std::vector<T> wanted = packed;
  for (std::size_t i = 0; i < count; ++i) wanted[1 + i] = memory.at(layout.offsets()[first + i]);
  pack(packed.data() + 1, memory.view(layout), first, count);
  EXPECT_EQ(packed, wanted) << layout.text() << "first " << first << " count " << count;
}

template <class T>
void check_unpack(const Layout& layout, std::size_t first, std::size_t count) {
  Memory<T> memory(layout);
  Memory<T> wanted(layout);
  std::vector<T> packed(count);
  for (std::size_t i = 0; i < count; ++i) packed[i] = T(static_cast<int>(i * 3 % 127));
  for (std::size_t i = 0; i < count; ++i) wanted.at(layout.offsets()[first + i]) = packed[i];
  unpack(memory.view(layout), first, count, packed.data());
  EXPECT_EQ(memory.values, wanted.values)
      << layout.text() << "first " << first << " count " << count;
}

template <class T>
void check_parts(const Layout& layout, std::mt19937_64& random) {
  const std::size_t all = layout.count();
  check_pack<T>(layout, 0, all);
  check_unpack<T>(layout, 0, all);
  for (int part = 0; part < 6; ++part) {
    const std::size_t first = random() % (all + 1);
    const std::size_t count = random() % (all - first + 1);
    check_pack<T>(layout, first, count);
    check_unpack<T>(layout, first, count);
  }
}

Layout random_layout(std::mt19937_64& random) {
  Layout layout;
  const std::size_t dims = random() % (kMaxDims + 1);
  std::size_t budget = 600;
  for (std::size_t d = 0; d < dims; ++d) {
    const std::size_t size =
        random() % std::min<std::size_t>(budget, 9) + (random() % 40 == 0 ? 0 : 1);
    budget = std::max<std::size_t>(1, budget / std::max<std::size_t>(1, size));
    layout.shape.push_back(static_cast<std::int64_t>(size));
  }
  layout.strides.resize(dims);
  // Some dims continue the one behind them, as in a contiguous tensor; others do as they like.
  std::int64_t next = 1;
  for (std::size_t d = dims; d-- > 0;) {
    const bool free = random() % 3 == 0;
    layout.strides[d] = free ? static_cast<std::int64_t>(random() % 23) - 11 : next;
    next = layout.strides[d] * layout.shape[d];
  }
  return layout;
}

TEST(Pack, AnyLayoutAnyPart) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 400; ++round) {
    const Layout layout = random_layout(random);
    SCOPED_TRACE(round);
    check_parts<std::uint8_t>(layout, random);
    check_parts<std::int16_t>(layout, random);
    check_parts<float>(layout, random);
    check_parts<double>(layout, random);
    check_parts<std::complex<double>>(layout, random);
  }
}

TEST(Pack, WellKnownLayouts) {
  std::mt19937_64 random(2);
  for (const Layout& layout : {
           Layout{{}, {}},                        // one element
           Layout{{7}, {1}},                      // contiguous
           Layout{{7}, {-1}},                     // backwards
           Layout{{7}, {0}},                      // one element seven times
           Layout{{5, 7}, {1, 5}},                // transposed
           Layout{{5, 7}, {9, 1}},                // some columns of a matrix
           Layout{{5, 7}, {0, 1}},                // a row for all rows
           Layout{{5, 3}, {1, 1}},                // sliding windows
           Layout{{2, 3, 4}, {12, -4, 1}},        // rows backwards
           Layout{{1, 5, 1, 2}, {99, 2, 99, 1}},  // dimensions of one
           Layout{{2, 2, 2, 2, 2, 2, 2, 2}, {1, 2, 4, 8, 16, 32, 64, 128}},
       }) {
    check_parts<std::int32_t>(layout, random);
  }
}

TEST(Pack, NoElementsNoAccess) {
  const Layout layout{{3, 0}, {5, 1}};
  const TensorView view(nullptr, DType::float32, layout.shape, layout.strides);
  pack(nullptr, view, 0, 0);
  unpack(view, 0, 0, nullptr);
}

constexpr std::size_t kGuard = 64;

void check_copy(void (*copy_bytes)(void*, const void*, std::size_t) noexcept, std::size_t bytes,
                std::size_t dst_shift, std::size_t src_shift) {
  std::vector<std::byte> src(src_shift + bytes);
  for (std::size_t i = 0; i < src.size(); ++i) src[i] = static_cast<std::byte>(i * 7 + i / 251);
  std::vector<std::byte> dst(dst_shift + bytes + kGuard, std::byte{0xa5});
  std::vector<std::byte> wanted = dst;
  for (std::size_t i = 0; i < bytes; ++i) wanted[dst_shift + i] = src[src_shift + i];
  copy_bytes(dst.data() + dst_shift, src.data() + src_shift, bytes);
  EXPECT_EQ(dst, wanted) << bytes << " bytes, shifts " << dst_shift << " and " << src_shift;
}

TEST(CopyKernels, CopyEverySizeAtAnyAlignment) {
  for (std::size_t bytes = 0; bytes <= 300; ++bytes) {
    for (const std::size_t shift : {0, 1, 8, 63}) {
      check_copy(&copy, bytes, shift, (shift + bytes) % 64);
      check_copy(&copy_nt, bytes, shift, (shift + bytes) % 64);
    }
  }
  check_copy(&copy_nt, 100'000, 5, 11);
}

TEST(CopyKernels, CopiesInRunsLeaveNothingOut) {
  for (std::size_t bytes = 0; bytes <= 1200; ++bytes)
    check_copy(&copy_in_runs, bytes, 0, bytes % 64);
  for (const std::size_t bytes : {16384U, 16385U, 32704U, 65599U, 100'000U})
    check_copy(&copy_in_runs, bytes, 5, 11);
}

TEST(CopyKernels, NothingIsCopiedFromNowhere) {
  copy(nullptr, nullptr, 0);
  copy_in_runs(nullptr, nullptr, 0);
  copy_nt(nullptr, nullptr, 0);
}

}  // namespace
}  // namespace tutti::kernels
