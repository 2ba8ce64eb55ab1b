#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/plan_cache.hpp"
#include "plan/schedule.hpp"

// A walk through the schedules of all ranks, without memory and without a clock: which elements go
// where.
namespace tutti::cli::explain {

/// Elements by the name that the schedule gives them.
struct Piece {
  plan::Slice::Shape shape = plan::Slice::Shape::whole;
  std::int64_t chunk = -1;  ///< -1: the shape has no chunk
  std::int64_t part = -1;   ///< of a part or a block; -1: the shape has none
  std::int32_t parts = 1;   ///< how many blocks, if the shape is a run of them
  friend auto operator<=>(const Piece&, const Piece&) = default;
};

enum class How : std::uint8_t {
  message,  ///< `from` sends, `to` receives
  copy,     ///< `to` copies what `from` has staged in shared memory
  add,      ///< `to` adds what `from` has staged in shared memory
  line,     ///< barriers: `to` reads the arrival line of `from`
  counter,  ///< barriers: `to` reads a counter of `from`
};

/// Elements that go from one rank to another.
struct Transfer {
  /// The hops of the elements up to this one. Of a sum: of the input with the most hops.
  int round = 1;
  int from = 0;
  int to = 0;
  How how = How::message;
  Piece piece;
  plan::Range elements;  ///< as numbered in the operation; of all_to_all in the sender's input
  std::size_t bytes = 0;
  plan::Space lands = plan::Space::output;
  std::size_t number = 0;  ///< of a message among those of its two ranks, from 0
};

/// A reduction step.
struct Sum {
  int round = 0;  ///< the last one that brings an input of it; 0: it needs none
  int rank = 0;
  Piece piece;
  int terms = 0;
  std::size_t bytes = 0;
  bool complete = false;  ///< its result is that of the operation
};

/// The work of one rank.
struct RankTotals {
  std::size_t messages = 0;
  std::size_t sent = 0;    ///< bytes in messages
  std::size_t staged = 0;  ///< bytes written to its own stage
  std::size_t given = 0;   ///< of these, bytes of its input
  std::size_t read = 0;    ///< bytes of other ranks' stages
  std::size_t lines = 0;   ///< arrival lines of others that it waits for
};

struct Flow {
  std::vector<Transfer> transfers;  ///< by round, sender, and then as they happen
  std::vector<Sum> sums;            ///< by round and rank
  std::vector<RankTotals> ranks;
  int rounds = 0;
  std::int64_t chunks = 1;  ///< of the operation, of a part or of a block
  bool tokens = false;      ///< a barrier: messages have no elements
  int winner = -1;          ///< shared_one_shot: the rank that adds for all
};

/// Some 30 MB of memory.
inline constexpr std::size_t kMostTransfers = 300'000;

/// Walks through the plans of all ranks (all[r] is that of rank r). If several ranks might be the
/// first to claim a sum, it is the one that comes last. Throws std::logic_error if a rank waits
/// for ever, or receives another size than was sent; std::length_error beyond kMostTransfers.
[[nodiscard]] Flow flow_of(std::span<const engine::BoundPlan* const> all);

}  // namespace tutti::cli::explain
