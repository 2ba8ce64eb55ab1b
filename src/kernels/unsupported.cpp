#include "kernels/unsupported.hpp"

#include <tutti/backend/kinds.hpp>
#include "kernels/reduce.hpp"

namespace tutti::kernels {

std::string why_unsupported(const Collective& call, std::string_view backend) {
  const KindTraits& traits = traits_of(call.kind);
  const bool by_output = traits.layout == Layout::scatter || call.kind == Kind::recv;
  const TensorView& view = by_output ? call.output : call.input;
  if (view.device() != Device())
    return std::string("the ") + (by_output ? "output" : "input") + " is in the memory of " +
           to_string(view.device()) + ", and the backend '" + std::string(backend) +
           "' takes tensors in the memory of the CPU; copy it there first";
  if (traits.reduces && !is_supported(call.op, view.dtype()))
    return std::string(to_string(call.op)) + " of " + std::string(to_string(view.dtype())) +
           " has no meaning";
  return {};
}

}  // namespace tutti::kernels
