#include <chrono>
#include <cstddef>
#include <cstring>
#include <exception>
#include <string>
#include <string_view>
#include <utility>

#include <tutti/options.hpp>
#include <tutti/process_group.hpp>

#include "abi.hpp"
#include "failure.hpp"
#include "requests.hpp"
#include "without_gil.hpp"
#include "world.hpp"

// The functions of MPI that jaxlib's collectives call.
namespace tutti::jax {
namespace {

Requests& requests() {
  static auto* const all = new Requests;  // never destroyed: used until the process has ended
  return *all;
}

/// Runs a function that throws, and returns the code of MPI.
template <class Function>
int guarded(Function function) {
  try {
    function();
    return kSuccess;
  } catch (const std::exception& error) {
    return fail(error.what());
  }
}

[[noreturn]] void refuse(std::string text) {
  raise(Outcome(Errc::invalid_argument, std::move(text)));
}

DType dtype_of(Handle type) {
  switch (type) {
    case byte_type:
    case uint8_type: return DType::uint8;
    case int8_type: return DType::int8;
    case int16_type: return DType::int16;
    case uint16_type: return DType::uint16;
    case int32_type: return DType::int32;
    case uint32_type: return DType::uint32;
    case int64_type: return DType::int64;
    case uint64_type: return DType::uint64;
    case float32_type: return DType::float32;
    case float64_type: return DType::float64;
    case complex64_type: return DType::complex64;
    case complex128_type: return DType::complex128;
    default: refuse("this datatype of MPI is not supported");
  }
}

ReduceOp op_of(Handle op) {
  switch (op) {
    case sum_op: return ReduceOp::sum;
    case product_op: return ReduceOp::product;
    case min_op: return ReduceOp::min;
    case max_op: return ReduceOp::max;
    default: refuse("this operation of MPI is not supported");
  }
}

/// jaxlib gives the number of elements, or of bytes, as an int.
std::size_t count_of(int count) {
  if (count < 0)
    refuse(
        "the array is too large: JAX's MPI interface moves less than 2^31 elements at a time, and "
        "in all_to_all and ppermute less than 2 GiB to one process");
  return static_cast<std::size_t>(count);
}

TensorView output_of(void* data, std::size_t count, Handle type) {
  return {data, dtype_of(type), count};
}

ConstTensorView input_of(const void* data, std::size_t count, Handle type) {
  if (reinterpret_cast<Handle>(data) == in_place) refuse("MPI_IN_PLACE is not supported");
  return {data, dtype_of(type), count};
}

/// Starts a send or receive, which must not outlive a failure of another one of the same
/// permutation.
template <class Start>
int start(Handle communicator, Handle* request, Start begin) {
  *request = null_handle;
  return guarded([&] {
    const SharedCommunicator on = World::get().find(communicator);
    try {
      *request = requests().keep(on, begin(on->group()));
    } catch (const std::exception& error) {
      requests().give_up(on, error.what());
      throw;
    }
  });
}

}  // namespace

TUTTI_JAX_ABI int MPIABI_Init_thread(int* /*argc*/, char*** /*argv*/, int /*required*/,
                                     int* provided) {
  const WithoutGil unlocked;
  World::get().begin();
  *provided = kThreadMultiple;
  return kSuccess;
}

/// Does nothing: computations may still run, and jaxlib frees its communicators later.
TUTTI_JAX_ABI int MPIABI_Finalize() { return kSuccess; }

/// For Python, at the end of the process, when the computations are over.
TUTTI_JAX_ABI void tutti_jax_leave() {
  const WithoutGil unlocked;
  World::get().leave();
}

TUTTI_JAX_ABI int MPIABI_Initialized(int* flag) {
  *flag = World::get().begun() ? 1 : 0;
  return kSuccess;
}

TUTTI_JAX_ABI int MPIABI_Finalized(int* flag) {
  *flag = World::get().ended() ? 1 : 0;
  return kSuccess;
}

TUTTI_JAX_ABI int MPIABI_Query_thread(int* provided) {
  *provided = kThreadMultiple;
  return kSuccess;
}

/// jaxlib refuses to make communicators on other threads than the main one, and its own pool runs
/// large programs. Any thread may call tutti.
TUTTI_JAX_ABI int MPIABI_Is_thread_main(int* flag) {
  *flag = 1;
  return kSuccess;
}

TUTTI_JAX_ABI int MPIABI_Get_version(int* version, int* subversion) {
  *version = 3;
  *subversion = 1;
  return kSuccess;
}

TUTTI_JAX_ABI int MPIABI_Get_library_version(char* text, int* length) {
  constexpr std::string_view kText = "tutti, for the collectives of jaxlib";
  std::memcpy(text, kText.data(), kText.size());
  text[kText.size()] = '\0';
  *length = static_cast<int>(kText.size());
  return kSuccess;
}

TUTTI_JAX_ABI double MPIABI_Wtime() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

TUTTI_JAX_ABI double MPIABI_Wtick() { return 1e-9; }

TUTTI_JAX_ABI int MPIABI_Error_string(int code, char* text, int* length) {
  std::string_view told = code == kSuccess ? "no error" : last_failure();
  constexpr std::size_t kMost = kErrorTextBytes - 1;
  if (told.size() > kMost) {
    std::size_t end = kMost;
    while (end > 0 && (static_cast<unsigned char>(told[end]) & 0xC0U) == 0x80U)
      --end;  // whole characters
    told = told.substr(0, end);
  }
  std::memcpy(text, told.data(), told.size());
  text[told.size()] = '\0';
  *length = static_cast<int>(told.size());
  return kSuccess;
}

TUTTI_JAX_ABI int MPIABI_Comm_rank(Handle communicator, int* rank) {
  return guarded([&] { *rank = World::get().find(communicator)->rank(); });
}

TUTTI_JAX_ABI int MPIABI_Comm_size(Handle communicator, int* size) {
  return guarded([&] { *size = World::get().find(communicator)->size(); });
}

TUTTI_JAX_ABI int MPIABI_Comm_split(Handle communicator, int color, int key, Handle* made) {
  const WithoutGil unlocked;
  *made = null_handle;
  return guarded([&] {
    if (communicator != world_handle) refuse("MPI_Comm_split: only MPI_COMM_WORLD can be divided");
    *made = World::get().split(color, key);
  });
}

TUTTI_JAX_ABI int MPIABI_Comm_free(Handle* communicator) {
  const WithoutGil unlocked;
  World::get().free(*communicator);
  *communicator = null_handle;
  return kSuccess;
}

TUTTI_JAX_ABI int MPIABI_Allreduce(const void* input, void* output, int count, Handle type,
                                   Handle op, Handle communicator) {
  return guarded([&] {
    AllReduceOptions options;
    options.op = op_of(op);
    const SharedCommunicator on = World::get().find(communicator);
    on->group()
        .all_reduce(output_of(output, count_of(count), type),
                    input_of(input, count_of(count), type), options)
        .wait();
  });
}

TUTTI_JAX_ABI int MPIABI_Reduce_scatter(const void* input, void* output, const int* counts,
                                        Handle type, Handle op, Handle communicator) {
  return guarded([&] {
    const SharedCommunicator on = World::get().find(communicator);
    ProcessGroup& group = on->group();
    const int count = counts[group.rank()];
    for (int rank = 0; rank < group.size(); ++rank) {
      if (counts[rank] != count)
        refuse("MPI_Reduce_scatter: blocks of different sizes are not supported");
    }
    ReduceScatterOptions options;
    options.op = op_of(op);
    const std::size_t block = count_of(count);
    const std::size_t all = block * static_cast<std::size_t>(group.size());
    group.reduce_scatter(output_of(output, block, type), input_of(input, all, type), options)
        .wait();
  });
}

TUTTI_JAX_ABI int MPIABI_Allgather(const void* input, int count, Handle type, void* output,
                                   int output_count, Handle output_type, Handle communicator) {
  return guarded([&] {
    const SharedCommunicator on = World::get().find(communicator);
    ProcessGroup& group = on->group();
    const std::size_t all = count_of(output_count) * static_cast<std::size_t>(group.size());
    group.all_gather(output_of(output, all, output_type), input_of(input, count_of(count), type))
        .wait();
  });
}

TUTTI_JAX_ABI int MPIABI_Sendrecv(const void* input, int input_count, Handle input_type, int to,
                                  int send_tag, void* output, int output_count, Handle output_type,
                                  int from, int receive_tag, Handle communicator,
                                  void* /*status*/) {
  return guarded([&] {
    SendRecvOptions options;
    options.send_tag = send_tag;
    options.recv_tag = receive_tag;
    const SharedCommunicator on = World::get().find(communicator);
    on->group().sendrecv(output_of(output, count_of(output_count), output_type), from,
                         input_of(input, count_of(input_count), input_type), to, options);
  });
}

TUTTI_JAX_ABI int MPIABI_Isend(const void* input, int count, Handle type, int to, int tag,
                               Handle communicator, Handle* request) {
  return start(communicator, request, [&](ProcessGroup& group) {
    SendOptions options;
    options.tag = tag;
    return group.isend(input_of(input, count_of(count), type), to, options);
  });
}

TUTTI_JAX_ABI int MPIABI_Irecv(void* output, int count, Handle type, int from, int tag,
                               Handle communicator, Handle* request) {
  return start(communicator, request, [&](ProcessGroup& group) {
    RecvOptions options;
    options.tag = tag;
    return group.irecv(output_of(output, count_of(count), type), from, options);
  });
}

TUTTI_JAX_ABI int MPIABI_Wait(Handle* request, void* /*status*/) {
  if (*request == null_handle) return kSuccess;
  const Handle one = *request;
  *request = null_handle;
  return guarded([&] { requests().wait(one); });
}

}  // namespace tutti::jax
