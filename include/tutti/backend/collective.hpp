#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>

#include <tutti/arguments.hpp>
#include <tutti/backend/kinds.hpp>
#include <tutti/tensor.hpp>

namespace tutti::call {
struct GpuMessage;
}

namespace tutti {

/// Elements [first, first + count) of a tensor, counted in row-major order of its shape.
struct Piece {
  TensorView view;
  std::size_t first = 0;
  std::size_t count = 0;
};

/// Arguments that only some calls have besides their two tensors. The lists belong to the caller
/// and are read during submit only; the elements of the tensors are not.
struct Details {
  /// A view for each rank's block in place of `Collective::input` / `output`; empty: the one
  /// tensor.
  std::span<const TensorView> inputs;
  std::span<const TensorView> outputs;
  /// Elements (of the dtype) of each rank's block if they differ; empty: all are equal. all_gather
  /// (outputs) and reduce_scatter (inputs): the same numbers on every rank. all_to_all: both sides,
  /// and every rank gives its own; the number that one sends is the number that the other expects.
  std::span<const std::size_t> input_counts;
  std::span<const std::size_t> output_counts;
  /// Several tensors in one call (`..._coalesced`; `..._multigpu`: one, and an empty one for each
  /// tensor more of the rank's list, so that the ranks compare its length): what input and output
  /// are put together from, in this order. Both or none; then `Collective::input` and `output` have
  /// a dtype and a count, but no memory, and nothing else of the lists above is given.
  std::span<const Piece> input_pieces;
  std::span<const Piece> output_pieces;
  /// PREMUL_SUM: what this rank's input is multiplied by: one value, or one for each element. Of
  /// the input's dtype.
  TensorView factor;
  /// Tensors of a GPU: the stream of the caller (CUstream, cudaStream_t; 0: that of the thread,
  /// StreamGuard).
  /// The operation begins after the earlier work of the stream, and `Work::wait` makes the stream
  /// wait for the operation.
  std::uintptr_t stream = 0;
  /// recv: the ticket of the probe whose message it gets; 0: it gets the next message.
  std::uint64_t probed = 0;
  /// Only of calls that the library itself gives to its own engine: the tensor of this send or recv
  /// is in the memory of a GPU, and the view has no memory.
  call::GpuMessage* gpu_message = nullptr;
};

/// One call as a value: an operation with its arguments. Plain data; can be printed, hashed,
/// compared between ranks, recorded and replayed. Ranks are those of the group.
struct Collective {
  Kind kind = Kind::barrier;
  ReduceOp op = ReduceOp::sum;
  /// The root of a rooted operation; send: the receiver; recv, probe: the sender, or any_source.
  int root = 0;
  int tag = 0;  ///< send, recv and probe
  /// new_group: hash of the ranks. Operations that move the inputs of a UserOp: its id. Else 0.
  std::uint64_t digest = 0;
  /// Always set by the group before submit; a probe of 0 does not wait.
  std::chrono::nanoseconds timeout{0};
  TensorView input;   ///< what is read; see Layout in include/tutti/backend/kinds.hpp
  TensorView output;  ///< what is written
  const Details* details = nullptr;  ///< lists of tensors, uneven blocks, factors
};

/// The tag of messages of the library itself between the CPUs of the ranks, on every backend: for
/// monitored_barrier and `split`. Tags of callers are not negative.
inline constexpr int kLibraryTag = std::numeric_limits<int>::min();
/// The first of kBackendTags tags for a backend that uses a group of our own engine for the CPUs.
inline constexpr int kFirstBackendTag = kLibraryTag + 1;
inline constexpr int kBackendTags = 2;

/// One line for people: "all_reduce(SUM, float32 x 1000)".
[[nodiscard]] std::string describe(const Collective& call);

}  // namespace tutti
