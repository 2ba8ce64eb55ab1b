#pragma once

#include <string>

#include <tutti/collective.hpp>

namespace tutti {

/// Describes the mistake in a call, for people; empty: none. Looks at this rank's arguments only:
/// what ranks must agree about is compared on the way. `call` is whole, but for the backend's
/// opinion.
[[nodiscard]] std::string what_is_wrong(const Collective& call, int rank, int size);

}  // namespace tutti
