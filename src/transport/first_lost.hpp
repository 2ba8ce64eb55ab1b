#pragma once

#include <functional>
#include <optional>

#include <tutti/error.hpp>

// The store knows of lost ranks: a second source of blame beside the observations of this rank.
namespace tutti::transport {

/// Looks for the answer to a question. Does not block. Nothing: not yet; ok: nobody was lost;
/// peer_lost with its culprit; peer_left with that culprit: the peer that could not be reached has
/// left in peace all the same; anything else: it cannot be known.
using Question = std::function<std::optional<Status>()>;
/// Begins to ask which rank was lost first, on account of a peer that could not be reached. Does
/// not block.
using FirstLost = std::function<Question(int unreachable)>;

}  // namespace tutti::transport
