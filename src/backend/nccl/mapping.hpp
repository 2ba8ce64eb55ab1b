#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include <tutti/arguments.hpp>
#include <tutti/backend/collective.hpp>

#include "backend/nccl/api.hpp"

namespace tutti::nccl {

/// A reduction as NCCL gets it.
struct Reduction {
  Type type = Type::uint8;
  std::size_t per_element = 1;  ///< numbers of that type in an element: 2 of complex ones
  std::optional<Op> op;         ///< absent: PREMUL_SUM, made for each call
};

/// The type and op of a reduction; absent: NCCL has none for it.
[[nodiscard]] std::optional<Reduction> reduction_of(ReduceOp op, DType dtype, int version) noexcept;

/// Why NCCL cannot do this call; empty: it can. Elements that are only moved may be of any dtype.
[[nodiscard]] std::string why_unsupported(const Collective& call, int version);

}  // namespace tutti::nccl
