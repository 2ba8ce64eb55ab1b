#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace tutti::cuda {

/// Handles of the CUDA driver, widened to a word: pointers there. Stream 0 is the default stream.
enum class Stream : std::uintptr_t {};
enum class Event : std::uintptr_t {};
enum class Context : std::uintptr_t {};
enum class Module : std::uintptr_t {};
enum class Function : std::uintptr_t {};
/// Memory of a GPU without an address (CUmemGenericAllocationHandle).
enum class Memory : std::uint64_t {};
/// An address in the memory of a GPU (CUdeviceptr).
using Address = std::uintptr_t;

inline constexpr int kCudaNotReady = 600;  ///< CUDA_ERROR_NOT_READY
/// CUDA_ERROR_DEINITIALIZED: the process ends, and the driver is gone before us.
inline constexpr int kCudaDeinitialized = 4;
/// CUDA_ERROR_STREAM_CAPTURE_IMPLICIT: the default stream, while another one is captured.
inline constexpr int kCudaCaptureImplicit = 906;
inline constexpr int kCaptureRelaxed = 2;  ///< CU_STREAM_CAPTURE_MODE_RELAXED

/// Of all GPUs so far; the driver refuses other sizes.
inline constexpr std::size_t kMemoryStep = std::size_t{2} << 20;

/// `rows` runs of `width` bytes; the next run begins so many bytes behind the one before.
struct Rows {
  Address to = 0;
  std::size_t to_pitch = 0;
  Address from = 0;
  std::size_t from_pitch = 0;
  std::size_t width = 0;
  std::size_t rows = 0;
};

/// The functions of the CUDA driver (libcuda.so.1) that the library needs, one for one.
///
/// Errors:  every int that is returned is a CUresult, 0 for success; `error_text` tells it.
/// Threads: any. All but `init`, `retain_context` and what asks for devices need a context of this
/// thread.
class CudaApi {
 public:
  CudaApi() = default;
  virtual ~CudaApi() = default;
  CudaApi(const CudaApi&) = delete;
  CudaApi& operator=(const CudaApi&) = delete;

  [[nodiscard]] virtual std::string error_text(int code) const = 0;
  /// The file that is loaded and the CUDA version it serves; known without `init`.
  [[nodiscard]] virtual std::string about() const = 0;

  [[nodiscard]] virtual int init() noexcept = 0;                             ///< cuInit
  [[nodiscard]] virtual int device_count(int& count) noexcept = 0;           ///< cuDeviceGetCount
  [[nodiscard]] virtual int device_name(int device, std::string& name) = 0;  ///< cuDeviceGetName
  /// cuDeviceTotalMem
  [[nodiscard]] virtual int device_memory(int device, std::size_t& bytes) noexcept = 0;
  /// cuDeviceGetPCIBusId: which GPU of this host it is, however a process numbers them. The parts
  /// of one GPU (MIG) have the same.
  [[nodiscard]] virtual int bus_id(int device, std::string& id) = 0;
  /// cuDeviceCanAccessPeer: may kernels and copies of `device` reach the memory of `other`?
  [[nodiscard]] virtual int can_access_peer(int device, int other, bool& may) noexcept = 0;
  /// cuDevicePrimaryCtxRetain: the context that CUDA's runtime and torch use.
  [[nodiscard]] virtual int retain_context(int device, Context& made) noexcept = 0;
  [[nodiscard]] virtual int release_context(int device) noexcept = 0;
  [[nodiscard]] virtual int push_context(Context context) noexcept = 0;
  [[nodiscard]] virtual int pop_context() noexcept = 0;
  /// cuThreadExchangeStreamCaptureMode, of this thread: `mode` becomes the one before.
  [[nodiscard]] virtual int exchange_capture_mode(int& mode) noexcept = 0;

  /// cuStreamCreate, which does not wait for the default stream.
  [[nodiscard]] virtual int create_stream(Stream& made) noexcept = 0;
  [[nodiscard]] virtual int destroy_stream(Stream stream) noexcept = 0;
  [[nodiscard]] virtual int wait_event(Stream stream, Event event) noexcept = 0;
  /// cuStreamIsCapturing: what it is given becomes a part of a graph, and does not run.
  [[nodiscard]] virtual int is_capturing(Stream stream, bool& capturing) noexcept = 0;

  [[nodiscard]] virtual int create_event(Event& made) noexcept = 0;  ///< without timing
  [[nodiscard]] virtual int destroy_event(Event event) noexcept = 0;
  [[nodiscard]] virtual int record_event(Event event, Stream stream) noexcept = 0;
  /// kCudaNotReady while what was recorded has not ended.
  [[nodiscard]] virtual int query_event(Event event) noexcept = 0;

  /// cuMemHostRegister: the GPU copies from and to this memory of the host by itself; a stream does
  /// not wait for the host, nor the host for a stream.
  [[nodiscard]] virtual int register_host(void* memory, std::size_t bytes) noexcept = 0;
  [[nodiscard]] virtual int unregister_host(void* memory) noexcept = 0;
  /// cuPointerGetAttribute: the device of this memory. Fails for what is no memory of CUDA.
  [[nodiscard]] virtual int device_of(Address address, int& device) noexcept = 0;
  /// In the order of the stream (cuMemAllocAsync, cuMemFreeAsync).
  [[nodiscard]] virtual int allocate(Address& made, std::size_t bytes, Stream stream) noexcept = 0;
  [[nodiscard]] virtual int free(Address address, Stream stream) noexcept = 0;
  /// cuMemcpyAsync, between the memory of a GPU and registered or other memory of the host, too.
  [[nodiscard]] virtual int copy(Address to, Address from, std::size_t bytes,
                                 Stream stream) noexcept = 0;
  /// cuMemcpyPeerAsync: between the memory of two GPUs, given by their contexts. `copy` does not
  /// reach memory of `allocate` on another GPU.
  [[nodiscard]] virtual int copy_peer(Address to, Context to_gpu, Address from, Context from_gpu,
                                      std::size_t bytes, Stream stream) noexcept = 0;
  /// cuMemcpy2DAsync: pitches are at least the width.
  [[nodiscard]] virtual int copy_rows(const Rows& rows, Stream stream) noexcept = 0;

  /// cuMemCreate, of memory that other processes can map. Sizes are multiples of kMemoryStep. It is
  /// there until all that have it have released it and mapped it nowhere, also other processes.
  [[nodiscard]] virtual int create_memory(Memory& made, std::size_t bytes, int device) noexcept = 0;
  [[nodiscard]] virtual int release_memory(Memory memory) noexcept = 0;
  /// A descriptor of the memory, which is the caller's to close.
  [[nodiscard]] virtual int export_memory(int& descriptor, Memory memory) noexcept = 0;
  [[nodiscard]] virtual int import_memory(Memory& made, int descriptor) noexcept = 0;
  [[nodiscard]] virtual int reserve_address(Address& made, std::size_t bytes) noexcept = 0;
  [[nodiscard]] virtual int free_address(Address address, std::size_t bytes) noexcept = 0;
  [[nodiscard]] virtual int map_memory(Address address, std::size_t bytes,
                                       Memory memory) noexcept = 0;
  [[nodiscard]] virtual int unmap_memory(Address address, std::size_t bytes) noexcept = 0;
  /// cuMemSetAccess: this device may read and write it.
  [[nodiscard]] virtual int allow_access(Address address, std::size_t bytes,
                                         int device) noexcept = 0;

  [[nodiscard]] virtual int load_module(Module& made, const void* image) noexcept = 0;
  [[nodiscard]] virtual int unload_module(Module module) noexcept = 0;
  [[nodiscard]] virtual int find_function(Function& found, Module module,
                                          const char* name) noexcept = 0;
  /// cuLaunchKernel, in one dimension. `arguments` are read during the call.
  [[nodiscard]] virtual int launch(Function function, unsigned blocks, unsigned threads,
                                   void** arguments, Stream stream) noexcept = 0;
};

}  // namespace tutti::cuda
