#include "kernels/narrow.hpp"

#include "kernels/cpu_target.hpp"
//
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/narrow.cpp"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>
//
#include <bit>
#include <cstdint>
#include <cstring>

#include "base/addition_order.hpp"

HWY_BEFORE_NAMESPACE();
namespace tutti::kernels::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using Wide = hn::ScalableTag<float>;
using WideBits = hn::RebindToUnsigned<Wide>;
using WideInts = hn::RebindToSigned<Wide>;

constexpr std::int32_t kInfinity = 0x7f800000;
constexpr int kWideBias = 127;
constexpr int kWideMantissa = 23;

HWY_INLINE hn::Vec<Wide> power_of_two(int exponent) {
  return hn::BitCast(Wide(), hn::Set(WideInts(), (exponent + kWideBias) << kWideMantissa));
}

/// A format of sign, exponent and mantissa with denormals. From kSpecial on, magnitudes are not
/// finite. A float32 whose bits are kTooLargeFrom or more becomes kTooLarge; what lies below that
/// and rounds up beyond the greatest finite number gets there by its own carry.
struct Float16 {
  using Bits = std::uint16_t;
  static constexpr int kMantissa = 10;
  static constexpr int kBias = 15;
  static constexpr std::int32_t kSpecial = 0x7c00;
  static constexpr std::int32_t kTooLarge = 0x7c00;
  static constexpr std::int32_t kTooLargeFrom = (16 + kWideBias) << kWideMantissa;  // 65536
  static constexpr std::int32_t kNan = 0x7e00;
};

struct Float8E5M2 {
  using Bits = std::uint8_t;
  static constexpr int kMantissa = 2;
  static constexpr int kBias = 15;
  static constexpr std::int32_t kSpecial = 0x7c;
  static constexpr std::int32_t kTooLarge = 0x7c;
  static constexpr std::int32_t kTooLargeFrom = (16 + kWideBias) << kWideMantissa;  // 65536
  static constexpr std::int32_t kNan = 0x7f;
};

struct Float8E4M3 {
  using Bits = std::uint8_t;
  static constexpr int kMantissa = 3;
  static constexpr int kBias = 7;
  static constexpr std::int32_t kSpecial = 0x7f;
  static constexpr std::int32_t kTooLarge = 0x7f;
  static constexpr std::int32_t kTooLargeFrom = 0x43f00000;  // 480
  static constexpr std::int32_t kNan = 0x7f;
};

template <class F>
struct AnyFormat {
  using Bits = typename F::Bits;
  static constexpr int kShift = kWideMantissa - F::kMantissa;
  static constexpr int kSignShift = 32 - 8 * static_cast<int>(sizeof(Bits));
  static constexpr std::int32_t kSign = 1 << (8 * sizeof(Bits) - 1);

  static HWY_INLINE hn::Vec<Wide> widen(const Bits* from) {
    const Wide d;
    const WideInts di;
    const hn::Rebind<Bits, Wide> dn;
    const auto bits = hn::BitCast(di, hn::PromoteTo(WideBits(), hn::LoadU(dn, from)));
    const auto magnitude = hn::And(bits, hn::Set(di, kSign - 1));
    const auto sign = hn::ShiftLeft<kSignShift>(hn::And(bits, hn::Set(di, kSign)));
    const auto moved = hn::ShiftLeft<kShift>(magnitude);
    const auto normal = hn::Add(moved, hn::Set(di, (kWideBias - F::kBias) << kWideMantissa));
    // As the mantissa of the least normal number, which is then taken away again.
    const auto least = power_of_two(1 - F::kBias);
    const auto denormal =
        hn::BitCast(di, hn::Sub(hn::BitCast(d, hn::Or(moved, hn::BitCast(di, least))), least));
    const auto is_normal = hn::Gt(magnitude, hn::Set(di, (1 << F::kMantissa) - 1));
    const auto finite = hn::IfThenElse(is_normal, normal, denormal);
    const auto special = hn::Or(moved, hn::Set(di, kInfinity));
    const auto is_special = hn::Gt(magnitude, hn::Set(di, F::kSpecial - 1));
    return hn::BitCast(d, hn::Or(sign, hn::IfThenElse(is_special, special, finite)));
  }

  static HWY_INLINE void narrow(Bits* to, hn::Vec<Wide> value) {
    const Wide d;
    const WideInts di;
    const hn::Rebind<Bits, Wide> dn;
    const auto bits = hn::BitCast(di, value);
    const auto magnitude = hn::And(bits, hn::Set(di, 0x7fffffff));
    const auto sign = hn::And(hn::ShiftRight<kSignShift>(bits), hn::Set(di, kSign));
    const auto odd = hn::And(hn::ShiftRight<kShift>(magnitude), hn::Set(di, 1));
    const auto rounding =
        hn::Set(di, (1 << (kShift - 1)) - 1 - ((kWideBias - F::kBias) << kWideMantissa));
    const auto normal = hn::ShiftRight<kShift>(hn::Add(hn::Add(magnitude, rounding), odd));
    // Added to a number whose last place is the least denormal, the sum is rounded there.
    const auto magic = power_of_two(1 - F::kBias - F::kMantissa + kWideMantissa);
    const auto denormal =
        hn::Sub(hn::BitCast(di, hn::Add(hn::BitCast(d, magnitude), magic)), hn::BitCast(di, magic));
    const auto is_denormal =
        hn::Lt(magnitude, hn::Set(di, (1 - F::kBias + kWideBias) << kWideMantissa));
    auto result = hn::IfThenElse(is_denormal, denormal, normal);
    const auto too_large = hn::Gt(magnitude, hn::Set(di, F::kTooLargeFrom - 1));
    result = hn::Or(hn::IfThenElse(too_large, hn::Set(di, F::kTooLarge), result), sign);
    auto nan = hn::Gt(magnitude, hn::Set(di, kInfinity));
    if constexpr (F::kTooLarge == F::kNan) {
      nan = hn::Gt(hn::And(result, hn::Set(di, kSign - 1)), hn::Set(di, F::kNan - 1));
      nan = hn::Or(nan, hn::Gt(magnitude, hn::Set(di, kInfinity)));
    }
    result = hn::IfThenElse(nan, hn::Set(di, F::kNan), result);
    hn::StoreU(hn::DemoteTo(dn, result), dn, to);
  }
};

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2 && !defined(HWY_DISABLE_F16C)

/// Uses the instructions of F16C. Their rounding is an operand, and does not depend on the mode.
struct Half {
  using Bits = std::uint16_t;
  using Tag = hn::Rebind<hwy::float16_t, Wide>;

  static HWY_INLINE hn::Vec<Wide> widen(const Bits* from) {
    const hn::Rebind<Bits, Wide> dn;
    return hn::PromoteTo(Wide(), hn::BitCast(Tag(), hn::LoadU(dn, from)));
  }

  static HWY_INLINE void narrow(Bits* to, hn::Vec<Wide> value) {
    const Wide d;
    const hn::Rebind<Bits, Wide> dn;
    const auto nan = hn::BitCast(d, hn::Set(WideInts(), 0x7fc00000));
    value = hn::IfThenElse(hn::IsNaN(value), nan, value);
    hn::StoreU(hn::BitCast(dn, hn::DemoteTo(Tag(), value)), dn, to);
  }
};

#else

using Half = AnyFormat<Float16>;

#endif

/// The upper half of a float32. By integers: the instructions for it flush denormals.
struct Brain {
  using Bits = std::uint16_t;

  static HWY_INLINE hn::Vec<Wide> widen(const Bits* from) {
    const hn::Rebind<Bits, Wide> dn;
    const auto bits = hn::PromoteTo(WideBits(), hn::LoadU(dn, from));
    return hn::BitCast(Wide(), hn::ShiftLeft<16>(bits));
  }

  /// In the upper halves; the lower ones hold anything.
  static HWY_INLINE hn::Vec<WideBits> rounded(hn::Vec<Wide> value) {
    const WideBits du;
    const auto bits = hn::BitCast(du, value);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1U));
    const auto sum = hn::Add(hn::Add(bits, hn::Set(du, 0x7fffU)), odd);
    const auto nan = hn::RebindMask(du, hn::IsNaN(value));
    return hn::IfThenElse(nan, hn::Set(du, 0x7fc00000U), sum);
  }

  static HWY_INLINE void narrow(Bits* to, hn::Vec<Wide> value) {
    const hn::Rebind<Bits, Wide> dn;
    hn::StoreU(hn::TruncateTo(dn, hn::ShiftRight<16>(rounded(value))), dn, to);
  }
};

/// The elements that do not fill a vector go through a vector of memory of our own.
template <class Format>
void widen(void* to, const void* from, std::size_t count) {
  const Wide d;
  const std::size_t lanes = hn::Lanes(d);
  auto* const out = static_cast<float*>(to);
  const auto* const in = static_cast<const typename Format::Bits*>(from);
  std::size_t i = 0;
  for (; count - i >= lanes; i += lanes) hn::StoreU(Format::widen(in + i), d, out + i);
  if (i == count) return;
  HWY_ALIGN typename Format::Bits rest[hn::MaxLanes(d)] = {};
  HWY_ALIGN float wide[hn::MaxLanes(d)];
  std::memcpy(rest, in + i, (count - i) * sizeof rest[0]);
  hn::Store(Format::widen(rest), d, wide);
  std::memcpy(out + i, wide, (count - i) * sizeof wide[0]);
}

template <class Format>
void narrow(void* to, const void* from, std::size_t count) {
  const Wide d;
  const std::size_t lanes = hn::Lanes(d);
  auto* const out = static_cast<typename Format::Bits*>(to);
  const auto* const in = static_cast<const float*>(from);
  std::size_t i = 0;
  for (; count - i >= lanes; i += lanes) Format::narrow(out + i, hn::LoadU(d, in + i));
  if (i == count) return;
  HWY_ALIGN float rest[hn::MaxLanes(d)] = {};
  HWY_ALIGN typename Format::Bits narrowed[hn::MaxLanes(d)];
  std::memcpy(rest, in + i, (count - i) * sizeof rest[0]);
  Format::narrow(narrowed, hn::Load(d, rest));
  std::memcpy(out + i, narrowed, (count - i) * sizeof narrowed[0]);
}

/// Twice as many elements as a vector of float32 holds, taken in two halves.
HWY_INLINE std::size_t pair_lanes() { return 2 * hn::Lanes(Wide()); }

template <class Format>
struct Pair {
  using Bits = typename Format::Bits;

  template <int kHalf>
  static HWY_INLINE hn::Vec<Wide> widen(const Bits* from) {
    return Format::widen(from + kHalf * hn::Lanes(Wide()));
  }

  static HWY_INLINE void narrow(Bits* to, hn::Vec<Wide> half0, hn::Vec<Wide> half1) {
    Format::narrow(to, half0);
    Format::narrow(to + hn::Lanes(Wide()), half1);
  }
};

#if HWY_TARGET != HWY_SCALAR

/// The halves are the elements with even and with odd places, so that nothing crosses a lane.
template <>
struct Pair<Brain> {
  template <int kHalf>
  static HWY_INLINE hn::Vec<Wide> widen(const Brain::Bits* from) {
    const WideBits du;
    const auto both = hn::LoadU(du, reinterpret_cast<const std::uint32_t*>(from));
    if constexpr (kHalf == 0) return hn::BitCast(Wide(), hn::ShiftLeft<16>(both));
    return hn::BitCast(Wide(), hn::And(both, hn::Set(du, 0xffff0000U)));
  }

  static HWY_INLINE void narrow(Brain::Bits* to, hn::Vec<Wide> half0, hn::Vec<Wide> half1) {
    const WideBits du;
    const auto low = hn::ShiftRight<16>(Brain::rounded(half0));
    const auto high = hn::And(Brain::rounded(half1), hn::Set(du, 0xffff0000U));
    hn::StoreU(hn::Or(low, high), du, reinterpret_cast<std::uint32_t*>(to));
  }
};

#endif

template <class Format, int kHalf, int kFirst, int kCount>
HWY_INLINE hn::Vec<Wide> sum_tree(const typename Format::Bits* const* sources, std::size_t at) {
  if constexpr (kCount == 1) {
    return Pair<Format>::template widen<kHalf>(sources[kFirst] + at);
  } else {
    constexpr int kLeft = base::lower_half(kCount);
    return hn::Add(sum_tree<Format, kHalf, kFirst, kLeft>(sources, at),
                   sum_tree<Format, kHalf, kFirst + kLeft, kCount - kLeft>(sources, at));
  }
}

template <class Format, int kCount>
void sum_few(typename Format::Bits* to, const void* const* sources, std::size_t first,
             std::size_t count) {
  using Bits = typename Format::Bits;
  const std::size_t step = pair_lanes();
  const Bits* from[kCount];
  for (int j = 0; j < kCount; ++j) from[j] = static_cast<const Bits*>(sources[j]) + first;
  std::size_t i = 0;
  for (; count - i >= step; i += step) {
    Pair<Format>::narrow(to + i, sum_tree<Format, 0, 0, kCount>(from, i),
                         sum_tree<Format, 1, 0, kCount>(from, i));
  }
  if (i == count) return;
  HWY_ALIGN Bits rest[kCount][2 * hn::MaxLanes(Wide())] = {};
  HWY_ALIGN Bits sum[2 * hn::MaxLanes(Wide())];
  const std::size_t bytes = (count - i) * sizeof(Bits);
  for (int j = 0; j < kCount; ++j) {
    std::memcpy(rest[j], from[j] + i, bytes);
    from[j] = rest[j];
  }
  Pair<Format>::narrow(sum, sum_tree<Format, 0, 0, kCount>(from, 0),
                       sum_tree<Format, 1, 0, kCount>(from, 0));
  std::memcpy(to + i, sum, bytes);
}

template <class Format>
void sum(void* dst, const void* const* sources, int k, std::size_t first, std::size_t count) {
  auto* const to = static_cast<typename Format::Bits*>(dst);
  switch (k) {
    case 2: return sum_few<Format, 2>(to, sources, first, count);
    case 3: return sum_few<Format, 3>(to, sources, first, count);
    case 4: return sum_few<Format, 4>(to, sources, first, count);
    case 5: return sum_few<Format, 5>(to, sources, first, count);
    case 6: return sum_few<Format, 6>(to, sources, first, count);
    case 7: return sum_few<Format, 7>(to, sources, first, count);
    default: return sum_few<Format, 8>(to, sources, first, count);
  }
}

}  // namespace

NarrowSumFn best_narrow_sum(DType dtype) {
  switch (dtype) {
    case DType::float16: return &sum<Half>;
    case DType::bfloat16: return &sum<Brain>;
    default: return nullptr;
  }
}

ConvertFn best_widen(DType dtype) {
  switch (dtype) {
    case DType::float16: return &widen<Half>;
    case DType::bfloat16: return &widen<Brain>;
    case DType::float8_e4m3: return &widen<AnyFormat<Float8E4M3>>;
    case DType::float8_e5m2: return &widen<AnyFormat<Float8E5M2>>;
    default: return nullptr;
  }
}

ConvertFn best_narrow(DType dtype) {
  switch (dtype) {
    case DType::float16: return &narrow<Half>;
    case DType::bfloat16: return &narrow<Brain>;
    case DType::float8_e4m3: return &narrow<AnyFormat<Float8E4M3>>;
    case DType::float8_e5m2: return &narrow<AnyFormat<Float8E5M2>>;
    default: return nullptr;
  }
}

}  // namespace tutti::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti::kernels {

ConvertFn find_widen(DType dtype) noexcept { return TUTTI_DISPATCH(best_widen)(dtype); }

ConvertFn find_narrow(DType dtype) noexcept { return TUTTI_DISPATCH(best_narrow)(dtype); }

NarrowSumFn find_narrow_sum(DType dtype) noexcept { return TUTTI_DISPATCH(best_narrow_sum)(dtype); }

}  // namespace tutti::kernels
#endif
