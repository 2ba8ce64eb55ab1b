#pragma once

#include <cstdint>
#include <vector>

#include <tutti/error.hpp>

#include "engine/clock.hpp"
#include "engine/failure_detector.hpp"
#include "engine/failure_propagation.hpp"
#include "engine/group.hpp"
#include "engine/group_table.hpp"
#include "engine/message_channel.hpp"
#include "engine/world.hpp"
#include "transport/frames.hpp"

namespace tutti::engine {

/// Decides when a rank of the world counts as lost, and breaks its groups. If a rank does not
/// answer, it first asks ranks of third hosts whether they still reach that one, and it answers
/// such questions. So the error says whether a host is gone or only the way between two hosts is
/// cut.
///
/// Threads: none; under the driver lock.
class LostRanks {
 public:
  /// All must stay as long as this does.
  LostRanks(const World& world, const GroupTable::ById& groups, MessageChannel& channel,
            FailureDetector& detector, FailurePropagation& propagation) noexcept
      : world_(world),
        groups_(groups),
        channel_(channel),
        detector_(detector),
        propagation_(propagation) {}

  // Events.
  /// The connection to a rank has ended (Sink::on_lost). `may_ask`: ticks come, and one ends the
  /// inquiry if nobody answers.
  void connection_ended(int peer, const Outcome& why, bool may_ask) noexcept;
  /// The process of a rank of our host has ended, and all that it had sent was taken.
  void process_ended(int local_index) noexcept;
  /// Breaks a new group that has a lost member, or that a rank which made it earlier has broken.
  void check_new_group(Group& group);
  /// Ends the inquiries that nobody has answered in time.
  void tick(TimePoint now);

  // Questions of ranks to each other. Each rank is one of the group.
  /// A rank asks whether we reach another one.
  void on_question(const Group& group, int asker, const transport::PingFrame& ping);
  /// A rank has answered our ping: tells those that have asked about it.
  void on_answer(const Group& group, int rank);
  /// A rank says that it reaches another one. That one is lost, if its inquiry is open.
  void on_reached(const Group& group, int rank, const transport::PongFrame& pong);

 private:
  struct Inquiry {
    int peer = 0;
    Outcome why;
    TimePoint until{};
  };
  struct Question {
    std::uint64_t group = 0;
    int asker = 0;  ///< ranks of the group
    int about = 0;
    TimePoint asked{};
  };

  [[nodiscard]] bool ask(int peer, const Outcome& why);
  void end(std::vector<Inquiry>::iterator inquiry, const Outcome& why);
  void lost(int peer, const Outcome& why);
  [[nodiscard]] Outcome cause_for(Group& group, int rank, const Outcome& why) const;

  const World& world_;
  const GroupTable::ById& groups_;
  MessageChannel& channel_;
  FailureDetector& detector_;
  FailurePropagation& propagation_;
  std::vector<Inquiry> inquiries_;
  std::vector<Question> questions_;  ///< of others, who wait for kWitnessTime
};

}  // namespace tutti::engine
