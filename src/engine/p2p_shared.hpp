#pragma once

#include <cstdint>

#include "engine/completion_queue.hpp"
#include "engine/failure_detector.hpp"
#include "engine/failure_propagation.hpp"
#include "engine/message_channel.hpp"
#include "engine/operation.hpp"
#include "engine/stall_reporter.hpp"
#include "engine/world.hpp"

namespace tutti::engine {

/// Tickets of sends and recvs have their top bit set; others number the operations of a group.
[[nodiscard]] constexpr bool is_p2p(std::uint64_t ticket) noexcept { return ticket >> 63 != 0; }

/// The ticket of a send or recv that a broken group has refused.
inline constexpr std::uint64_t kRefusedTicket = ~std::uint64_t{0};

/// The ticket of an operation that has succeeded in its call. Nothing is left to be waited for or
/// released.
inline constexpr std::uint64_t kDoneTicket = std::uint64_t{1} << 63 | 0xffffff;

/// State that the P2P matchers of all groups of a rank share.
struct P2PShared {
  const World& world;
  MessageChannel& channel;
  FailureDetector& detector;
  StallReporter& stalls;
  FailurePropagation& propagation;
  CompletionQueue& completions;
  std::uint64_t running = 0;  ///< sends and recvs that have not ended
  std::uint64_t large = 0;    ///< those of at least kLargeBytes
};

}  // namespace tutti::engine
