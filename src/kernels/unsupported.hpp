#pragma once

#include <string>
#include <string_view>

#include <tutti/backend/collective.hpp>

namespace tutti::kernels {

/// Why the kernels cannot do this call: its tensors are not in the memory of the CPU, or the reduce
/// op has no meaning for the dtype. Empty: they can. `backend`: whose kernels they are, for the
/// text.
[[nodiscard]] std::string why_unsupported(const Collective& call, std::string_view backend);

}  // namespace tutti::kernels
