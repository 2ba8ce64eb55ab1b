#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

// Reductions element by element, for GPUs (reduce.cu) and, with the same bits, for tests on the
// host. The results are those of src/kernels/reduce.hpp: the same order, roundings and NaN. Compile
// without contraction of a multiplication and an addition.

#ifdef __CUDACC__
#define TUTTI_ELEMENT __host__ __device__ __forceinline__
#define TUTTI_UNROLL _Pragma("unroll")
#else
#define TUTTI_ELEMENT inline
#define TUTTI_UNROLL
#endif

namespace tutti::cuda::kernels {

inline constexpr int kMostSources = 64;
/// The tree of so many sources is computed in registers.
inline constexpr int kGroup = 8;

/// The one parameter of every kernel. All addresses are multiples of 16, but a kernel that scales
/// takes any, and for `to` those of whole elements. `to` may be one of the sources.
struct ReduceArguments {
  void* to = nullptr;
  const void* sources[kMostSources] = {};
  std::int64_t divisor = 1;       ///< of averages
  std::uint64_t count = 0;        ///< elements
  std::int32_t k = 0;             ///< sources: 1 to kMostSources; of a kernel that scales, 1
  const void* factors = nullptr;  ///< what it is scaled by; null: `factor`
  std::int64_t step = 0;          ///< elements between two factors; 0: it is one for all
  alignas(16) unsigned char factor[16] = {};
};

template <class To, class From>
TUTTI_ELEMENT To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

// ---- Elements: as they are stored, and as they are combined

/// All NaN become one.
template <class T>
TUTTI_ELEMENT T settled(T value) {
  if constexpr (std::is_same_v<T, float>)
    return value != value ? bits_as<float>(std::uint32_t{0x7fc00000}) : value;
  else if constexpr (std::is_same_v<T, double>)
    return value != value ? bits_as<double>(std::uint64_t{0x7ff8000000000000}) : value;
  else
    return value;
}

template <class T>
struct Plain {
  using Stored = T;
  using Value = T;
  static TUTTI_ELEMENT T load(T stored) { return stored; }
  static TUTTI_ELEMENT T store(T value) { return settled(value); }
  static TUTTI_ELEMENT T divided(T value, std::int64_t by) {
    if constexpr (std::is_unsigned_v<T>)
      return static_cast<T>(value / static_cast<std::uint64_t>(by));
    else if constexpr (std::is_integral_v<T>)
      return static_cast<T>(value / by);
    else
      return value / static_cast<T>(by);
  }
};

/// Integers whose sums wrap, but which are divided with their sign.
template <class T>
struct Signed {
  using Stored = std::make_unsigned_t<T>;
  using Value = Stored;
  static TUTTI_ELEMENT Value load(Stored stored) { return stored; }
  static TUTTI_ELEMENT Stored store(Value value) { return value; }
  static TUTTI_ELEMENT Value divided(Value value, std::int64_t by) {
    return static_cast<Value>(static_cast<T>(value) / by);
  }
};

/// Any byte but 0 is true.
struct Truth {
  using Stored = std::uint8_t;
  using Value = std::uint8_t;
  static TUTTI_ELEMENT Value load(Stored stored) { return stored != 0 ? 1 : 0; }
  static TUTTI_ELEMENT Stored store(Value value) { return value; }
  static TUTTI_ELEMENT Value divided(Value value, std::int64_t /*by*/) { return value; }
};

/// A float of sign, exponent and mantissa with denormals, combined as float32. From kSpecial on,
/// magnitudes are not finite; a float32 whose bits are kTooLargeFrom or more becomes kSpecial.
template <class Bits, int kMantissa, int kBias, std::uint32_t kSpecial, std::uint32_t kTooLargeFrom,
          std::uint32_t kNan>
struct Narrow {
  using Stored = Bits;
  using Value = float;
  static constexpr int kShift = 23 - kMantissa;
  static constexpr int kSignShift = 32 - 8 * static_cast<int>(sizeof(Bits));
  static constexpr std::uint32_t kSign = 1U << (8 * sizeof(Bits) - 1);
  static constexpr std::uint32_t kRebias = static_cast<std::uint32_t>(127 - kBias) << 23;

  static TUTTI_ELEMENT float load(Bits stored) {
    const std::uint32_t magnitude = stored & (kSign - 1);
    const std::uint32_t moved = magnitude << kShift;
    std::uint32_t bits = 0;
    if (magnitude >= kSpecial) {
      bits = moved | 0x7f800000U;
    } else if (magnitude >= 1U << kMantissa) {
      bits = moved + kRebias;
    } else {
      // As the mantissa of the least normal number, which is then taken away again.
      const std::uint32_t least = static_cast<std::uint32_t>(128 - kBias) << 23;
      bits = bits_as<std::uint32_t>(bits_as<float>(moved | least) - bits_as<float>(least));
    }
    return bits_as<float>(bits | (stored & kSign) << kSignShift);
  }
  static TUTTI_ELEMENT Bits store(float value) {
    const auto all = bits_as<std::uint32_t>(value);
    const std::uint32_t magnitude = all & 0x7fffffffU;
    const std::uint32_t sign = all >> kSignShift & kSign;
    if (magnitude > 0x7f800000U) return static_cast<Bits>(kNan);
    std::uint32_t bits = 0;
    if (magnitude >= kTooLargeFrom) {
      bits = kSpecial;
    } else if (magnitude < static_cast<std::uint32_t>(128 - kBias) << 23) {
      // Added to a number whose last place is the least denormal, the sum is rounded there.
      const std::uint32_t magic = static_cast<std::uint32_t>(128 - kBias - kMantissa + 23) << 23;
      bits = bits_as<std::uint32_t>(bits_as<float>(magnitude) + bits_as<float>(magic)) - magic;
    } else {
      const std::uint32_t odd = magnitude >> kShift & 1;
      bits = (magnitude + ((1U << (kShift - 1)) - 1 - kRebias) + odd) >> kShift;
    }
    if (kSpecial == kNan && bits >= kNan) return static_cast<Bits>(kNan);
    return static_cast<Bits>(bits | sign);
  }
  static TUTTI_ELEMENT float divided(float value, std::int64_t by) {
    return value / static_cast<float>(by);
  }
};
using Half = Narrow<std::uint16_t, 10, 15, 0x7c00, 0x47800000, 0x7e00>;
using E5m2 = Narrow<std::uint8_t, 2, 15, 0x7c, 0x47800000, 0x7f>;
using E4m3 = Narrow<std::uint8_t, 3, 7, 0x7f, 0x43f00000, 0x7f>;

/// The upper half of a float32.
struct Brain {
  using Stored = std::uint16_t;
  using Value = float;
  static TUTTI_ELEMENT float load(Stored stored) {
    return bits_as<float>(static_cast<std::uint32_t>(stored) << 16);
  }
  static TUTTI_ELEMENT Stored store(float value) {
    const auto bits = bits_as<std::uint32_t>(settled(value));
    return static_cast<Stored>((bits + 0x7fffU + (bits >> 16 & 1)) >> 16);
  }
  static TUTTI_ELEMENT float divided(float value, std::int64_t by) {
    return value / static_cast<float>(by);
  }
};

template <class T>
struct Complex {
  struct alignas(2 * sizeof(T)) Number {
    T real;
    T imaginary;
  };
  using Stored = Number;
  using Value = Number;
  static TUTTI_ELEMENT Value load(Stored stored) { return stored; }
  static TUTTI_ELEMENT Stored store(Value value) {
    return {settled(value.real), settled(value.imaginary)};
  }
  static TUTTI_ELEMENT Value divided(Value value, std::int64_t /*by*/) { return value; }
};

// ---- Operations

struct Sum {
  template <class T>
  static TUTTI_ELEMENT T of(T a, T b) {
    return static_cast<T>(a + b);
  }
};

struct Product {
  template <class T>
  static TUTTI_ELEMENT T of(T a, T b) {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(std::uint64_t{a} * b);  // as int, two 16-bit factors would overflow
    else if constexpr (std::is_floating_point_v<T>)
      return a * b;
    else
      return {a.real * b.real - a.imaginary * b.imaginary,
              a.real * b.imaginary + a.imaginary * b.real};
  }
};

/// Each element times its factor, which is stored like an element. It combines nothing.
struct Scale {};

template <class T>
using BitsOf = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;

/// Where neither is less, they are zeros, equal, or one is NaN: see src/kernels/reduce_min.cpp.
struct Min {
  template <class T>
  static TUTTI_ELEMENT T of(T a, T b) {
    if (a < b) return a;
    if (b < a) return b;
    if constexpr (std::is_floating_point_v<T>)
      return bits_as<T>(bits_as<BitsOf<T>>(a) | bits_as<BitsOf<T>>(b));
    else
      return a;
  }
};

struct Max {
  template <class T>
  static TUTTI_ELEMENT T of(T a, T b) {
    if (b < a) return a;
    if (a < b) return b;
    if constexpr (std::is_floating_point_v<T>) {
      constexpr BitsOf<T> kSign = BitsOf<T>{1} << (8 * sizeof(T) - 1);
      const auto x = bits_as<BitsOf<T>>(a);
      const auto y = bits_as<BitsOf<T>>(b);
      return bits_as<T>(((x | y) & static_cast<BitsOf<T>>(~kSign)) | (x & y));
    } else {
      return a;
    }
  }
};

struct Band {
  template <class T>
  static TUTTI_ELEMENT T of(T a, T b) {
    return static_cast<T>(a & b);
  }
};

struct Bor {
  template <class T>
  static TUTTI_ELEMENT T of(T a, T b) {
    return static_cast<T>(a | b);
  }
};

struct Bxor {
  template <class T>
  static TUTTI_ELEMENT T of(T a, T b) {
    return static_cast<T>(a ^ b);
  }
};

// ---- Reductions

/// The sum of values[0..k), k <= kGroup, in the order of the binomial tree.
template <class Op, class Value>
TUTTI_ELEMENT Value tree(Value (&values)[kGroup], int k) {
  TUTTI_UNROLL
  for (int d = 1; d < kGroup; d *= 2) {
    TUTTI_UNROLL
    for (int j = 0; j + d < kGroup; j += 2 * d) {
      if (j + d < k) values[j] = Op::of(values[j], values[j + d]);
    }
  }
  return values[0];
}

template <class Element, bool kDivides>
TUTTI_ELEMENT typename Element::Stored finished(typename Element::Value value,
                                                const ReduceArguments& all) {
  if constexpr (kDivides) value = Element::divided(value, all.divisor);
  return Element::store(value);
}

/// One element of any number of sources. Groups of them are the leaves of the tree; sums wait as in
/// a binary counter.
template <class Element, class Op, bool kDivides>
TUTTI_ELEMENT void reduce_element(const ReduceArguments& all, std::size_t at) {
  using Stored = typename Element::Stored;
  using Value = typename Element::Value;
  constexpr int kLevels = 4;  // of kMostSources / kGroup groups, and one more
  Value waiting[kLevels] = {};
  const int groups = (all.k + kGroup - 1) / kGroup;
  for (int group = 0; group < groups; ++group) {
    Value values[kGroup] = {};
    const int k = all.k - group * kGroup < kGroup ? all.k - group * kGroup : kGroup;
    for (int j = 0; j < k; ++j)
      values[j] = Element::load(static_cast<const Stored*>(all.sources[group * kGroup + j])[at]);
    Value value = tree<Op>(values, k);
    int level = 0;
    for (; (group >> level & 1) != 0; ++level) value = Op::of(waiting[level], value);
    waiting[level] = value;
  }
  int level = 0;
  while ((groups >> level & 1) == 0) ++level;
  Value value = waiting[level];
  for (++level; level < kLevels; ++level) {
    if ((groups >> level & 1) != 0) value = Op::of(waiting[level], value);
  }
  static_cast<Stored*>(all.to)[at] = finished<Element, kDivides>(value, all);
}

template <class Stored>
struct alignas(16) VectorOf {
  static constexpr int kLanes = 16 / static_cast<int>(sizeof(Stored));
  Stored lanes[kLanes];
};

/// 16 bytes of up to kGroup sources.
template <class Element, class Op, bool kDivides>
TUTTI_ELEMENT void reduce_vector(const ReduceArguments& all, std::size_t at) {
  using Vector = VectorOf<typename Element::Stored>;
  Vector from[kGroup];
  TUTTI_UNROLL
  for (int j = 0; j < kGroup; ++j) {
    if (j < all.k) from[j] = static_cast<const Vector*>(all.sources[j])[at];
  }
  Vector to;
  TUTTI_UNROLL
  for (int lane = 0; lane < Vector::kLanes; ++lane) {
    typename Element::Value values[kGroup] = {};
    TUTTI_UNROLL
    for (int j = 0; j < kGroup; ++j) {
      if (j < all.k) values[j] = Element::load(from[j].lanes[lane]);
    }
    to.lanes[lane] = finished<Element, kDivides>(tree<Op>(values, all.k), all);
  }
  static_cast<Vector*>(all.to)[at] = to;
}

template <class T>
TUTTI_ELEMENT bool is_aligned(const void* place) {
  return reinterpret_cast<std::uintptr_t>(place) % alignof(T) == 0;
}

/// From any address: a tensor need not be aligned.
template <class T>
TUTTI_ELEMENT T load_from(const void* place) {
  if (is_aligned<T>(place)) return *static_cast<const T*>(place);
  unsigned char bytes[sizeof(T)];
  TUTTI_UNROLL
  for (std::size_t i = 0; i < sizeof(T); ++i)
    bytes[i] = static_cast<const unsigned char*>(place)[i];
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

/// The product is rounded as it is stored, before any sum.
template <class Element>
TUTTI_ELEMENT typename Element::Stored scaled(typename Element::Stored value,
                                              typename Element::Stored factor) {
  return Element::store(Product::of(Element::load(value), Element::load(factor)));
}

/// The share of one of `threads` threads, of a kernel that scales.
template <class Element>
TUTTI_ELEMENT void scale(const ReduceArguments& all, std::size_t thread, std::size_t threads) {
  using Stored = typename Element::Stored;
  using Vector = VectorOf<Stored>;
  const auto* const from = static_cast<const unsigned char*>(all.sources[0]);
  const auto* const factors =
      static_cast<const unsigned char*>(all.factors != nullptr ? all.factors : all.factor);
  const std::int64_t step = all.factors != nullptr ? all.step : 0;
  const bool by_vectors = is_aligned<Vector>(all.to) && is_aligned<Vector>(from) &&
                          (step == 0 || (step == 1 && is_aligned<Vector>(factors)));
  const std::size_t vectors = by_vectors ? all.count / Vector::kLanes : 0;
  Vector by = {};
  if (vectors != 0 && step == 0) {
    const Stored one = load_from<Stored>(factors);
    TUTTI_UNROLL
    for (int lane = 0; lane < Vector::kLanes; ++lane) by.lanes[lane] = one;
  }
  for (std::size_t at = thread; at < vectors; at += threads) {
    if (step != 0) by = reinterpret_cast<const Vector*>(factors)[at];
    Vector values = reinterpret_cast<const Vector*>(from)[at];
    TUTTI_UNROLL
    for (int lane = 0; lane < Vector::kLanes; ++lane)
      values.lanes[lane] = scaled<Element>(values.lanes[lane], by.lanes[lane]);
    static_cast<Vector*>(all.to)[at] = values;
  }
  for (std::size_t at = vectors * Vector::kLanes + thread; at < all.count; at += threads) {
    const auto offset =
        static_cast<std::int64_t>(at) * step * static_cast<std::int64_t>(sizeof(Stored));
    static_cast<Stored*>(all.to)[at] = scaled<Element>(
        load_from<Stored>(from + at * sizeof(Stored)), load_from<Stored>(factors + offset));
  }
}

/// The share of one of `threads` threads.
template <class Element, class Op, bool kDivides>
TUTTI_ELEMENT void reduce(const ReduceArguments& all, std::size_t thread, std::size_t threads) {
  if constexpr (std::is_same_v<Op, Scale>) {
    scale<Element>(all, thread, threads);
  } else {
    constexpr std::size_t kLanes = 16 / sizeof(typename Element::Stored);
    const std::size_t vectors = all.k <= kGroup ? all.count / kLanes : 0;
    for (std::size_t at = thread; at < vectors; at += threads)
      reduce_vector<Element, Op, kDivides>(all, at);
    for (std::size_t at = vectors * kLanes + thread; at < all.count; at += threads)
      reduce_element<Element, Op, kDivides>(all, at);
  }
}

}  // namespace tutti::cuda::kernels

/// All kernels: X(name, element, operation, divides). kernel_of (kernels.hpp) says which one serves
/// a reduce op and a dtype.
#define TUTTI_KERNELS_OF_NUMBERS(X, name, Op, divides) \
  X(name##_float16, Half, Op, divides)                 \
  X(name##_bfloat16, Brain, Op, divides)               \
  X(name##_float8_e4m3, E4m3, Op, divides)             \
  X(name##_float8_e5m2, E5m2, Op, divides)             \
  X(name##_float32, Plain<float>, Op, divides)         \
  X(name##_float64, Plain<double>, Op, divides)        \
  X(name##_uint8, Plain<std::uint8_t>, Op, divides)    \
  X(name##_uint16, Plain<std::uint16_t>, Op, divides)  \
  X(name##_uint32, Plain<std::uint32_t>, Op, divides)  \
  X(name##_uint64, Plain<std::uint64_t>, Op, divides)
#define TUTTI_KERNELS_OF_SIGNED(X, name, Op, divides, Element) \
  X(name##_int8, Element<std::int8_t>, Op, divides)            \
  X(name##_int16, Element<std::int16_t>, Op, divides)          \
  X(name##_int32, Element<std::int32_t>, Op, divides)          \
  X(name##_int64, Element<std::int64_t>, Op, divides)
#define TUTTI_KERNELS(X)                                 \
  TUTTI_KERNELS_OF_NUMBERS(X, sum, Sum, false)           \
  TUTTI_KERNELS_OF_NUMBERS(X, product, Product, false)   \
  TUTTI_KERNELS_OF_NUMBERS(X, min, Min, false)           \
  TUTTI_KERNELS_OF_NUMBERS(X, max, Max, false)           \
  TUTTI_KERNELS_OF_NUMBERS(X, avg, Sum, true)            \
  TUTTI_KERNELS_OF_SIGNED(X, min, Min, false, Plain)     \
  TUTTI_KERNELS_OF_SIGNED(X, max, Max, false, Plain)     \
  TUTTI_KERNELS_OF_SIGNED(X, avg, Sum, true, Signed)     \
  TUTTI_KERNELS_OF_NUMBERS(X, scale, Scale, false)       \
  X(scale_complex64, Complex<float>, Scale, false)       \
  X(scale_complex128, Complex<double>, Scale, false)     \
  X(product_complex64, Complex<float>, Product, false)   \
  X(product_complex128, Complex<double>, Product, false) \
  X(band_bool, Truth, Band, false)                       \
  X(bor_bool, Truth, Bor, false)                         \
  X(bxor_bool, Truth, Bxor, false)                       \
  X(band_uint8, Plain<std::uint8_t>, Band, false)        \
  X(bor_uint8, Plain<std::uint8_t>, Bor, false)          \
  X(bxor_uint8, Plain<std::uint8_t>, Bxor, false)
