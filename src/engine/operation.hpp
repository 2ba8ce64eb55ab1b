#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <tutti/backend/backend.hpp>
#include <tutti/backend/collective.hpp>

#include "engine/agreement_state.hpp"
#include "engine/elements.hpp"
#include "engine/plan_cache.hpp"
#include "engine/program_state.hpp"
#include "engine/region_channel.hpp"
#include "engine/streams.hpp"
#include "engine/timer_state.hpp"

namespace tutti::engine {

struct Group;

/// From here on an operation takes so long (some 0.5 ms and more) that waking a thread for it (a
/// few us) costs nothing, and that a caller may want to compute meanwhile.
inline constexpr std::uint64_t kLargeBytes = std::uint64_t{2} << 20;

/// One operation in flight, in a slot of its group's window. Each component of the engine has one
/// part of it, and is given no other part. The fields that a one-shot operation reads while it
/// waits are in the first two cache lines.
struct alignas(64) Op {
  enum class State : std::uint8_t { free, running, done };
  State state = State::free;
  bool failed = false;
  bool passed = false;    ///< this rank reads nothing more of others for it
  bool detailed = false;  ///< the call came with Details; the next call in this slot clears them
  AgreementState agreement;
  std::uint64_t seq = 0;
  Group* group = nullptr;
  const BoundPlan* plan = nullptr;
  RegionState region;
  ProgramState program;  ///< only its first 16 bytes are in the first two lines
  StreamState streams;
  TimerState timer;
  std::uint64_t fingerprint = 0;
  Collective call;
  // The rest of the call beside its two views.
  std::vector<TensorView> inputs;  ///< a view per rank's block; empty: call.input
  std::vector<TensorView> outputs;
  Pieces input_pieces;  ///< several tensors as one; empty: call.input
  Pieces output_pieces;
  std::vector<std::byte> scaled;  ///< PREMUL_SUM: the input times its factor
  std::vector<Callback> callbacks;

  /// Copies the details of the call, which the caller need not keep until the operation is done.
  /// nullptr: the call has none.
  void take_details(const Details* from);
  /// This operation writes memory that the call uses, or uses memory that the call writes.
  [[nodiscard]] bool shares_memory_with(const Collective& other, int rank) const noexcept;
  /// The bytes that this rank has moved in messages.
  [[nodiscard]] MovedBytes moved() const noexcept;
  [[nodiscard]] bool is_large() const noexcept;
};

}  // namespace tutti::engine
