// A CUDA driver whose GPUs are memory of the host, for TUTTI_CUDA_LIBRARY: what loads a real one is
// tested with it in any process. Streams do their work at once. TUTTI_TEST_GPUS: how many GPUs.
// TUTTI_TEST_FULL_GPU_RANK: that rank gets no memory of more than 5 MiB at once.

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "support/host_kernels.hpp"

namespace {

constexpr int kInvalidValue = 1;
constexpr int kOutOfMemory = 2;
constexpr int kNotInitialized = 3;
constexpr int kInvalidContext = 201;

bool initialised = false;
thread_local int depth = 0;  // contexts of this thread
constexpr int kMostContexts = 16;
thread_local int current[kMostContexts];  // their GPUs
void* last_stream = nullptr;              // of the caller: that was asked whether it is captured
std::uintptr_t last_copy[3];              // to, from, bytes

int gpus() {
  const char* const text = std::getenv("TUTTI_TEST_GPUS");
  return text == nullptr ? 1 : std::atoi(text);
}
void* handle_of(std::uintptr_t number) { return reinterpret_cast<void*>(number); }
/// Memory of cuMemAllocAsync and mappings of shared memory, by their end: a GPU reaches only its
/// own.
struct Memory {
  std::uintptr_t begin;
  int gpu;
};
std::atomic<int> shared_memories = 0;
std::mutex mutex;
std::map<std::uintptr_t, Memory>& memory() {
  static auto* const all = new std::map<std::uintptr_t, Memory>();
  return *all;
}
/// -1: it is no memory of cuMemAllocAsync.
int gpu_of(std::uintptr_t address) {
  const std::lock_guard lock(mutex);
  const auto at = memory().upper_bound(address);
  return at == memory().end() || address < at->second.begin ? -1 : at->second.gpu;
}
/// May this be reached from that GPU? What is not known may.
bool may_reach(std::uintptr_t address, int gpu) {
  const int its = gpu_of(address);
  return its == -1 || its == gpu;
}
int in_context() {
  if (!initialised) return kNotInitialized;
  return depth == 0 ? kInvalidContext : 0;
}

}  // namespace

#define TUTTI_DRIVER extern "C" __attribute__((visibility("default"))) int

/// CUDA_MEMCPY2D of cuda.h.
struct Copy2d {
  std::size_t from_x, from_y;
  unsigned from_type;
  const void* from_host;
  std::uintptr_t from_device;
  void* from_array;
  std::size_t from_pitch, to_x, to_y;
  unsigned to_type;
  void* to_host;
  std::uintptr_t to_device;
  void* to_array;
  std::size_t to_pitch, width, height;
};

/// CUmemAccessDesc of cuda.h.
struct Access {
  int kind, gpu, allowed;
};

TUTTI_DRIVER cuGetErrorName(int code, const char** name) {
  *name = code == kInvalidValue ? "CUDA_ERROR_INVALID_VALUE" : "CUDA_ERROR_UNKNOWN";
  return 0;
}
TUTTI_DRIVER cuGetErrorString(int /*code*/, const char** text) {
  *text = "told by the mock driver";
  return 0;
}
TUTTI_DRIVER cuDriverGetVersion(int* version) {
  *version = 13000;
  return 0;
}
TUTTI_DRIVER cuInit(unsigned /*flags*/) {
  initialised = true;
  return 0;
}
TUTTI_DRIVER cuDeviceGetCount(int* count) {
  *count = gpus();
  return initialised ? 0 : kNotInitialized;
}
TUTTI_DRIVER cuDeviceGetName(char* name, int room, int device) {
  std::snprintf(name, static_cast<std::size_t>(room), "mock of a GPU %d", device);
  return initialised ? 0 : kNotInitialized;
}
TUTTI_DRIVER cuDeviceTotalMem_v2(std::size_t* bytes, int /*device*/) {
  *bytes = std::size_t{3} << 29;
  return initialised ? 0 : kNotInitialized;
}
TUTTI_DRIVER cuDeviceGetPCIBusId(char* id, int room, int device) {
  std::snprintf(id, static_cast<std::size_t>(room), "0000:%02x:00.0", device);
  return initialised ? 0 : kNotInitialized;
}
/// Neighbours reach each other.
TUTTI_DRIVER cuDeviceCanAccessPeer(int* may, int device, int other) {
  *may = device - other == 1 || other - device == 1 ? 1 : 0;
  return initialised ? 0 : kNotInitialized;
}
TUTTI_DRIVER cuDevicePrimaryCtxRetain(void** context, int device) {
  if (device < 0 || device >= gpus()) return kInvalidValue;
  *context = handle_of(static_cast<std::uintptr_t>(device) + 1);
  return 0;
}
TUTTI_DRIVER cuDevicePrimaryCtxRelease_v2(int /*device*/) { return 0; }
TUTTI_DRIVER cuCtxPushCurrent_v2(void* context) {
  if (context == nullptr || depth == kMostContexts) return kInvalidValue;
  current[depth++] = static_cast<int>(reinterpret_cast<std::uintptr_t>(context)) - 1;
  return 0;
}
TUTTI_DRIVER cuCtxPopCurrent_v2(void** /*context*/) {
  if (depth == 0) return kInvalidContext;
  --depth;
  return 0;
}
TUTTI_DRIVER cuThreadExchangeStreamCaptureMode(int* /*mode*/) { return in_context(); }
TUTTI_DRIVER cuStreamCreate(void** stream, unsigned /*flags*/) {
  *stream = std::malloc(1);
  return in_context();
}
TUTTI_DRIVER cuStreamDestroy_v2(void* stream) {
  std::free(stream);
  return in_context();
}
TUTTI_DRIVER cuStreamWaitEvent(void* /*stream*/, void* event, unsigned /*flags*/) {
  return event == nullptr ? kInvalidValue : in_context();
}
TUTTI_DRIVER cuStreamIsCapturing(void* stream, int* capturing) {
  *capturing = 0;
  last_stream = stream;
  return in_context();
}
TUTTI_DRIVER cuEventCreate(void** event, unsigned /*flags*/) {
  *event = std::malloc(1);
  return in_context();
}
TUTTI_DRIVER cuEventDestroy_v2(void* event) {
  std::free(event);
  return in_context();
}
TUTTI_DRIVER cuEventRecord(void* event, void* /*stream*/) {
  return event == nullptr ? kInvalidValue : in_context();
}
TUTTI_DRIVER cuEventQuery(void* event) { return event == nullptr ? kInvalidValue : in_context(); }
TUTTI_DRIVER cuMemHostRegister_v2(void* memory, std::size_t bytes, unsigned /*flags*/) {
  return memory == nullptr || bytes == 0 ? kInvalidValue : in_context();
}
TUTTI_DRIVER cuMemHostUnregister(void* memory) {
  return memory == nullptr ? kInvalidValue : in_context();
}
TUTTI_DRIVER cuPointerGetAttribute(void* value, int attribute, std::uintptr_t address) {
  constexpr int kDeviceOrdinal = 9;
  if (!initialised) return kNotInitialized;
  const int gpu = gpu_of(address);
  if (attribute != kDeviceOrdinal || gpu == -1) return kInvalidValue;
  std::memcpy(value, &gpu, sizeof gpu);
  return 0;
}
TUTTI_DRIVER cuMemAllocAsync(std::uintptr_t* address, std::size_t bytes, void* /*stream*/) {
  if (const int wrong = in_context(); wrong != 0) return wrong;
  const char* const full = std::getenv("TUTTI_TEST_FULL_GPU_RANK");
  const char* const rank = std::getenv("RANK");
  constexpr std::size_t kMost = std::size_t{5} << 20;
  if (full != nullptr && rank != nullptr && std::strcmp(full, rank) == 0 && bytes > kMost)
    return kOutOfMemory;
  *address = reinterpret_cast<std::uintptr_t>(std::malloc(bytes));
  const std::lock_guard lock(mutex);
  memory()[*address + bytes] = {*address, current[depth - 1]};
  return 0;
}
TUTTI_DRIVER cuMemFreeAsync(std::uintptr_t address, void* /*stream*/) {
  {
    const std::lock_guard lock(mutex);
    memory().erase(memory().upper_bound(address));
  }
  std::free(reinterpret_cast<void*>(address));
  return in_context();
}
TUTTI_DRIVER cuMemcpyAsync(std::uintptr_t to, std::uintptr_t from, std::size_t bytes,
                           void* /*stream*/) {
  if (const int wrong = in_context(); wrong != 0) return wrong;
  if (!may_reach(to, current[depth - 1]) || !may_reach(from, current[depth - 1]))
    return kInvalidValue;
  {
    const std::lock_guard lock(mutex);
    last_copy[0] = to;
    last_copy[1] = from;
    last_copy[2] = bytes;
  }
  if (bytes != 0)
    std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
  return 0;
}
TUTTI_DRIVER cuMemcpyPeerAsync(std::uintptr_t to, void* to_gpu, std::uintptr_t from, void* from_gpu,
                               std::size_t bytes, void* /*stream*/) {
  if (const int wrong = in_context(); wrong != 0) return wrong;
  const auto number = [](void* context) {
    return static_cast<int>(reinterpret_cast<std::uintptr_t>(context)) - 1;
  };
  if (!may_reach(to, number(to_gpu)) || !may_reach(from, number(from_gpu))) return kInvalidValue;
  if (bytes != 0)
    std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
  return 0;
}
TUTTI_DRIVER cuMemcpy2DAsync_v2(const Copy2d* copy, void* /*stream*/) {
  if (const int wrong = in_context(); wrong != 0) return wrong;
  constexpr unsigned kUnified = 4;
  if (copy->from_type != kUnified || copy->to_type != kUnified || copy->from_pitch < copy->width ||
      copy->to_pitch < copy->width || !may_reach(copy->from_device, current[depth - 1]) ||
      !may_reach(copy->to_device, current[depth - 1]))
    return kInvalidValue;
  for (std::size_t row = 0; row < copy->height; ++row) {
    std::memcpy(reinterpret_cast<void*>(copy->to_device + row * copy->to_pitch),
                reinterpret_cast<const void*>(copy->from_device + row * copy->from_pitch),
                copy->width);
  }
  return 0;
}
// Memory that processes share is a memfd, and its handle the descriptor.
TUTTI_DRIVER cuMemCreate(std::uint64_t* memory, std::size_t bytes, const void* /*kind*/,
                         unsigned long long /*flags*/) {
  const int fd = ::memfd_create("mock-gpu", MFD_CLOEXEC);
  if (fd < 0 || bytes % (std::size_t{2} << 20) != 0 ||
      ::ftruncate(fd, static_cast<off_t>(bytes)) != 0)
    return kInvalidValue;
  *memory = static_cast<std::uint64_t>(fd);
  ++shared_memories;
  return in_context();
}
TUTTI_DRIVER cuMemRelease(std::uint64_t memory) {
  return ::close(static_cast<int>(memory)) == 0 ? 0 : kInvalidValue;
}
TUTTI_DRIVER cuMemExportToShareableHandle(void* descriptor, std::uint64_t memory, int type,
                                          unsigned long long /*flags*/) {
  const int fd = ::dup(static_cast<int>(memory));
  std::memcpy(descriptor, &fd, sizeof fd);
  return type != 1 || fd < 0 ? kInvalidValue : in_context();
}
TUTTI_DRIVER cuMemImportFromShareableHandle(std::uint64_t* memory, void* descriptor, int type) {
  const int fd = ::dup(static_cast<int>(reinterpret_cast<std::intptr_t>(descriptor)));
  *memory = static_cast<std::uint64_t>(fd);
  return type != 1 || fd < 0 ? kInvalidValue : in_context();
}
TUTTI_DRIVER cuMemAddressReserve(std::uintptr_t* address, std::size_t bytes,
                                 std::size_t /*alignment*/, std::uintptr_t /*at*/,
                                 unsigned long long /*flags*/) {
  void* const place =
      ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  *address = reinterpret_cast<std::uintptr_t>(place);
  return place == MAP_FAILED ? kInvalidValue : in_context();
}
TUTTI_DRIVER cuMemAddressFree(std::uintptr_t address, std::size_t bytes) {
  return ::munmap(reinterpret_cast<void*>(address), bytes) == 0 ? 0 : kInvalidValue;
}
TUTTI_DRIVER cuMemMap(std::uintptr_t address, std::size_t bytes, std::size_t /*offset*/,
                      std::uint64_t memory, unsigned long long /*flags*/) {
  void* const place = ::mmap(reinterpret_cast<void*>(address), bytes, PROT_NONE,
                             MAP_SHARED | MAP_FIXED, static_cast<int>(memory), 0);
  return place == MAP_FAILED ? kInvalidValue : in_context();
}
TUTTI_DRIVER cuMemUnmap(std::uintptr_t address, std::size_t bytes) {
  {
    const std::lock_guard lock(mutex);
    memory().erase(address + bytes);
  }
  void* const place = ::mmap(reinterpret_cast<void*>(address), bytes, PROT_NONE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  return place == MAP_FAILED ? kInvalidValue : 0;
}
TUTTI_DRIVER cuMemSetAccess(std::uintptr_t address, std::size_t bytes, const Access* access,
                            std::size_t count) {
  if (count != 1 || access->gpu >= gpus()) return kInvalidValue;
  {
    const std::lock_guard lock(mutex);
    memory()[address + bytes] = {address, access->gpu};
  }
  return ::mprotect(reinterpret_cast<void*>(address), bytes, PROT_READ | PROT_WRITE) == 0
             ? in_context()
             : kInvalidValue;
}
TUTTI_DRIVER cuModuleLoadData(void** module, const void* image) {
  *module = handle_of(1);
  return image == nullptr ? kInvalidValue : in_context();
}
TUTTI_DRIVER cuModuleUnload(void* /*module*/) { return 0; }
TUTTI_DRIVER cuModuleGetFunction(void** function, void* /*module*/, const char* name) {
  *function = reinterpret_cast<void*>(tutti::cuda::kernels::host_kernel(name));
  return *function == nullptr ? kInvalidValue : in_context();
}
TUTTI_DRIVER cuLaunchKernel(void* function, unsigned /*blocks*/, unsigned /*y*/, unsigned /*z*/,
                            unsigned /*threads*/, unsigned /*threads_y*/, unsigned /*threads_z*/,
                            unsigned /*shared*/, void* /*stream*/, void** arguments,
                            void** /*extra*/) {
  reinterpret_cast<tutti::cuda::kernels::HostKernel>(function)(
      *static_cast<const tutti::cuda::kernels::ReduceArguments*>(arguments[0]));
  return in_context();
}

/// For tests: the last copy within the memory of a GPU, or from or to it.
TUTTI_DRIVER tuttiTestLastCopy(std::uintptr_t* to, std::uintptr_t* from, std::size_t* bytes) {
  const std::lock_guard lock(mutex);
  *to = last_copy[0];
  *from = last_copy[1];
  *bytes = last_copy[2];
  return 0;
}
/// For tests: the stream of the last call.
TUTTI_DRIVER tuttiTestLastStream(void** stream) {
  *stream = last_stream;
  return 0;
}
/// And how often cuMemCreate has made memory for several processes.
TUTTI_DRIVER tuttiTestSharedMemories(int* count) {
  *count = shared_memories;
  return 0;
}
