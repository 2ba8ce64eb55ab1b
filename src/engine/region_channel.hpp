#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <tutti/error.hpp>
#include <tutti/tensor.hpp>

#include "engine/clock.hpp"
#include "engine/rank_row.hpp"
#include "engine/staging.hpp"
#include "engine/staging_policy.hpp"
#include "transport/region.hpp"

namespace tutti::engine {

struct BoundPlan;
struct Group;
struct Member;
struct Op;

/// The part of an operation that the RegionChannel has.
struct RegionState {
  std::uint64_t seq = 0;
  std::uint64_t fingerprint = 0;
  std::byte* stage = nullptr;  ///< our staging memory
  std::uint64_t stage_offset = 0;
  std::size_t stage_bytes = 0;  ///< of each rank that stages; 0: none, or it fits into the line
  bool in_line = false;         ///< what is staged fits into the line
  bool awaited = true;          ///< another rank may wait for our line
  bool lends = false;           ///< our staging is our input: others read it where it lies
  bool borrows = false;         ///< we read the input of another rank where it lies
  StagingMode mode;
  /// By rank: its staging memory, set when its line is seen. Then, again by rank, where element 0
  /// of the operation would lie in its input, if that is read where it lies; else null.
  std::vector<const std::byte*> stage_of;

  /// That second part.
  [[nodiscard]] const std::byte*& input_of(int rank) noexcept {
    return stage_of[stage_of.size() / 2 + static_cast<std::size_t>(rank)];
  }
  /// The operation has ended: the next one in its slot begins without any.
  void forget_inputs() noexcept {
    if (lends || borrows) [[unlikely]]
      std::fill(stage_of.begin() + static_cast<std::ptrdiff_t>(stage_of.size() / 2), stage_of.end(),
                nullptr);
    lends = borrows = false;
  }
};

/// Reads and writes the memory that the ranks of a host share: arrival lines with fingerprint and
/// staging, counters, and how far each rank has come (docs/design/shared-memory.md). Nothing here
/// waits.
///
/// Threads: under the driver lock.
class RegionChannel {
 public:
  /// State of the lines of some ranks. `differs`: a rank makes another call; `outside`: a rank
  /// exposes staging that does not lie in its arena; `unmapped`: this process may not map it.
  enum class Lines : std::uint8_t { missing, here, differs, outside, unmapped };
  struct Options {
    int cpus = 1;
    bool publish_fence = false;  ///< sleepers cannot fence for us (see World)
    TimePoint (*now)() noexcept = nullptr;
    Staging::Populate populate;
    std::size_t core_cache = std::size_t{1} << 20;  ///< see World
  };

  RegionChannel(const transport::Regions& regions, const Options& options);

  // Our own lines and staging.
  /// Uses the operation's line as its staging memory; the staged bytes must fit into it.
  void use_line_as_stage(Group& group, RegionState& state) const noexcept;
  /// It stages nothing.
  void use_no_stage(const Group& group, RegionState& state) const noexcept;
  /// It stages nothing, because others read this input. False: they cannot, as it lies in memory
  /// that is ours alone.
  [[nodiscard]] bool use_input_as_stage(const Group& group, RegionState& state,
                                        const BoundPlan& plan,
                                        const TensorView& input) const noexcept;
  /// It stages `bytes` elsewhere; 0: nothing.
  [[nodiscard]] Outcome take_stage(Group& group, RegionState& state, std::size_t bytes);
  void publish(const Group& group, const RegionState& state) noexcept;
  void signal(const Group& group, const RegionState& state, int counter,
              std::int64_t value) noexcept;
  /// Shows how far our operations have ended; `op` was the last one to end.
  void tell_passed(const Group& group, const Op& op) noexcept;

  // Lines and counters of other ranks. `at`: how many of `ranks` had arrived at an earlier call;
  // they are not read again. Our own rank is skipped.
  [[nodiscard]] Lines lines(Group& group, RegionState& state, const BoundPlan& plan,
                            const RankRow& ranks, std::int32_t& at) noexcept;
  /// Begins to fetch the next lines of these ranks, which are probably ahead.
  static void fetch_next(const Group& group, const RegionState& state,
                         const RankRow& ranks) noexcept;
  [[nodiscard]] bool counters(Group& group, const RegionState& state, int counter,
                              std::int64_t value, const RankRow& ranks, std::int32_t& at) noexcept;
  /// One of these ranks whose counter has reached `value`; -1: none.
  [[nodiscard]] static int find_signalled(const Group& group, const RegionState& state, int counter,
                                          std::int64_t value, const RankRow& ranks) noexcept;
  [[nodiscard]] static bool has_arrived(const Group& group, Member& member,
                                        const RegionState& state) noexcept;
  [[nodiscard]] static bool has_signalled(const Group& group, Member& member,
                                          const RegionState& state, int counter,
                                          std::int64_t value) noexcept;

  // Staging.
  [[nodiscard]] Staging& staging() noexcept { return staging_; }
  [[nodiscard]] StagingPolicy& policy() noexcept { return policy_; }
  [[nodiscard]] const StagingPolicy& policy() const noexcept { return policy_; }
  /// Takes the sample of this operation if it is `rank`'s turn: times a read of bytes that `rank`
  /// has staged.
  void sample_stage(const Group& group, RegionState& state, int rank, const void* staged,
                    std::size_t bytes) noexcept {
    if (state.mode.sample == Sample::staged) sample(group, state, rank, nullptr, staged, bytes);
  }

 private:
  [[nodiscard]] Lines find_stage(RegionState& state, const BoundPlan& plan, int rank, int local,
                                 std::uint64_t word) noexcept;
  /// Times a read of `staged`, or, if there is a `block`, of the operation's line in it.
  void sample(const Group& group, RegionState& state, int rank,
              const transport::shm::GroupBlock* block, const void* staged,
              std::size_t bytes) noexcept;
  void ring_all(const Group& group) noexcept;

  const transport::Regions& regions_;
  bool publish_fence_;
  TimePoint (*now_)() noexcept;
  Staging staging_;
  StagingPolicy policy_;
};

}  // namespace tutti::engine
