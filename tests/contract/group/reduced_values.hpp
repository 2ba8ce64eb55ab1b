#pragma once

#include <algorithm>
#include <array>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "kernels/reduce.hpp"
#include "unit/kernels/reduce_reference.hpp"

// Inputs of reductions that show every rule of docs/semantics.md, and the results by the reference
// of the kernels' tests.
namespace tutti::test {

inline constexpr int kReduceOps = 9;

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

/// What the ranks give, and what must come out of it, all as bytes.
struct ReducedValues {
  using Bytes = std::vector<std::byte>;
  DType dtype = DType::float32;
  std::size_t count = 0;
  std::vector<Bytes> inputs;  ///< by rank
  std::vector<Bytes>
      factors;  ///< by rank, one for each element; none where PREMUL_SUM has no meaning
  std::array<Bytes, kReduceOps> results;  ///< by op; empty where that has no meaning
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

/// First every pair of odd values in the ranks 0 and 1 with others in the rest, then random ones.
template <class T>
std::vector<std::vector<T>> reduced_columns(std::size_t count, std::size_t ranks,
                                            std::mt19937_64& random) {
  const std::vector<T> odd = odd_values<T>();
  const std::size_t n = odd.size();
  std::vector<std::vector<T>> columns(count, std::vector<T>(ranks));
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t r = 0; r < ranks; ++r) {
      const std::size_t at = r == 0 ? i : r == 1 ? i / n : i * (r + 1) + i / n * r;
      columns[i][r] = i < n * n ? odd[at % n] : kernels::testing::random_value<T>(random);
    }
  }
  return columns;
}

template <class T>
T reduced(ReduceOp op, const std::vector<T>& column, const std::vector<T>& factors) {
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
  return kernels::testing::tree<T>(op, column);
}

template <class T>
std::vector<ReducedValues::Bytes> rows_of(const std::vector<std::vector<T>>& columns) {
  std::vector<ReducedValues::Bytes> rows;
  for (std::size_t r = 0; r < columns.front().size(); ++r) {
    std::vector<T> row;
    for (const std::vector<T>& column : columns) row.push_back(column[r]);
    rows.push_back(bytes_of(row));
  }
  return rows;
}

template <class T>
ReducedValues reduced_values(std::size_t count, int ranks, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto n = static_cast<std::size_t>(ranks);
  const auto columns = reduced_columns<T>(count, n, random);
  auto factors = reduced_columns<T>(count, n, random);
  // Otherwise the pairs of odd values would meet themselves alone.
  std::shuffle(factors.begin(), factors.end(), random);
  ReducedValues values;
  values.dtype = kernels::testing::dtype<T>();
  values.count = count;
  values.inputs = rows_of(columns);
  if constexpr (std::same_as<T, bool>) {
    // Any byte but 0 is true.
    for (ReducedValues::Bytes& row : values.inputs) {
      for (std::byte& one : row)
        one = static_cast<std::byte>(std::to_integer<unsigned>(one) * (1 + random() % 255));
    }
  }
  values.factors = rows_of(factors);
  for (int o = 0; o < kReduceOps; ++o) {
    const auto op = static_cast<ReduceOp>(o);
    if (!kernels::is_supported(op, values.dtype)) continue;
    std::vector<T> results;
    if constexpr (std::same_as<T, bool>) {
      // AVG and PREMUL_SUM of bool have no meaning, and the reference does not know them.
      for (const auto& column : columns) results.push_back(kernels::testing::tree<T>(op, column));
    } else {
      for (std::size_t i = 0; i < count; ++i)
        results.push_back(reduced<T>(op, columns[i], factors[i]));
    }
    values.results[static_cast<std::size_t>(o)] = bytes_of(results);
  }
  return values;
}

/// The same of the first ranks only, with the result of one op.
template <class T>
ReducedValues of_first_ranks(const ReducedValues& all, std::size_t ranks, ReduceOp op) {
  ReducedValues values;
  values.dtype = all.dtype;
  values.count = all.count;
  const auto first = [&](const std::vector<ReducedValues::Bytes>& rows) {
    return std::vector(rows.begin(),
                       rows.begin() + static_cast<std::ptrdiff_t>(std::min(ranks, rows.size())));
  };
  values.inputs = first(all.inputs);
  values.factors = first(all.factors);
  const auto column = [](const std::vector<ReducedValues::Bytes>& rows, std::size_t i) {
    std::vector<T> elements;
    for (const ReducedValues::Bytes& row : rows) {
      T one{};
      if constexpr (std::same_as<T, bool>)
        one = row[i] != std::byte{0};
      else
        std::memcpy(&one, row.data() + i * sizeof(T), sizeof(T));
      elements.push_back(one);
    }
    return elements;
  };
  ReducedValues::Bytes& results = values.results[static_cast<std::size_t>(op)];
  for (std::size_t i = 0; i < values.count; ++i) {
    T result{};
    if constexpr (std::same_as<T, bool>)
      result = kernels::testing::tree<T>(op, column(values.inputs, i));
    else
      result = reduced<T>(op, column(values.inputs, i), column(values.factors, i));
    const auto* const bytes = reinterpret_cast<const std::byte*>(&result);
    results.insert(results.end(), bytes, bytes + sizeof(T));
  }
  return values;
}

}  // namespace tutti::test
