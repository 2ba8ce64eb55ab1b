#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <tutti/backend/collective.hpp>

// Reduce ops of the caller's. Their reductions are made of operations that move; these carry an id
// of the op as `Collective::digest`, so that ranks with different ops disagree.
namespace tutti::call {

/// The id of an op in reductions of one kind: never 0, never the digest of blocks or of several
/// tensors. Remembers its name for texts. Any thread.
[[nodiscard]] std::uint64_t user_op_id(Kind kind, std::string_view name, std::size_t block);

/// True if that digest is such an id.
[[nodiscard]] constexpr bool is_user_op(std::uint64_t digest) noexcept { return (digest & 7) == 4; }

/// "all_reduce with the op 'name'": of an op that this process has made, whoever uses it.
[[nodiscard]] std::string describe_user_op(std::uint64_t id);

}  // namespace tutti::call
