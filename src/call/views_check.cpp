#include "call/views_check.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "base/format.hpp"
#include "base/index.hpp"

namespace tutti::call {
namespace {

/// Two places in a view whose elements are the same: a step that is not nothing and leads nowhere.
class Collision {
 public:
  explicit Collision(const TensorView& view) noexcept {
    for (std::size_t d = 0; d < view.shape().size(); ++d) {
      if (view.shape()[d] < 2) continue;
      const std::int64_t stride = std::abs(std::clamp(view.strides()[d], -kFar, kFar));
      // In the order of the strides: there are few.
      std::size_t at = base::as_size(count_++);
      for (; at > 0 && dims_[at - 1].stride > stride; --at) dims_[at] = dims_[at - 1];
      dims_[at] = {stride, view.shape()[d] - 1};
    }
    for (int d = 0; d < count_; ++d) {
      Dim& dim = base::at(dims_, d);
      // The sum of the narrower dimensions. In slices, transposed and turned views it is never
      // enough.
      dim.below = d == 0 ? 0 : reach(d - 1);
    }
  }
  [[nodiscard]] bool exists() noexcept { return search(count_ - 1, 0, false); }

 private:
  struct Dim {
    std::int64_t stride = 0;
    std::int64_t most = 0;   ///< steps
    std::int64_t below = 0;  ///< how far the dimensions before it lead
  };

  [[nodiscard]] std::int64_t reach(int d) const noexcept {
    const Dim& dim = base::at(dims_, d);
    if (dim.stride > 0 && dim.most > (kFar - dim.below) / dim.stride) return kFar;
    return dim.below + dim.most * dim.stride;
  }

  /// Can dimensions 0 to d lead from `away` to 0, by some step where none was `taken` yet?
  bool search(int d, std::int64_t away, bool taken) noexcept {
    if (d < 0) return taken && away == 0;
    const Dim& dim = base::at(dims_, d);
    if (dim.stride == 0) return away == 0;  // it is the first, and a step of it changes nothing
    // Only as far as those below can make up for. The sign of the first step makes no difference.
    const std::int64_t low = std::max(-dim.most, -((away + dim.below) / dim.stride));
    const std::int64_t high = std::min(dim.most, (dim.below - away) / dim.stride);
    for (std::int64_t step = taken ? low : 0; step <= high; ++step) {
      if (++looked_at_ > kMostSteps) return true;
      if (search(d - 1, away + step * dim.stride, taken || step != 0)) return true;
    }
    return false;
  }

  // Only dimensions that are woven into each other in an odd way take so many, and then nobody
  // knows: it counts as an overlap.
  static constexpr int kMostSteps = 1 << 14;
  /// No memory is so large; sums of two of it can be told.
  static constexpr std::int64_t kFar = std::int64_t{1} << 61;
  std::array<Dim, kMaxDims> dims_;
  int count_ = 0;
  int looked_at_ = 0;
};

}  // namespace

bool overlaps_itself(const TensorView& view) noexcept {
  return !view.contiguous() && view.count() > 0 && Collision(view).exists();
}

std::string check_alike(const TensorView& view, std::string_view name, const TensorView& like) {
  if (view.dtype() != like.dtype())
    return base::format("the {} is {}, not {}; all tensors of a call must have one dtype", name,
                        to_string(view.dtype()), to_string(like.dtype()));
  if (!view.alike(like))
    return base::format(
        "the {} is in the memory of {}, not of {}; all tensors of a call must be on one device",
        name, to_string(view.device()), to_string(like.device()));
  return {};
}

std::string check_memory(const TensorView& view, std::string_view name, bool written) {
  if (view.count() > 0 && view.data() == nullptr)
    return base::format("the {} has no memory (a null pointer)", name);
  if (written && overlaps_itself(view))
    return base::format(
        "the {} has strides by which several elements share memory (a stride of 0, or rows that "
        "overlap); copy it first: the other ranks wait in this operation for this one",
        name);
  return {};
}

}  // namespace tutti::call
