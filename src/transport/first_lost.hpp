#pragma once

#include <functional>
#include <optional>

#include <tutti/error.hpp>

// The store knows of lost ranks: a second source of blame beside the observations of this rank.
namespace tutti::transport {

/// Looks for the answer to a question. Does not block. Nothing: there is no answer yet. ok: no rank
/// was lost, and the unreachable peer has left gracefully. refused: the same, but for the store the
/// peer still runs, as the text says. peer_lost: its culprit was lost first. peer_left: the same,
/// but the unreachable peer has left gracefully. Any other error: the answer cannot be known.
using Question = std::function<std::optional<Outcome>()>;
/// Begins to ask which rank was lost first, because the peer `unreachable` could not be reached.
/// Does not block.
using FirstLost = std::function<Question(int unreachable)>;

}  // namespace tutti::transport
