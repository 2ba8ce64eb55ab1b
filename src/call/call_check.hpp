#pragma once

#include <cstddef>
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

}  // namespace tutti::call
