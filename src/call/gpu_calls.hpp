#pragma once

#include <atomic>
#include <cstdint>

#include <tutti/tensor.hpp>

// Calls whose elements GPUs move. The engine only compares them and synchronizes the ranks:
// `gpu_call_digest` marks such a call in `Collective::digest`, and it runs like a barrier.
namespace tutti::call {

/// The digest of such a call. It is never 0 and differs from the digests of blocks, of several
/// tensors and of a user's op. `tensors`: Extent::digest of the same call with CPU tensors.
[[nodiscard]] constexpr std::uint64_t gpu_call_digest(std::uint64_t tensors) noexcept {
  return (tensors * 0x9e3779b97f4a7c15ULL & ~std::uint64_t{15}) | 8;
}

/// In place of Extent::digest where each rank's block has its own number of elements, which such a
/// call does not compare.
inline constexpr std::uint64_t kUncompared = 1;

/// True if the digest belongs to a call between GPUs.
[[nodiscard]] constexpr bool is_gpu_call(std::uint64_t digest) noexcept {
  return (digest & 15) == 8;
}

/// A send or recv whose tensor is in the memory of a GPU (Details::gpu_message). The engine matches
/// it with the recv or send of the other rank. If that tensor is on a GPU, too, the message is over
/// for the engine, and the caller moves the elements. If not, the engine needs host memory.
///
/// After each change the caller lets the engine make progress, and it looks again later: engine and
/// caller may each miss what the other one writes at the same moment. While the engine waits for
/// the caller (`needs_...`), it does not check the deadline; the caller does.
///
/// Only for messages of more than kEagerLimit bytes, and not for a send to this rank itself.
/// Lifetime: until the operation is done for the engine.
struct GpuMessage {
  enum class State : std::uint8_t {
    unmatched,
    needs_stream,  ///< written by the engine: the other tensor is on a GPU, and `stream_came` is
                   ///< missing
    needs_memory,  ///< written by the engine: the other tensor is in host memory
    has_memory,    ///< written by the caller, after `memory`
    on_gpus,       ///< written by the engine, after `number`: both tensors are on GPUs
  };
  std::atomic<State> state{State::unmatched};
  /// recv, by the caller: its stream has come to the call, so the elements may be written. (A send
  /// is given to the engine only then.) Neither rank counts a message before both may move it.
  std::atomic<bool> stream_came{false};
  TensorView memory;
  /// Counts the messages from GPU to GPU of this sender to this receiver, from 1: both ranks count
  /// alike.
  std::uint64_t number = 0;
};

}  // namespace tutti::call
