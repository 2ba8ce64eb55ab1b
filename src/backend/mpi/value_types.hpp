#pragma once

#include <array>
#include <optional>

#include <tutti/arguments.hpp>
#include <tutti/dtype.hpp>
#include <tutti/error.hpp>

#include "backend/mpi/api.hpp"

namespace tutti::mpi {

/// The type and operation by which MPI gets a reduction.
struct ReductionTypes {
  Type type{};
  Op op{};
};

/// The types and operations of the library for our dtypes and reduce ops; each is made at its first
/// use and kept as long as the process.
///
/// Threads: one at a time.
class ValueTypes {
 public:
  explicit ValueTypes(Api& api) : api_(api) {}

  /// For AVG and PREMUL_SUM those of SUM: `prepare` multiplies, and `finish` divides.
  [[nodiscard]] int reduction(ReduceOp op, DType dtype, ReductionTypes& types) noexcept;

 private:
  [[nodiscard]] int type_of(DType dtype, Type& type) noexcept;

  Api& api_;
  std::array<std::optional<Type>, kDTypeCount> types_;
  std::array<std::array<std::optional<Op>, kDTypeCount>, kReduceOpCount> ops_;
};

}  // namespace tutti::mpi
