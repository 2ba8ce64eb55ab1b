#include "group/views_check.hpp"

#include <cstddef>

namespace tutti {

bool overlaps_itself(const TensorView& view) noexcept {
  if (view.contiguous()) return false;
  for (std::size_t d = 0; d < view.shape().size(); ++d) {
    if (view.shape()[d] > 1 && view.strides()[d] == 0) return true;
  }
  return false;
}

std::string check_memory(const TensorView& view, std::string_view name, bool written) {
  if (view.count() > 0 && view.data() == nullptr)
    return "the " + std::string(name) + " has no memory (a null pointer)";
  if (written && overlaps_itself(view))
    return "the " + std::string(name) +
           " has a stride of 0, so several elements share memory; copy it first";
  return {};
}

}  // namespace tutti
