#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include <tutti/backend/collective.hpp>

namespace tutti::call {

/// Describes the mistake in a call, for people; empty: none. Looks at this rank's arguments only:
/// what ranks must agree about is compared on the way. `call` is whole, but for the backend's
/// opinion.
[[nodiscard]] std::string what_is_wrong(const Collective& call, int rank, int size);

/// The text for a count, in the caller's elements, that is more than the tensor has.
[[nodiscard]] std::string text_of_large_count(std::string_view side, std::size_t count,
                                              const ConstTensorView& tensor);

/// The mistake in the counts of a tensor's blocks; empty: none. A count is a number of elements of
/// the caller's (structs), or, if not `of_callers`, of the tensor's.
[[nodiscard]] std::string what_is_wrong_with_counts(std::span<const std::size_t> counts,
                                                    bool of_callers, std::string_view side,
                                                    const TensorView& tensor, int size);

}  // namespace tutti::call
