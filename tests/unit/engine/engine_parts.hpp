#pragma once

#include <gmock/gmock.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/lost_ranks.hpp"
#include "engine/operation_runner.hpp"
#include "engine/p2p_table.hpp"
#include "engine/stall_reporter.hpp"
#include "noting_transport.hpp"
#include "verify/sim/memory.hpp"

namespace tutti::engine {

/// The clock of such parts, which the test moves.
inline TimePoint parts_now;

/// The parts of one rank that run operations, wired as Engine does it, but without an engine: the
/// test drives each of them. Ranks of other hosts are played by the test.
struct EngineParts {
  EngineParts(verify::sim::Memory& memory, int rank, std::vector<int> host_of,
              std::string algorithms)
      : world(make_world(memory, rank, std::move(host_of), std::move(algorithms))) {}

  World make_world(verify::sim::Memory& memory, int rank, std::vector<int> host_of,
                   std::string algorithms) {
    World made;
    made.rank = rank;
    made.size = static_cast<int>(host_of.size());
    made.regions = &memory.regions(rank);
    made.local_of = memory.local_of(rank);
    for (const int local : made.local_of)
      made.transports.push_back(local < 0 ? &transport : nullptr);
    made.host_of = std::move(host_of);
    made.whereabouts.assign(made.transports.size(), "");
    made.now = []() noexcept { return parts_now; };
    made.populate = [](std::byte*, std::size_t) { return Outcome(); };
    made.algorithms = std::move(algorithms);
    return made;
  }
  Group& make(std::uint64_t id, std::vector<int> ranks) {
    return *groups
                .make({.id = id, .name = "group " + std::to_string(id), .ranks = std::move(ranks)})
                .value();
  }
  std::uint64_t submit(Group& group, Kind kind, std::vector<float>& data,
                       std::chrono::nanoseconds timeout = std::chrono::seconds(10)) {
    return operations.submit(
        group,
        {.kind = kind, .timeout = timeout, .input = TensorView(data), .output = TensorView(data)});
  }
  /// Calls back into a list of the test once the operation has ended.
  void on_done(Group& group, std::uint64_t ticket) {
    completions.reserve();
    Op& op = group.window.at(ticket);
    if (op.seq == ticket)
      op.callbacks.push_back({});
    else
      group.window.on_done_later(ticket, {});
    completions.registered();
  }
  /// Frames of this type that were sent.
  int sent(transport::FrameType type) {
    channel.flush_control();
    return transport.frames(type);
  }

  NotingTransport transport;
  World world;
  MessageChannel channel{world.transports};
  FailureDetector detector{world, channel};
  Agreement agreement{world, channel};
  CompletionQueue completions;
  OperationRunner operations{world, groups, channel, propagation, agreement, completions};
  GroupTable groups{world, operations.staging()};
  FailurePropagation propagation{*world.regions, groups.by_id(), world.size, channel, operations};
  LostRanks lost{world, groups.by_id(), channel, detector, propagation};
  StallReporter stalls{world, detector};
  P2PTable p2p{{world, channel, detector, stalls, propagation, completions}, groups};
};

/// Rank 0 and 1 share a host; rank 2 is played by the test.
class EnginePartsTest : public testing::Test {
 protected:
  explicit EnginePartsTest(const std::string& algorithms = "")
      : first_(memory_, 0, {0, 0, 1}, algorithms), second_(memory_, 1, {0, 0, 1}, algorithms) {
    parts_now = TimePoint(std::chrono::hours(1));
  }
  static void expect_cause(const Group& group, Errc code, std::optional<int> culprit,
                           const std::string& part) {
    ASSERT_TRUE(group.broken);
    EXPECT_EQ(group.cause.code(), code);
    EXPECT_EQ(group.cause.culprit(), culprit);
    EXPECT_THAT(std::string(group.cause.message()), testing::HasSubstr(part));
  }

  verify::sim::Memory memory_{{0, 0, 1}};
  EngineParts first_;
  EngineParts second_;
};

}  // namespace tutti::engine
