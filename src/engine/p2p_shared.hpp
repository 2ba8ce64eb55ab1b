#pragma once

#include <cstdint>

#include "engine/completion_queue.hpp"
#include "engine/failure_detector.hpp"
#include "engine/failure_propagation.hpp"
#include "engine/message_channel.hpp"
#include "engine/world.hpp"

namespace tutti::engine {

/// State that the P2P matchers of all groups of a rank share.
struct P2PShared {
  const World& world;
  MessageChannel& channel;
  FailureDetector& detector;
  FailurePropagation& propagation;
  CompletionQueue& completions;
  std::uint64_t running = 0;  ///< sends and recvs that have not ended
};

}  // namespace tutti::engine
