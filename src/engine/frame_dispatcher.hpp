#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "engine/agreement.hpp"
#include "engine/failure_detector.hpp"
#include "engine/failure_propagation.hpp"
#include "engine/group_table.hpp"
#include "engine/lost_ranks.hpp"
#include "engine/message_channel.hpp"
#include "engine/operation_runner.hpp"
#include "engine/p2p_table.hpp"
#include "transport/frames.hpp"
#include "transport/transport.hpp"

namespace tutti::engine {

/// Receives the frames of all transports of this rank, finds the operation or the group of each
/// frame, and passes it to the part that it concerns. docs/design/wire.md has the rules.
///
/// Threads: none; under the driver lock.
class FrameDispatcher final : public transport::Sink {
 public:
  /// The parts that frames concern. All must stay as long as the dispatcher does.
  struct Parts {
    GroupTable& groups;
    MessageChannel& channel;
    FailurePropagation& propagation;
    FailureDetector& detector;
    LostRanks& lost;
    Agreement& agreement;
    OperationRunner& operations;
    P2PTable& p2p;
  };
  /// `transports`: the transport to each rank of the world; nullptr for ourselves.
  FrameDispatcher(std::span<transport::Transport* const> transports, const Parts& parts);

  /// Polls all transports. True: something moved.
  bool poll() noexcept;
  /// Each once.
  [[nodiscard]] const std::vector<transport::Transport*>& transports() const noexcept {
    return transports_;
  }

  // transport::Sink
  std::span<std::byte> on_header(int peer, const transport::FrameHeader& header) noexcept override;
  void on_frame(int peer, const transport::FrameHeader& header) noexcept override;
  bool on_short(int peer, const transport::ShortHead& head,
                const std::byte* payload) noexcept override;
  void on_sent(int peer, std::uint64_t token) noexcept override;
  void on_lost(int peer, const Outcome& why) noexcept override;

 private:
  [[nodiscard]] std::span<std::byte> place_of_frame(int peer, const transport::FrameHeader& header);
  [[nodiscard]] std::span<std::byte> place_of_data(int peer, const transport::FrameHeader& header);
  void handle_frame(int peer, const transport::FrameHeader& header);
  void keep_data(int peer, const transport::FrameHeader& header);
  void handle_control(int peer, const transport::FrameHeader& header);
  void handle_for_operation(int peer, const transport::FrameHeader& header);
  void handle_ping(int peer, const transport::PingFrame& ping);
  void handle_pong(Group& group, int rank, const transport::PongFrame& pong,
                   std::span<const std::byte> payload);

  Parts parts_;
  std::vector<transport::Transport*> transports_;
};

}  // namespace tutti::engine
