#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <complex>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "kernels/cpu_target.hpp"
#include "kernels/reduce.hpp"
#include "support/sanitized.hpp"
#include "unit/kernels/reduce_reference.hpp"

namespace tutti::kernels::testing {

/// Every CPU target that this CPU can run, one after the other.
class ForEachTarget {
 public:
  template <class Body>
  static void run(const Body& body) {
    const CpuTarget best = chosen_target();
    for (const CpuTarget target :
         {CpuTarget::baseline, CpuTarget::sve, CpuTarget::avx2, CpuTarget::avx3}) {
      if (!runs(target)) continue;
      choose_target(target);
      SCOPED_TRACE("CPU target " + std::to_string(static_cast<int>(target)));
      body();
    }
    choose_target(best);
  }
};

using Row = std::vector<std::byte>;

/// What the tests know of a dtype: values to try, and what becomes of them. Elements are bytes, so
/// that one test serves all dtypes, and little is compiled once for each.
struct Reference {
  DType dtype;
  std::size_t size;
  void (*fill)(std::mt19937_64& random, Row& row);
  Row (*reduced)(ReduceOp op, const std::vector<Row>& rows);
  Row (*averaged)(std::int64_t divisor, const std::vector<Row>& rows);
  Row (*scaled)(const Row& values, const Row& factors);  ///< one factor, or one for each value
};

template <class T>
T load(const Row& row, std::size_t i) {
  T value;
  std::memcpy(&value, row.data() + i * sizeof(T), sizeof value);
  return value;
}

template <class T>
void store(Row& row, std::size_t i, T value) {
  std::memcpy(row.data() + i * sizeof(T), &value, sizeof value);
}

/// `wanted` of the values of each element.
template <class T, class Wanted>
Row by_columns(const std::vector<Row>& rows, const Wanted& wanted) {
  Row result(rows[0].size());
  std::vector<T> column(rows.size());
  for (std::size_t i = 0; i < result.size() / sizeof(T); ++i) {
    for (std::size_t j = 0; j < rows.size(); ++j) column[j] = load<T>(rows[j], i);
    store<T>(result, i, wanted(column));
  }
  return result;
}

template <class T>
Reference reference() {
  return {dtype<T>(),
          sizeof(T),
          [](std::mt19937_64& random, Row& row) {
            for (std::size_t i = 0; i < row.size() / sizeof(T); ++i)
              store<T>(row, i, random_value<T>(random));
          },
          [](ReduceOp op, const std::vector<Row>& rows) {
            return by_columns<T>(rows, [&](const std::vector<T>& c) { return tree<T>(op, c); });
          },
          [](std::int64_t divisor, const std::vector<Row>& rows) {
            // A mean of truth values has no meaning.
            if constexpr (std::same_as<T, bool>)
              return Row();
            else
              return by_columns<T>(rows,
                                   [&](const std::vector<T>& c) { return average<T>(c, divisor); });
          },
          [](const Row& values, const Row& factors) {
            Row result(values.size());
            for (std::size_t i = 0; i < values.size() / sizeof(T); ++i) {
              const T factor = load<T>(factors, factors.size() == sizeof(T) ? 0 : i);
              store<T>(result, i, scaled<T>(load<T>(values, i), factor));
            }
            return result;
          }};
}

template <class... T>
std::vector<Reference> references_of() {
  return {reference<T>()...};
}

/// Of all dtypes, bool first.
inline const std::vector<Reference>& references() {
  static const std::vector<Reference> all =
      references_of<bool, std::uint8_t, std::int8_t, std::uint16_t, std::int16_t, std::uint32_t,
                    std::int32_t, std::uint64_t, std::int64_t, float, double, Half, Brain, E4M3,
                    E5M2, std::complex<float>, std::complex<double>>();
  return all;
}

inline std::string name_of(const ::testing::TestParamInfo<Reference>& one) {
  return std::string(to_string(one.param.dtype));
}
inline void PrintTo(const Reference& one, std::ostream* out) { *out << to_string(one.dtype); }

/// Source arrays and the output, each at its own misalignment with guards around it. Under a
/// sanitizer the memory ends with the last element, so that it sees reads beyond, too.
class Arrays {
 public:
  Arrays(const Reference& of, int k, std::size_t count, std::mt19937_64& random, bool aligned)
      : of_(of), count_(count), rows_(static_cast<std::size_t>(k), Row(count * of.size)) {
    for (Row& row : rows_) {
      of.fill(random, row);
      places_.push_back(place(random, aligned));
      std::copy(row.begin(), row.end(), places_.back().data());
    }
    dst_ = place(random, aligned);
    for (Place& p : places_) sources_.push_back(p.data());
  }

  [[nodiscard]] const std::vector<Row>& rows() const noexcept { return rows_; }

  /// Calls and compares: every bit of the result, the guards, the sources. `alias` >= 0 makes that
  /// source the output.
  void check(ReduceFn reduce, ReduceOp op, int alias = -1) {
    check_call(reduce, of_.reduced(op, rows_), alias);
  }

  /// The same for any `call` like a ReduceFn; `wanted`: its result.
  template <class Call>
  void check_call(const Call& call, const Row& wanted, int alias = -1) {
    Place& out = alias < 0 ? dst_ : places_[static_cast<std::size_t>(alias)];
    call(out.data(), sources_.data(), static_cast<int>(sources_.size()), count_);
    check_place(out, wanted);
    for (std::size_t j = 0; j < places_.size(); ++j) {
      if (static_cast<int>(j) != alias) check_place(places_[j], rows_[j]);
    }
  }

 private:
  static constexpr std::size_t kGuard = 64;
  static constexpr std::size_t kGuardBehind = test::kSanitized ? 0 : kGuard;
  static constexpr std::byte kGuardByte{0xa5};

  struct Place {
    Row bytes;
    std::size_t start = 0;
    [[nodiscard]] std::byte* data() { return bytes.data() + start; }
  };

  [[nodiscard]] Place place(std::mt19937_64& random, bool aligned) const {
    const std::size_t start = kGuard + (aligned ? random() % 8 * of_.size : random() % 67);
    return {Row(start + count_ * of_.size + kGuardBehind, kGuardByte), start};
  }

  void check_place(Place& found, const Row& values) const {
    Place wanted{Row(found.bytes.size(), kGuardByte), found.start};
    std::copy(values.begin(), values.end(), wanted.data());
    if (found.bytes == wanted.bytes) return;
    std::size_t at = 0;
    while (found.bytes[at] == wanted.bytes[at]) ++at;
    ADD_FAILURE() << "byte " << at << " is wrong; elements start at " << found.start << ", count "
                  << count_ << ", k " << rows_.size();
  }

  const Reference& of_;
  std::size_t count_;
  std::vector<Row> rows_;
  std::vector<Place> places_;
  Place dst_;
  std::vector<const void*> sources_;
};

}  // namespace tutti::kernels::testing
