#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include <tutti/arguments.hpp>
#include <tutti/buffers.hpp>
#include <tutti/export.hpp>
#include <tutti/tensor.hpp>

// Options of the calls of a ProcessGroup. A `timeout` is that of the one operation, more than 0;
// absent: the group's. A `root` is a rank of the group.
namespace tutti {
inline namespace TUTTI_EXPORT v0 {

/// Options of an all_reduce.
struct AllReduceOptions {
  ReduceOp op = ReduceOp::sum;
  /// PREMUL_SUM: what this rank's input is multiplied by; a number, or one for each element, of the
  /// input's dtype and with strides of its own (that memory belongs to the operation until its Work
  /// is done, as the buffer's does).
  std::optional<double> factor = std::nullopt;
  TensorView factors = {};
  /// Absent: the group's.
  Timeout timeout = {};
};

struct BroadcastOptions {  ///< Options of a broadcast.
  /// The rank (of this group) whose values everybody gets.
  int root = 0;
  Timeout timeout = {};
};

struct ReduceOptions {  ///< Options of a reduce.
  int root = 0;         ///< the rank that gets the result
  ReduceOp op = ReduceOp::sum;
  /// PREMUL_SUM: what this rank's input is multiplied by; a number, or one for each element, of the
  /// input's dtype and with strides of its own (that memory belongs to the operation until its Work
  /// is done, as the buffer's does).
  std::optional<double> factor = std::nullopt;
  TensorView factors = {};
  Timeout timeout = {};
};

struct ScanOptions {  ///< Options of a scan.
  ReduceOp op = ReduceOp::sum;
  /// Leave this rank's own values out: rank r gets what the ranks 0 to r - 1 have. Rank 0 gets
  /// nothing, and its buffer stays as it is.
  bool exclusive = false;
  /// PREMUL_SUM: what this rank's input is multiplied by, as for an all_reduce.
  std::optional<double> factor = std::nullopt;
  TensorView factors = {};
  Timeout timeout = {};
};

struct AllGatherOptions {  ///< Options of an all_gather.
  /// Elements (structs, where the output is a range of them) of each rank's block where they
  /// differ: the same numbers on every rank. Empty: all as many as the input has. Read during the
  /// call only.
  BlockCounts output_counts = {};
  Timeout timeout = {};
};

struct GatherOptions {  ///< Options of a gather.
  int root = 0;         ///< the rank that gets all blocks
  /// Elements (structs, where the buffer is a range of them) of each rank's block where they may
  /// differ: on the root. Other ranks give the same numbers, or only their own (a list of one). If
  /// one rank gives counts, all must. Read during the call only.
  BlockCounts output_counts = {};
  Timeout timeout = {};
};

struct ScatterOptions {  ///< Options of a scatter.
  int root = 0;          ///< the rank whose blocks are handed out
  /// Elements of each rank's block where they may differ, as for a gather.
  BlockCounts input_counts = {};
  Timeout timeout = {};
};

struct ReduceScatterOptions {  ///< Options of a reduce_scatter.
  ReduceOp op = ReduceOp::sum;
  /// PREMUL_SUM: what this rank's input is multiplied by; a number, or one for each element, of the
  /// input's dtype and with strides of its own (that memory belongs to the operation until its Work
  /// is done, as the buffer's does).
  std::optional<double> factor = std::nullopt;
  TensorView factors = {};
  /// Elements of each rank's block where they differ: the same numbers on every rank. Read during
  /// the call only.
  BlockCounts input_counts = {};
  Timeout timeout = {};
};

struct AllToAllOptions {  ///< Options of an all_to_all.
  /// Elements (of a range of structs, structs) for each rank and from each rank, where they differ;
  /// both or none. If one rank gives them, all must; what a rank sends is what the other expects.
  /// Read during the call only.
  BlockCounts output_splits = {};
  BlockCounts input_splits = {};
  Timeout timeout = {};
};

/// Options of the operations on a list of tensors of each rank (`..._multigpu`).
struct MultigpuOptions {
  ReduceOp op = ReduceOp::sum;  ///< all_reduce and reduce; not PREMUL_SUM
  int root = 0;                 ///< broadcast and reduce
  /// Which tensor of the root's list is copied to all (torch's src_tensor), or gets the result
  /// (dst_tensor).
  int root_tensor = 0;
  /// For GPUs: one stream per tensor, on its GPU; all_gather: inputs, then outputs. Empty: the
  /// StreamGuard's if all are on one GPU, else each GPU's default stream.
  std::span<const std::uintptr_t> streams = {};
  Timeout timeout = {};
};

struct SendOptions {  ///< Options of a send.
  /// A recv gets only what was sent with its tag. Not negative.
  int tag = 0;
  Timeout timeout = {};
};

struct RecvOptions {  ///< Options of a recv.
  int tag = 0;        ///< or any_tag
  Timeout timeout = {};
};

struct SendRecvOptions {  ///< Options of a sendrecv.
  int send_tag = 0;
  int recv_tag = 0;  ///< or any_tag
  /// Of both; absent: the group's.
  Timeout timeout = {};
};

struct ProbeOptions {  ///< Options of a probe.
  int tag = 0;         ///< or any_tag
  Timeout timeout = {};
};

/// One send or recv of a batch.
class P2POp {
 public:
  /// A send of a buffer that lives until its Work is done.
  [[nodiscard]] static P2POp isend(const ConstTensorView& buffer, int dst, int tag = 0) noexcept {
    return {true, buffer, dst, tag};
  }
  /// A recv into a buffer that lives until its Work is done, from a rank or any_source, with a tag
  /// or any_tag.
  [[nodiscard]] static P2POp irecv(const TensorView& buffer, int src, int tag = 0) noexcept {
    return {false, buffer, src, tag};
  }
  [[nodiscard]] bool is_send() const noexcept { return is_send_; }
  [[nodiscard]] const TensorView& buffer() const noexcept { return buffer_; }
  [[nodiscard]] int peer() const noexcept { return peer_; }  ///< to whom, or from whom
  [[nodiscard]] int tag() const noexcept { return tag_; }

 private:
  P2POp(bool is_send, const ConstTensorView& buffer, int peer, int tag) noexcept
      : is_send_(is_send), peer_(peer), tag_(tag) {
    buffer_.read_only() = buffer;
  }
  bool is_send_;
  TensorView buffer_;
  int peer_;
  int tag_;
};

struct BatchOptions {  ///< Options of a batch of sends and recvs.
  Timeout timeout = {};
};

struct BarrierOptions {  ///< Options of a barrier.
  Timeout timeout = {};
};

struct MonitoredBarrierOptions {  ///< Options of a monitored_barrier.
  /// How long rank 0 waits for the others; absent: the group's.
  Timeout timeout = {};
  /// Name all ranks that have not come, not only the first of them.
  bool wait_all_ranks = false;
};

struct NewGroupOptions {  ///< Options of a new group.
  /// For messages; absent: made from the ranks.
  std::string name = {};
  /// Default timeout of the new group's operations, more than 0; absent: the parent's.
  Timeout timeout = {};
};

}  // namespace v0
}  // namespace tutti
