#include "kernels/pack.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "base/index.hpp"

namespace tutti::kernels {
namespace {

struct Dimension {
  std::int64_t size;
  std::int64_t stride;  // in bytes
};

/// The same elements in the same order in as few dimensions as possible; at least one.
struct Dimensions {
  std::array<Dimension, kMaxDims> dims;
  int count = 0;

  explicit Dimensions(const TensorView& view) noexcept {
    const auto element = static_cast<std::int64_t>(size_of(view.dtype()));
    for (int i = 0; i < view.dims(); ++i) {
      const auto at = base::as_size(i);
      add({view.shape()[at], view.strides()[at] * element});
    }
    if (count == 0) add_as_it_is({1, element});
  }

  [[nodiscard]] Dimension& operator[](int i) noexcept { return base::at(dims, i); }

 private:
  void add_as_it_is(Dimension dim) noexcept { (*this)[count++] = dim; }

  void add(Dimension inner) noexcept {
    if (inner.size == 1) return;
    if (count > 0) {
      Dimension& outer = (*this)[count - 1];
      if (outer.stride == inner.stride * inner.size) {
        outer = {outer.size * inner.size, inner.stride};
        return;
      }
    }
    add_as_it_is(inner);
  }
};

/// Where a walk over the elements stands: an index per dimension and the byte offset they add up
/// to.
class Walk {
 public:
  Walk(const Dimensions& dims, std::size_t first) noexcept : dims_(dims) {
    auto rest = static_cast<std::int64_t>(first);
    for (int i = dims_.count - 1; i >= 0; --i) {
      base::at(index_, i) = rest % dims_[i].size;
      offset_ += rest % dims_[i].size * dims_[i].stride;
      rest /= dims_[i].size;
    }
  }

  [[nodiscard]] std::int64_t offset() const noexcept { return offset_; }
  [[nodiscard]] std::int64_t stride() noexcept { return last().stride; }
  /// Elements until the innermost dimension ends.
  [[nodiscard]] std::int64_t run() noexcept { return last().size - index_[inner()]; }

  /// From the start or the middle of the innermost dimension to the start of the next one.
  void next_run() noexcept {
    offset_ -= index_[inner()] * last().stride;
    index_[inner()] = 0;
    for (int i = dims_.count - 2; i >= 0; --i) {
      const Dimension& dim = dims_[i];
      std::int64_t& index = base::at(index_, i);
      offset_ += dim.stride;
      if (++index < dim.size) return;
      offset_ -= dim.size * dim.stride;
      index = 0;
    }
  }

 private:
  [[nodiscard]] Dimension& last() noexcept { return dims_[dims_.count - 1]; }
  [[nodiscard]] std::size_t inner() const noexcept { return base::as_size(dims_.count - 1); }

  Dimensions dims_;
  std::array<std::int64_t, kMaxDims> index_{};
  std::int64_t offset_ = 0;
};

/// A run of elements that do not lie next to each other.
template <std::size_t kSize>
void move_run(std::byte* dst, std::int64_t dst_stride, const std::byte* src,
              std::int64_t src_stride, std::int64_t count) noexcept {
  for (std::int64_t i = 0; i < count; ++i)
    std::memcpy(dst + i * dst_stride, src + i * src_stride, kSize);
}

using MoveRun = void (*)(std::byte*, std::int64_t, const std::byte*, std::int64_t,
                         std::int64_t) noexcept;

MoveRun move_run_of(std::size_t element) noexcept {
  switch (element) {
    case 1: return &move_run<1>;
    case 2: return &move_run<2>;
    case 4: return &move_run<4>;
    case 8: return &move_run<8>;
    default: return &move_run<16>;
  }
}

/// Calls visit(offset in the view, stride in bytes, position in contiguous memory, elements).
template <class Visit>
void for_each_run(const TensorView& view, std::size_t first, std::size_t count,
                  const Visit& visit) noexcept {
  Walk walk(Dimensions(view), first);
  for (std::size_t done = 0; done < count;) {
    const std::size_t run = std::min(base::as_size(walk.run()), count - done);
    visit(walk.offset(), walk.stride(), done, static_cast<std::int64_t>(run));
    walk.next_run();
    done += run;
  }
}

}  // namespace

void pack(void* dst, const TensorView& src, std::size_t first, std::size_t count) noexcept {
  if (count == 0) return;
  const std::size_t size = size_of(src.dtype());
  const auto element = static_cast<std::int64_t>(size);
  const auto* from = static_cast<const std::byte*>(src.data());
  auto* to = static_cast<std::byte*>(dst);
  if (src.contiguous()) {
    std::memcpy(to, from + first * size, count * size);
    return;
  }
  const MoveRun move = move_run_of(size);
  for_each_run(src, first, count,
               [&](std::int64_t offset, std::int64_t stride, std::size_t at, std::int64_t run) {
                 if (stride == element) {
                   std::memcpy(to + at * size, from + offset, base::as_size(run) * size);
                 } else {
                   move(to + at * size, element, from + offset, stride, run);
                 }
               });
}

void unpack(const TensorView& dst, std::size_t first, std::size_t count, const void* src) noexcept {
  if (count == 0) return;
  const std::size_t size = size_of(dst.dtype());
  const auto element = static_cast<std::int64_t>(size);
  const auto* from = static_cast<const std::byte*>(src);
  auto* to = static_cast<std::byte*>(dst.data());
  if (dst.contiguous()) {
    std::memcpy(to + first * size, from, count * size);
    return;
  }
  const MoveRun move = move_run_of(size);
  for_each_run(dst, first, count,
               [&](std::int64_t offset, std::int64_t stride, std::size_t at, std::int64_t run) {
                 if (stride == element) {
                   std::memcpy(to + offset, from + at * size, base::as_size(run) * size);
                 } else {
                   move(to + offset, stride, from + at * size, element, run);
                 }
               });
}

}  // namespace tutti::kernels
