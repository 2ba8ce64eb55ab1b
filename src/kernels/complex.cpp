#include "kernels/complex.hpp"

#include <cstring>
#include <limits>

namespace tutti::kernels {
namespace {

// Not std::complex, whose product repairs infinities and says nothing of the order of operations.
template <class T>
struct Number {
  T real;
  T imaginary;

  static Number load(const void* from, std::size_t i) {
    Number value;
    std::memcpy(&value, static_cast<const std::byte*>(from) + i * sizeof value, sizeof value);
    return value;
  }

  void store(void* to, std::size_t i) const {
    std::memcpy(static_cast<std::byte*>(to) + i * sizeof *this, this, sizeof *this);
  }

  friend Number operator*(Number x, Number y) {
    // The library is compiled without contraction: four products, each rounded.
    return {x.real * y.real - x.imaginary * y.imaginary,
            x.real * y.imaginary + x.imaginary * y.real};
  }

  [[nodiscard]] Number settled() const { return {settled(real), settled(imaginary)}; }

 private:
  static T settled(T value) { return value != value ? std::numeric_limits<T>::quiet_NaN() : value; }
};

template <class T>
void multiply(void* dst, const void* const* sources, int k, std::size_t count) {
  if (k == 1) {
    if (count > 0) std::memmove(dst, sources[0], count * sizeof(Number<T>));
    return;
  }
  for (std::size_t i = 0; i < count; ++i) {
    Number<T> values[8];
    for (int j = 0; j < k; ++j) values[j] = Number<T>::load(sources[j], i);
    for (int d = 1; d < k; d *= 2) {
      for (int j = 0; j + d < k; j += 2 * d) values[j] = values[j] * values[j + d];
    }
    values[0].settled().store(dst, i);
  }
}

template <class T>
void scale(void* dst, const void* src, const void* factor, bool factor_for_each,
           std::size_t count) {
  if (count == 0) return;
  const auto one = Number<T>::load(factor, 0);
  for (std::size_t i = 0; i < count; ++i) {
    const Number<T> by = factor_for_each ? Number<T>::load(factor, i) : one;
    (Number<T>::load(src, i) * by).settled().store(dst, i);
  }
}

}  // namespace

ReduceFn find_complex_product(DType dtype) noexcept {
  if (dtype == DType::complex64) return &multiply<float>;
  if (dtype == DType::complex128) return &multiply<double>;
  return nullptr;
}

ScaleFn find_complex_scale(DType dtype) noexcept {
  if (dtype == DType::complex64) return &scale<float>;
  if (dtype == DType::complex128) return &scale<double>;
  return nullptr;
}

}  // namespace tutti::kernels
