#pragma once

#include "kernels/reduce_targets.hpp"  // before Highway: the same targets as the kernels
//
#include <gtest/gtest.h>
#include <hwy/highway.h>

#include <cstddef>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "kernels/reduce.hpp"
#include "unit/kernels/reduce_reference.hpp"

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

namespace tutti::kernels::testing {

/// Every CPU target that this CPU can run, one after the other.
class ForEachTarget {
 public:
  template <class Body>
  static void run(const Body& body) {
    for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
      choose(target);
      SCOPED_TRACE(hwy::TargetName(target));
      body();
    }
    choose(0);
  }

 private:
  static void choose(std::int64_t target) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
};

/// Source arrays and the output, each at its own misalignment with guards around it.
template <class T>
class Arrays {
 public:
  Arrays(int k, std::size_t count, std::mt19937_64& random, bool aligned)
      : count_(count), values_(static_cast<std::size_t>(k), std::vector<T>(count)) {
    for (auto& row : values_) {
      for (std::size_t i = 0; i < count; ++i) row[i] = random_value<T>(random);
      places_.push_back(place(random, aligned));
      write(places_.back(), row);
    }
    dst_ = place(random, aligned);
    for (Place& p : places_) sources_.push_back(p.data());
  }

  /// Calls and compares: every bit of the result, the guards, the sources. `alias` >= 0 makes that
  /// source the output.
  void check(ReduceFn reduce, ReduceOp op, int alias = -1) {
    check_call(
        reduce, [&](const std::vector<T>& column) { return tree<T>(op, column); }, alias);
  }

  /// The same for any `call` like a ReduceFn; `wanted` says what becomes of the values of an
  /// element.
  template <class Call, class Wanted>
  void check_call(const Call& call, const Wanted& wanted, int alias = -1) {
    Place& out = alias < 0 ? dst_ : places_[static_cast<std::size_t>(alias)];
    call(out.data(), sources_.data(), static_cast<int>(sources_.size()), count_);
    check_place(out, expected(wanted));
    for (std::size_t j = 0; j < places_.size(); ++j) {
      if (static_cast<int>(j) != alias) check_place(places_[j], values_[j]);
    }
  }

 private:
  static constexpr std::size_t kGuard = 64;
  static constexpr std::byte kGuardByte{0xa5};

  struct Place {
    std::vector<std::byte> bytes;
    std::size_t start = 0;
    [[nodiscard]] std::byte* data() { return bytes.data() + start; }
  };

  [[nodiscard]] Place place(std::mt19937_64& random, bool aligned) const {
    const std::size_t start = kGuard + (aligned ? random() % 8 * sizeof(T) : random() % 67);
    return {std::vector<std::byte>(start + count_ * sizeof(T) + kGuard, kGuardByte), start};
  }

  static void write(Place& to, const std::vector<T>& row) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      const T value = row[i];
      std::memcpy(to.data() + i * sizeof(T), &value, sizeof value);
    }
  }

  template <class Wanted>
  [[nodiscard]] std::vector<T> expected(const Wanted& wanted) const {
    std::vector<T> result(count_);
    std::vector<T> column(values_.size());
    for (std::size_t i = 0; i < count_; ++i) {
      for (std::size_t j = 0; j < values_.size(); ++j) column[j] = values_[j][i];
      result[i] = wanted(column);
    }
    return result;
  }

  void check_place(Place& found, const std::vector<T>& values) const {
    Place wanted{std::vector<std::byte>(found.bytes.size(), kGuardByte), found.start};
    write(wanted, values);
    if (found.bytes == wanted.bytes) return;
    std::size_t at = 0;
    while (found.bytes[at] == wanted.bytes[at]) ++at;
    ADD_FAILURE() << "byte " << at << " is wrong; elements start at " << found.start << ", count "
                  << count_ << ", k " << values_.size();
  }

  std::size_t count_;
  std::vector<std::vector<T>> values_;
  std::vector<Place> places_;
  Place dst_;
  std::vector<const void*> sources_;
};

struct TypeName {
  template <class T>
  static std::string GetName(int) {
    return std::string(to_string(dtype<T>()));
  }
};

#if defined(__SSE2__)

/// While it lives, this thread computes in other modes than usual.
class OddMode {
 public:
  explicit OddMode(unsigned mode) : saved_(_mm_getcsr()) { _mm_setcsr(saved_ | mode); }
  ~OddMode() { _mm_setcsr(saved_); }
  OddMode(const OddMode&) = delete;
  OddMode& operator=(const OddMode&) = delete;

 private:
  unsigned saved_;
};

#endif

}  // namespace tutti::kernels::testing
