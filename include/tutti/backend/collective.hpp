#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>

#include <tutti/arguments.hpp>
#include <tutti/backend/kinds.hpp>
#include <tutti/export.hpp>
#include <tutti/tensor.hpp>

namespace tutti::call {
struct GpuMessage;
}

namespace tutti {
inline namespace TUTTI_EXPORT v0 {

/// Elements [first, first + count) of a tensor, counted in row-major order of its shape.
struct Piece {
  TensorView view;
  std::size_t first = 0;
  std::size_t count = 0;
};

/// Arguments that only some calls have, beside their two tensors. The lists belong to the caller; a
/// backend reads them during submit only. It uses the tensors until the operation is done.
struct Details {
  /// A view for each rank's block in place of `Collective::input` / `output`; empty: the one
  /// tensor.
  std::span<const TensorView> inputs;
  std::span<const TensorView> outputs;
  /// The number of elements of each rank's block, if they differ; empty: all are equal. For an
  /// all_gather (outputs) and a reduce_scatter (inputs), all ranks have the same list. For an
  /// all_to_all each rank has its own two lists; a rank sends as many elements as the receiver
  /// expects.
  std::span<const std::size_t> input_counts;
  std::span<const std::size_t> output_counts;
  /// The tensors of a call with several (`..._coalesced`), in the order in which they make up the
  /// input and the output. Both or none; then `Collective::input` and `output` have a dtype and a
  /// count, but no memory, and the lists above are empty. `..._multigpu` has one tensor here, and
  /// an empty one for each further tensor of the rank's list: so the ranks compare its length.
  std::span<const Piece> input_pieces;
  std::span<const Piece> output_pieces;
  /// PREMUL_SUM: what this rank's input is multiplied by: one value, or one for each element. Of
  /// the input's dtype.
  TensorView factor;
  /// Tensors of a GPU: the stream of the caller (CUstream, cudaStream_t); 0: that of the thread's
  /// StreamGuard. The operation begins after the earlier work of the stream, and `Work::wait` makes
  /// the stream wait for the operation.
  std::uintptr_t stream = 0;
  /// recv: the ticket of the probe whose message it receives; 0: it receives the next message.
  std::uint64_t probed = 0;
  /// For the engine of `native` alone: the tensor of this send or recv is in GPU memory, and its
  /// view has no memory. Other backends get null.
  call::GpuMessage* gpu_message = nullptr;
};

/// One call as a value: an operation with its arguments. Plain data; can be printed, hashed,
/// compared between ranks, recorded and replayed. Ranks are those of the group.
struct Collective {
  Kind kind = Kind::barrier;
  ReduceOp op = ReduceOp::sum;
  /// The root of a rooted operation; send: the receiver; recv, probe: the sender, or any_source.
  int root = 0;
  int tag = 0;  ///< send, recv and probe; the last two: or any_tag
  /// new_group: hash of the ranks. Operations that move the inputs of a UserOp: its id. Else 0.
  std::uint64_t digest = 0;
  /// Always set by the group before submit; a probe of 0 does not wait.
  std::chrono::nanoseconds timeout{0};
  TensorView input;   ///< what is read; see Layout in include/tutti/backend/kinds.hpp
  TensorView output;  ///< what is written
  const Details* details = nullptr;  ///< lists of tensors, uneven blocks, factors
};

/// The tag of calls of the library itself (monitored_barrier, `split`). Their tensors are in host
/// memory, also on a backend for GPUs. Tags of callers are not negative.
inline constexpr int kLibraryTag = (std::numeric_limits<int>::min)();
/// The first of the kBackendTags tags that a backend for GPUs may use in its host group (see
/// BackendFactory::make_gpu_group).
inline constexpr int kFirstBackendTag = kLibraryTag + 1;
inline constexpr int kBackendTags = 2;
/// From here on tags are the Python package's (its exchange.py), which moves objects by them.
inline constexpr int kFirstPackageTag = 0x7F000000;
/// True if a recv or probe with `any_tag` gets messages with this tag: the library's own it does
/// not.
[[nodiscard]] constexpr bool fits_any_tag(int tag) noexcept {
  return tag >= 0 && tag < kFirstPackageTag;
}

/// One line for people: "all_reduce(SUM, float32 x 1000)".
[[nodiscard]] std::string describe(const Collective& call);

}  // namespace v0
}  // namespace tutti
