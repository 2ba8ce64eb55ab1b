#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include <tutti/dtype.hpp>

namespace tutti::mpi {

/// Handles of the MPI library, widened to a word: a pointer of Open MPI's and of the standard ABI,
/// an int of MPICH's.
enum class Comm : std::uintptr_t {};
enum class Type : std::uintptr_t {};
enum class Op : std::uintptr_t {};
enum class Request : std::uintptr_t {};
/// MPI_Message: a message that a probe has taken out of its queue.
enum class Matched : std::uintptr_t {};

/// MPI's levels of threading, in their order.
enum class Threading { single, funneled, serialized, multiple };

/// The operations on values that every MPI has itself.
enum class BuiltinOp { sum, product, min, max, band, bor, bxor };
inline constexpr int kBuiltinOpCount = 7;

/// As MPI_User_function: `count` elements of `in` are combined into `inout`.
using UserFunction = void (*)(void* in, void* inout, int* count, void* type);

/// A message that was received, or that a probe has found.
struct Received {
  int source = -1;  ///< in its communicator; -1: it was cancelled
  int tag = -1;
  std::int64_t bytes = 0;  ///< that the sender has sent
};

/// The library's own description of itself, known without MPI_Init.
struct LibraryInfo {
  std::string name;  ///< "Open MPI 4.1.4": one line
  std::string path;  ///< the file that is loaded
  std::string abi;   ///< "Open MPI", "MPICH" or "MPI standard ABI"
  int major = 0;     ///< of the MPI standard that it follows
  int minor = 0;
};

/// The functions of an MPI library that the backend needs, one for one, with the ABI hidden. Each
/// does what the MPI standard says of the function of the same name.
///
/// Errors:  every int that is returned is MPI's error code, 0 for success; `error_text` tells it.
/// Threads: as many at once as the level of threading of the library allows.
/// Counts:  elements that fit an int, as in MPI; `make_bytes` makes a type for more.
/// Lifetime: buffers and arrays of an operation must stay until its request is done.
class Api {
 public:
  Api() = default;
  virtual ~Api() = default;
  Api(const Api&) = delete;
  Api& operator=(const Api&) = delete;

  [[nodiscard]] virtual const LibraryInfo& info() const noexcept = 0;
  [[nodiscard]] virtual std::string error_text(int code) const = 0;
  /// True if it takes pointers to GPU memory; absent: it does not tell, or not before MPI_Init.
  [[nodiscard]] virtual std::optional<bool> cuda_aware() noexcept = 0;

  // ---- The library's life
  [[nodiscard]] virtual bool initialized() noexcept = 0;
  [[nodiscard]] virtual bool finalized() noexcept = 0;
  [[nodiscard]] virtual int init(Threading wanted, Threading& provided) noexcept = 0;
  [[nodiscard]] virtual int query_threading(Threading& provided) noexcept = 0;
  /// The calling thread is the one that has called MPI_Init.
  [[nodiscard]] virtual bool is_main_thread() noexcept = 0;
  [[nodiscard]] virtual int finalize() noexcept = 0;

  // ---- Communicators
  [[nodiscard]] virtual Comm world() noexcept = 0;
  [[nodiscard]] virtual Comm self() noexcept = 0;
  [[nodiscard]] virtual bool is_null(Comm comm) noexcept = 0;  ///< MPI_COMM_NULL
  [[nodiscard]] virtual int rank(Comm comm, int& rank) noexcept = 0;
  [[nodiscard]] virtual int size(Comm comm, int& size) noexcept = 0;
  /// MPI_Comm_idup: `made` stays where it is until the request is done.
  [[nodiscard]] virtual int iduplicate(Comm comm, Comm& made, Request& request) noexcept = 0;
  /// MPI_Comm_split; colour < 0: MPI_UNDEFINED, and `made` is no communicator.
  [[nodiscard]] virtual int split(Comm comm, int color, int key, Comm& made) noexcept = 0;
  /// MPI_Comm_create_group: only the members call it. Ranks of `parent`, in the new order.
  [[nodiscard]] virtual int create_group(Comm parent, std::span<const int> ranks, int tag,
                                         Comm& made) noexcept = 0;
  [[nodiscard]] virtual int free(Comm& comm) noexcept = 0;
  /// Errors of its operations are returned from now on (MPI_ERRORS_RETURN).
  [[nodiscard]] virtual int return_errors(Comm comm) noexcept = 0;
  /// MPI_TAG_UB: the largest tag of a message.
  [[nodiscard]] virtual int largest_tag() noexcept = 0;

  // ---- Types and operations on values
  /// MPI's own type of a dtype: integers, float32, float64, complex. False where it has none:
  /// bool and the narrow floats.
  [[nodiscard]] virtual bool builtin(DType dtype, Type& type) noexcept = 0;
  [[nodiscard]] virtual Type byte() noexcept = 0;
  /// A committed type of so many bytes in a row, its extent the same; beyond 2^31, too.
  [[nodiscard]] virtual int make_bytes(std::int64_t bytes, Type& made) noexcept = 0;
  [[nodiscard]] virtual int free(Type& type) noexcept = 0;
  [[nodiscard]] virtual Op builtin(BuiltinOp op) noexcept = 0;
  /// A commutative operation.
  [[nodiscard]] virtual int make_op(UserFunction function, Op& made) noexcept = 0;
  [[nodiscard]] virtual int free(Op& op) noexcept = 0;

  // ---- Operations: all of them non-blocking
  /// As `in` of a reduction or a gathering whose input stands in the output (MPI_IN_PLACE).
  [[nodiscard]] virtual const void* in_place() noexcept = 0;
  [[nodiscard]] virtual int ibarrier(Comm comm, Request& request) noexcept = 0;
  [[nodiscard]] virtual int ibroadcast(void* data, int count, Type type, int root, Comm comm,
                                       Request& request) noexcept = 0;
  [[nodiscard]] virtual int iall_reduce(const void* in, void* out, int count, Type type, Op op,
                                        Comm comm, Request& request) noexcept = 0;
  [[nodiscard]] virtual int ireduce(const void* in, void* out, int count, Type type, Op op,
                                    int root, Comm comm, Request& request) noexcept = 0;
  [[nodiscard]] virtual int iscan(const void* in, void* out, int count, Type type, Op op, Comm comm,
                                  Request& request) noexcept = 0;
  [[nodiscard]] virtual int iexscan(const void* in, void* out, int count, Type type, Op op,
                                    Comm comm, Request& request) noexcept = 0;
  /// MPI_Ireduce_scatter_block.
  [[nodiscard]] virtual int ireduce_scatter(const void* in, void* out, int count, Type type, Op op,
                                            Comm comm, Request& request) noexcept = 0;
  /// MPI_Ireduce_scatter: `counts` of all ranks.
  [[nodiscard]] virtual int ireduce_scatter_v(const void* in, void* out, const int* counts,
                                              Type type, Op op, Comm comm,
                                              Request& request) noexcept = 0;
  // Below, `count` elements of `type` are a block, and blocks lie one after the other. The _v form
  // takes counts and displacements of all ranks, in elements.
  [[nodiscard]] virtual int iall_gather(const void* in, void* out, int count, Type type, Comm comm,
                                        Request& request) noexcept = 0;
  [[nodiscard]] virtual int iall_gather_v(const void* in, int in_count, void* out,
                                          const int* counts, const int* displacements, Type type,
                                          Comm comm, Request& request) noexcept = 0;
  [[nodiscard]] virtual int igather(const void* in, void* out, int count, Type type, int root,
                                    Comm comm, Request& request) noexcept = 0;
  [[nodiscard]] virtual int iscatter(const void* in, void* out, int count, Type type, int root,
                                     Comm comm, Request& request) noexcept = 0;
  [[nodiscard]] virtual int iall_to_all(const void* in, void* out, int count, Type type, Comm comm,
                                        Request& request) noexcept = 0;
  [[nodiscard]] virtual int isend(const void* data, int count, Type type, int to, int tag,
                                  Comm comm, Request& request) noexcept = 0;
  /// from < 0: MPI_ANY_SOURCE.
  [[nodiscard]] virtual int ireceive(void* data, int count, Type type, int from, int tag, Comm comm,
                                     Request& request) noexcept = 0;
  /// MPI_Improbe; from < 0: MPI_ANY_SOURCE, tag < 0: MPI_ANY_TAG. If `found`, no receive but that
  /// of `message` gets it.
  [[nodiscard]] virtual int improbe(int from, int tag, Comm comm, bool& found, Matched& message,
                                    Received& described) noexcept = 0;
  /// MPI_Imrecv, which ends `message`.
  [[nodiscard]] virtual int ireceive(void* data, int count, Type type, Matched& message,
                                     Request& request) noexcept = 0;
  /// MPI_Test. When done the request is gone. `received`: of a receive; may be null.
  [[nodiscard]] virtual int test(Request& request, bool& done, Received* received) noexcept = 0;
  /// MPI_Cancel of a receive, not of a `Matched`. `done`: its memory is free and the request is
  /// gone; `received` is the message that was there before, if any. Else its message is under way
  /// already, and MPI may write it at any time.
  [[nodiscard]] virtual int cancel(Request& request, bool& done, Received& received) noexcept = 0;
};

}  // namespace tutti::mpi
