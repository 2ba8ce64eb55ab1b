#pragma once

#include <cstdint>

#include "engine/completion_queue.hpp"
#include "engine/message_channel.hpp"

namespace tutti::engine {

/// What the P2P matchers of all groups of a rank share.
struct P2PShared {
  MessageChannel& channel;
  CompletionQueue& completions;
  std::uint64_t running = 0;  ///< sends and recvs that have not ended
};

}  // namespace tutti::engine
