#pragma once

#include <cstring>

#include "kernels/reduce.hpp"
#include "unit/kernels/reduce_reference.hpp"

// Inputs of reductions that show every rule of docs/reference/semantics.md, and the results by the
// reference of the kernels' tests.
namespace tutti::test {

inline constexpr int kReduceOps = 9;

/// The types of elements of all dtypes, as arguments of a template.
template <template <class...> class List>
using OfEveryType = List<bool, std::uint8_t, std::int8_t, std::uint16_t, std::int16_t,
                         std::uint32_t, std::int32_t, std::uint64_t, std::int64_t, float, double,
                         kernels::testing::Half, kernels::testing::Brain, kernels::testing::E4M3,
                         kernels::testing::E5M2, std::complex<float>, std::complex<double>>;

/// The values that rules are written for: NaN, infinities, zeros, extremes.
template <class T>
std::vector<T> odd_values() {
  namespace reference = kernels::testing;
  if constexpr (std::same_as<T, bool>) {
    return {false, true};
  } else if constexpr (reference::Complex<T>) {
    using Part = typename T::value_type;
    using Limits = std::numeric_limits<Part>;
    const Part parts[] = {0, -Part{0}, 1, Limits::infinity(), Limits::quiet_NaN()};
    std::vector<T> all;
    for (const Part real : parts) {
      for (const Part imaginary : parts) all.emplace_back(real, imaginary);
    }
    return all;
  } else if constexpr (reference::Narrow<T>) {
    using Bits = decltype(T::bits);
    const auto one = reference::narrowed<T>(1).bits;
    std::vector<T> all;
    for (const unsigned magnitude : {0U, 1U, unsigned{one}, T::kGreatest, T::kBeyond, T::kNan}) {
      all.push_back({static_cast<Bits>(magnitude)});
      all.push_back({static_cast<Bits>(magnitude | T::kSign)});
    }
    return all;
  } else if constexpr (std::floating_point<T>) {
    using Limits = std::numeric_limits<T>;
    std::vector<T> all;
    for (const T value : {T{0}, Limits::denorm_min(), T{1}, Limits::max(), Limits::infinity(),
                          Limits::quiet_NaN()}) {
      all.push_back(value);
      all.push_back(-value);
    }
    return all;
  } else {
    using Limits = std::numeric_limits<T>;
    return {Limits::min(),
            static_cast<T>(Limits::min() + 1),
            static_cast<T>(-1),
            0,
            1,
            2,
            static_cast<T>(Limits::max() / 2 + 1),
            static_cast<T>(Limits::max() - 1),
            Limits::max()};
  }
}

/// The inputs of the ranks and the expected results, all as bytes.
struct ReducedValues {
  using Bytes = std::vector<std::byte>;
  DType dtype = DType::float32;
  std::size_t count = 0;
  std::vector<Bytes> inputs;  ///< by rank
  std::vector<Bytes>
      factors;  ///< by rank, one for each element; of dtypes without PREMUL_SUM unused
  std::array<Bytes, kReduceOps> results;  ///< by op; empty where that has no meaning
};

/// All that depends on the type of the elements.
struct ElementRules {
  using Bytes = ReducedValues::Bytes;
  DType dtype = DType::float32;
  Bytes odd;  ///< the odd values, one behind the other
  void (*draw)(std::mt19937_64& random, std::byte* to) = nullptr;
  /// Combines one element of each rank.
  void (*reduce)(ReduceOp op, const Bytes& values, const Bytes& factors, std::byte* to) = nullptr;

  [[nodiscard]] std::size_t size() const { return size_of(dtype); }
};

template <class T>
ReducedValues::Bytes bytes_of(const std::vector<T>& values) {
  ReducedValues::Bytes bytes(values.size() * sizeof(T));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const T value = values[i];
    std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
  }
  return bytes;
}

/// Any byte but 0 is true.
template <class T>
std::vector<T> elements_of(const ReducedValues::Bytes& bytes) {
  std::vector<T> all(bytes.size() / sizeof(T));
  for (std::size_t i = 0; i < all.size(); ++i) {
    if constexpr (std::same_as<T, bool>) {
      all[i] = bytes[i] != std::byte{0};
    } else {
      std::memcpy(&all[i], bytes.data() + i * sizeof(T), sizeof(T));
    }
  }
  return all;
}

template <class T>
T reduced(ReduceOp op, const std::vector<T>& column, const std::vector<T>& factors) {
  // AVG and PREMUL_SUM of bool have no meaning, and the reference does not know them.
  if constexpr (!std::same_as<T, bool>) {
    if (op == ReduceOp::premul_sum) {
      std::vector<T> products(column.size());
      for (std::size_t r = 0; r < column.size(); ++r)
        products[r] = kernels::testing::scaled<T>(column[r], factors[r]);
      return kernels::testing::tree<T>(ReduceOp::sum, products);
    }
    // "A group of one works: results are its own values", and the bits of its NaN.
    if (column.size() == 1) return column.front();
    if (op == ReduceOp::avg)
      return kernels::testing::average<T>(column, static_cast<std::int64_t>(column.size()));
  }
  return kernels::testing::tree<T>(op, column);
}

template <class T>
ElementRules element_rules() {
  ElementRules rules;
  rules.dtype = kernels::testing::dtype<T>();
  rules.odd = bytes_of(odd_values<T>());
  rules.draw = [](std::mt19937_64& random, std::byte* to) {
    const T one = kernels::testing::random_value<T>(random);
    std::memcpy(to, &one, sizeof(T));
  };
  rules.reduce = [](ReduceOp op, const ReducedValues::Bytes& values,
                    const ReducedValues::Bytes& factors, std::byte* to) {
    const T one = reduced<T>(op, elements_of<T>(values), elements_of<T>(factors));
    std::memcpy(to, &one, sizeof(T));
  };
  return rules;
}

/// Those of a dtype (reduced_values.cpp, for programs that link tutti_group_programs).
[[nodiscard]] ElementRules element_rules(DType dtype);

/// Of each rank: first every pair of odd values in the ranks 0 and 1 with others in the rest, then
/// random ones.
inline std::vector<ReducedValues::Bytes> reduced_rows(const ElementRules& rules, std::size_t count,
                                                      std::size_t ranks, std::mt19937_64& random) {
  const std::size_t n = rules.odd.size() / rules.size();
  std::vector<ReducedValues::Bytes> rows(ranks, ReducedValues::Bytes(count * rules.size()));
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t r = 0; r < ranks; ++r) {
      std::byte* const to = rows[r].data() + i * rules.size();
      const std::size_t at = r == 0 ? i : r == 1 ? i / n : i * (r + 1) + i / n * r;
      if (i < n * n)
        std::memcpy(to, rules.odd.data() + at % n * rules.size(), rules.size());
      else
        rules.draw(random, to);
    }
  }
  return rows;
}

/// Element i of the first `ranks` rows.
inline ReducedValues::Bytes reduced_column(const std::vector<ReducedValues::Bytes>& rows,
                                           std::size_t ranks, std::size_t i, std::size_t element) {
  ReducedValues::Bytes column;
  for (std::size_t r = 0; r < std::min(ranks, rows.size()); ++r) {
    const auto first = rows[r].begin() + static_cast<std::ptrdiff_t>(i * element);
    column.insert(column.end(), first, first + static_cast<std::ptrdiff_t>(element));
  }
  return column;
}

/// The results of one op over the first `ranks` rows.
inline ReducedValues::Bytes reduced_results(const ElementRules& rules, const ReducedValues& values,
                                            std::size_t ranks, ReduceOp op) {
  ReducedValues::Bytes results(values.count * rules.size());
  for (std::size_t i = 0; i < values.count; ++i)
    rules.reduce(op, reduced_column(values.inputs, ranks, i, rules.size()),
                 reduced_column(values.factors, ranks, i, rules.size()),
                 results.data() + i * rules.size());
  return results;
}

inline ReducedValues reduced_values(const ElementRules& rules, std::size_t count, int ranks,
                                    std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto n = static_cast<std::size_t>(ranks);
  ReducedValues values;
  values.dtype = rules.dtype;
  values.count = count;
  values.inputs = reduced_rows(rules, count, n, random);
  if (rules.dtype == DType::bool_) {
    for (ReducedValues::Bytes& row : values.inputs) {
      for (std::byte& one : row)
        one = static_cast<std::byte>(std::to_integer<unsigned>(one) * (1 + random() % 255));
    }
  }
  // In another order: else the pairs of odd values would meet themselves alone.
  const auto factors = reduced_rows(rules, count, n, random);
  values.factors.resize(n);
  std::vector<std::size_t> order(count);
  for (std::size_t i = 0; i < count; ++i) order[i] = i;
  std::shuffle(order.begin(), order.end(), random);
  for (const std::size_t i : order) {
    for (std::size_t r = 0; r < n; ++r) {
      const auto first = factors[r].begin() + static_cast<std::ptrdiff_t>(i * rules.size());
      values.factors[r].insert(values.factors[r].end(), first,
                               first + static_cast<std::ptrdiff_t>(rules.size()));
    }
  }
  for (int o = 0; o < kReduceOps; ++o) {
    const auto op = static_cast<ReduceOp>(o);
    if (kernels::is_supported(op, values.dtype))
      values.results[static_cast<std::size_t>(o)] = reduced_results(rules, values, n, op);
  }
  return values;
}
template <class T>
ReducedValues reduced_values(std::size_t count, int ranks, std::uint64_t seed) {
  return reduced_values(element_rules<T>(), count, ranks, seed);
}

/// The same of the first ranks only, with the result of one op.
template <class T>
ReducedValues of_first_ranks(const ReducedValues& all, std::size_t ranks, ReduceOp op) {
  ReducedValues values = all;
  values.inputs.resize(std::min(ranks, values.inputs.size()));
  values.factors.resize(std::min(ranks, values.factors.size()));
  values.results = {};
  values.results[static_cast<std::size_t>(op)] =
      reduced_results(element_rules<T>(), values, ranks, op);
  return values;
}

}  // namespace tutti::test
