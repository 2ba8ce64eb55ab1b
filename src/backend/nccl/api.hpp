#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "cuda/cuda_api.hpp"

namespace tutti::nccl {

using cuda::Address;
using cuda::CudaApi;
using cuda::Event;
using cuda::kCudaDeinitialized;
using cuda::kCudaNotReady;
using cuda::Stream;

/// A communicator of NCCL (ncclComm_t), widened to a word; 0: none.
enum class Comm : std::uintptr_t {};

/// Numbers of ncclDataType_t and ncclRedOp_t; a PREMUL_SUM has a number of its communicator.
enum class Type : int {
  int8 = 0,
  uint8 = 1,
  int32 = 2,
  uint32 = 3,
  int64 = 4,
  uint64 = 5,
  float16 = 6,
  float32 = 7,
  float64 = 8,
  bfloat16 = 9,
  float8_e4m3 = 10,
  float8_e5m2 = 11,
};
enum class Op : int { sum = 0, product = 1, max = 2, min = 3, avg = 4 };

inline constexpr int kInProgress = 7;  ///< ncclInProgress
inline constexpr int kNoColor = -1;    ///< NCCL_SPLIT_NOCOLOR
/// The oldest version that serves, as ncclGetVersion tells it.
inline constexpr int kLeastVersion = 21900;
inline constexpr int kFloat8Version = 22400;  ///< reductions of float8 begin here

/// ncclUniqueId.
struct UniqueId {
  std::array<char, 128> bytes{};
};

/// The functions of NCCL that the backend needs, one for one. Communicators are made with
/// `blocking = 0`: a call may return kInProgress, and `async_error` tells when it has ended.
///
/// Errors:  every int that is returned is an ncclResult_t, 0 for success.
/// Threads: one at a time for each communicator; groups are of the calling thread.
/// Counts:  elements of the type.
class Api {
 public:
  Api() = default;
  virtual ~Api() = default;
  Api(const Api&) = delete;
  Api& operator=(const Api&) = delete;

  [[nodiscard]] virtual int version() const noexcept = 0;  ///< 23203: 2.32.3
  [[nodiscard]] virtual std::string about() const = 0;     ///< "NCCL 2.32.3, <file>"
  /// ncclGetErrorString, and ncclGetLastError where it says something.
  [[nodiscard]] virtual std::string error_text(int code, Comm comm) const = 0;

  [[nodiscard]] virtual int get_unique_id(UniqueId& made) noexcept = 0;
  [[nodiscard]] virtual int init_rank(Comm& made, int size, const UniqueId& id,
                                      int rank) noexcept = 0;
  [[nodiscard]] virtual int split(Comm comm, int color, int key, Comm& made) noexcept = 0;
  [[nodiscard]] virtual int finalize(Comm comm) noexcept = 0;
  [[nodiscard]] virtual int destroy(Comm comm) noexcept = 0;
  [[nodiscard]] virtual int abort(Comm comm) noexcept = 0;
  /// How long aborts are waited for.
  [[nodiscard]] virtual std::chrono::nanoseconds abort_limit() const noexcept {
    return std::chrono::seconds(1);
  }
  /// ncclCommGetAsyncError: kInProgress while a call has not ended.
  [[nodiscard]] virtual int async_error(Comm comm, int& error) noexcept = 0;
  /// A factor in host memory, or in that of the device.
  [[nodiscard]] virtual int create_premul_sum(Op& made, void* factor, Type type, bool on_device,
                                              Comm comm) noexcept = 0;
  [[nodiscard]] virtual int destroy_op(Op op, Comm comm) noexcept = 0;

  [[nodiscard]] virtual int group_start() noexcept = 0;
  [[nodiscard]] virtual int group_end() noexcept = 0;
  [[nodiscard]] virtual int all_reduce(Address in, Address out, std::size_t count, Type type, Op op,
                                       Comm comm, Stream stream) noexcept = 0;
  [[nodiscard]] virtual int reduce(Address in, Address out, std::size_t count, Type type, Op op,
                                   int root, Comm comm, Stream stream) noexcept = 0;
  [[nodiscard]] virtual int broadcast(Address in, Address out, std::size_t count, Type type,
                                      int root, Comm comm, Stream stream) noexcept = 0;
  [[nodiscard]] virtual int all_gather(Address in, Address out, std::size_t count, Type type,
                                       Comm comm, Stream stream) noexcept = 0;
  /// `count` elements of `out`.
  [[nodiscard]] virtual int reduce_scatter(Address in, Address out, std::size_t count, Type type,
                                           Op op, Comm comm, Stream stream) noexcept = 0;
  [[nodiscard]] virtual int send(Address data, std::size_t count, Type type, int to, Comm comm,
                                 Stream stream) noexcept = 0;
  [[nodiscard]] virtual int receive(Address data, std::size_t count, Type type, int from, Comm comm,
                                    Stream stream) noexcept = 0;
};

}  // namespace tutti::nccl
