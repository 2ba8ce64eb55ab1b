#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <tutti/error.hpp>

#include "engine/clock.hpp"
#include "engine/failure_detector.hpp"
#include "engine/group.hpp"
#include "engine/group_table.hpp"
#include "engine/message_channel.hpp"
#include "engine/world.hpp"
#include "transport/frames.hpp"

namespace tutti::engine {

/// Before this rank reports that another one does not answer, asks ranks of third hosts whether
/// they still reach it, and answers such questions. So the error says whether a host is gone or
/// only the way between two hosts is cut.
///
/// Threads: none; under the driver lock.
class LossInquiry {
 public:
  /// A rank of the world that is lost, and the reason; it says what others have answered.
  struct Loss {
    int peer = 0;
    Outcome why;
  };

  /// All must stay as long as this does.
  LossInquiry(const World& world, const GroupTable& groups, MessageChannel& channel,
              FailureDetector& detector) noexcept
      : world_(world), groups_(groups), channel_(channel), detector_(detector) {}

  /// Asks. False: there is nobody to ask, so the rank is lost now.
  [[nodiscard]] bool begin(int peer, const Outcome& why);
  /// A rank of the group asks whether we reach another one.
  void on_ping(const Group& group, int asker, const transport::PingFrame& ping);
  /// A rank of the group has answered our ping: tells those that have asked about that rank.
  void on_pong(const Group& group, int rank);
  /// A rank of the group says that it reaches another one. Returns the loss of that one, if its
  /// inquiry is open.
  [[nodiscard]] std::optional<Loss> on_reached(const Group& group, int rank,
                                               const transport::PongFrame& pong);
  /// Returns a loss about which nobody has answered in time.
  [[nodiscard]] std::optional<Loss> take_due(TimePoint now);

 private:
  struct Open {
    Loss loss;
    TimePoint until{};
  };
  struct Question {
    std::uint64_t group = 0;
    int asker = 0;  ///< ranks of the group
    int about = 0;
    TimePoint asked{};
  };

  const World& world_;
  const GroupTable& groups_;
  MessageChannel& channel_;
  FailureDetector& detector_;
  std::vector<Open> open_;
  std::vector<Question> questions_;  ///< of others, who wait for kWitnessTime
};

}  // namespace tutti::engine
