#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <tutti/error.hpp>

#include "engine/elements.hpp"
#include "engine/group.hpp"
#include "engine/message_channel.hpp"
#include "engine/rank_row.hpp"
#include "engine/region_channel.hpp"
#include "engine/scratch.hpp"
#include "transport/frames.hpp"

namespace tutti::engine {

/// The ranks of a step, as the operation's loops stand.
[[nodiscard]] inline RankRow row_of(const plan::RankSet& ranks, const Op& op) noexcept {
  return {ranks, op.group->size, op.program.var};
}

/// Runs the schedules of operations over the two channels. It knows no sockets and no deadlines,
/// and does not decide whom to blame: it reports an error as a Finding.
///
/// Threads: under the driver lock.
class Interpreter {
 public:
  enum class Progress : std::uint8_t {
    waits,  ///< nothing could be done
    moved,  ///< something was done, and more is to come
    done,   ///< the last step is
    found,  ///< an error: see take_finding()
  };
  /// Why an operation cannot go on.
  struct Finding {
    enum class What : std::uint8_t {
      line,      ///< the line of `rank` shows another call
      frame,     ///< a frame of `rank` shows another call
      splits,    ///< `frame` shows another number of elements than we expect
      outside,   ///< `rank` exposes staging that does not lie in its arena
      unmapped,  ///< this process may not map the staging of `rank`
    };
    What what = What::line;
    int rank = 0;
    transport::DataFrame frame;
  };

  Interpreter(RegionChannel& regions, MessageChannel& channel) noexcept
      : regions_(regions), channel_(channel) {}

  /// Begins `op`, whose number, fingerprint, plan and call are set. False: call `take_memory` next.
  [[nodiscard]] bool begin(Op& op) noexcept;
  /// Takes staging, scratch and streams, for an operation that needs more than its line.
  [[nodiscard]] Outcome take_memory(Op& op);
  /// Gives back what the next operation in this slot should not keep.
  void release_memory(Op& op) noexcept;

  /// Runs the steps as far as they go.
  [[nodiscard]] Progress run(Op& op) {
    if (op.program.one_shot) return run_one_shot(op);
    return run_steps(op);
  }
  /// Uses the held frames of this rank. False: there is a finding.
  [[nodiscard]] bool deliver_held(Op& op, int rank);
  /// Takes the finding; there must be one.
  [[nodiscard]] Finding take_finding() noexcept;

  /// Sets `ranks` to the ranks without which `op` cannot go on. No other code decides this. Empty:
  /// it waits for a transport, or for nobody.
  static void blocked_on(const Op& op, std::vector<int>& ranks);
  [[nodiscard]] static std::vector<int> blocked_on(const Op& op) {
    std::vector<int> ranks;
    blocked_on(op, ranks);
    return ranks;
  }
  /// It waits for frames and not for shared memory.
  [[nodiscard]] static bool waits_for_frames(const Op& op) noexcept;

 private:
  [[nodiscard]] Progress run_steps(Op& op);
  /// The outcome of a run that ends at a step which cannot be done yet.
  [[nodiscard]] Progress blocked(bool moved) const noexcept {
    if (finding_) [[unlikely]]
      return Progress::found;
    return moved ? Progress::moved : Progress::waits;
  }
  bool await_lines(Op& op, const RankRow& ranks);
  [[nodiscard]] bool strictly_agreed(Op& op);
  [[nodiscard]] bool release_deferred(Op& op);
  [[nodiscard]] bool await_receives(Op& op, const plan::Step& step) noexcept;
  void post_send(Op& op, const plan::Step& step);
  bool post_receive(Op& op, const plan::Step& step);
  // one_shot.cpp
  [[nodiscard]] Progress run_one_shot(Op& op);
  void copy_one(Op& op, const OneShotPlan::Copy& copy, std::byte* to) noexcept;
  void copy_many(Op& op, const OneShotPlan::Copy& copy, std::byte* to,
                 const std::byte* src) noexcept;
  void add_all(Op& op, std::byte* to) noexcept;
  void share_sum(Op& op) noexcept;
  // interpreter_data.cpp
  [[nodiscard]] static Stream::Post post_of(Op& op, const plan::Operand& operand,
                                            const plan::Range& range) noexcept;
  void copy(Op& op, const plan::Step& step) noexcept;
  /// Bytes in one piece, to our stage or output, from memory of rank `from`.
  struct Move {
    std::byte* dst;
    const std::byte* src;
    std::size_t bytes;
    plan::Space into;
    plan::Space out_of;
    int from;
  };
  void move(Op& op, const Move& move) noexcept;
  void reduce(Op& op, const plan::Step& step) noexcept;

  RegionChannel& regions_;
  MessageChannel& channel_;
  ScratchPool scratch_;
  std::optional<Finding> finding_;
};

}  // namespace tutti::engine
