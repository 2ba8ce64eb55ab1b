#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <vector>

#include "unit/kernels/reduce_reference.hpp"

// What a reduction may give whose order of operands is left open.
namespace tutti::test {

/// Equal to the last bit; of a NaN it does not matter which.
template <class T>
bool same_value(T a, T b) {
  namespace reference = kernels::testing;
  if constexpr (reference::Complex<T>) {
    return same_value(a.real(), b.real()) && same_value(a.imag(), b.imag());
  } else if constexpr (reference::Narrow<T>) {
    return a.bits == b.bits || (std::isnan(reference::widen(a)) && std::isnan(reference::widen(b)));
  } else if constexpr (std::floating_point<T>) {
    return std::memcmp(&a, &b, sizeof(T)) == 0 || (std::isnan(a) && std::isnan(b));
  } else {
    return a == b;
  }
}

/// Two values combined and rounded, as a step of MPI's does it.
template <class T>
T step(ReduceOp op, T a, T b) {
  namespace reference = kernels::testing;
  if constexpr (reference::Narrow<T>)
    return reference::narrowed<T>(
        reference::combine<float>(op, reference::widen(a), reference::widen(b)));
  else
    return reference::combine<T>(op, a, b);
}

/// All results of the values in every order, put together two by two, each step rounded.
template <class T>
std::vector<T> in_any_order(ReduceOp op, const std::vector<T>& values) {
  const std::size_t all = (std::size_t{1} << values.size()) - 1;
  std::vector<std::vector<T>> of(all + 1);  // by the set of values that are in it
  for (std::size_t set = 1; set <= all; ++set) {
    if (std::has_single_bit(set)) {
      of[set] = {values[static_cast<std::size_t>(std::countr_zero(set))]};
      continue;
    }
    for (std::size_t part = (set - 1) & set; part > (set ^ part); part = (part - 1) & set) {
      for (const T& a : of[part]) {
        for (const T& b : of[set ^ part]) {
          const T result = step<T>(op, a, b);
          const auto same = [&](const T& known) { return same_value(known, result); };
          if (std::none_of(of[set].begin(), of[set].end(), same)) of[set].push_back(result);
        }
      }
    }
  }
  return of[all];
}

}  // namespace tutti::test
