// The C functions of a CUDA driver for TUTTI_CUDA_LIBRARY, over the model of mock_gpu.hpp: what
// loads a real one is tested with it in any process. Streams do their work at once. Misuse is an
// error of the call, and its text goes to stderr.
// TUTTI_TEST_GPUS: how many GPUs. TUTTI_TEST_FULL_GPU_RANK: that rank gets no memory of more than
// 5 MiB at once.

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>

#include "support/mock_gpu.hpp"

namespace {

using namespace tutti::cuda;

constexpr int kInvalidValue = 1;
constexpr int kOutOfMemory = 2;

/// CUDA_MEMCPY2D of cuda.h.
struct Copy2d {
  std::size_t from_x, from_y;
  unsigned from_type;
  const void* from_host;
  Address from_device;
  void* from_array;
  std::size_t from_pitch, to_x, to_y;
  unsigned to_type;
  void* to_host;
  Address to_device;
  void* to_array;
  std::size_t to_pitch, width, height;
};

/// CUmemAccessDesc of cuda.h.
struct Access {
  int kind, gpu, allowed;
};

tutti::test::MockMachine& machine() { return tutti::test::MockMachine::of_process(); }
CudaApi& gpus() {
  static CudaApi* const one = [] {
    const char* const count = std::getenv("TUTTI_TEST_GPUS");
    return make_mock_cuda(machine(), 0, count == nullptr ? 1 : std::atoi(count)).release();
  }();
  return *one;
}

int told(int code) {
  const std::lock_guard lock(machine().mutex);
  const std::string why = machine().new_misuses();
  if (why.empty()) return code;
  std::fprintf(stderr, "mock of CUDA: %s", why.c_str());
  return kInvalidValue;
}
int copied(char* to, int room, int code, const std::string& text) {
  std::snprintf(to, static_cast<std::size_t>(room), "%s", text.c_str());
  return told(code);
}

std::atomic<Stream> last_stream{};     // of the caller: that was asked whether it is captured
std::array<std::size_t, 3> last_copy;  // to, from, bytes; under the mutex of the machine

}  // namespace

#define TUTTI_DRIVER extern "C" __attribute__((visibility("default"))) int
/// A function that is one call of the model.
#define TUTTI_FORWARD(name, parameters, call) \
  TUTTI_DRIVER name parameters { return told(gpus().call); }

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
TUTTI_FORWARD(cuInit, (unsigned /*flags*/), init())
TUTTI_FORWARD(cuDeviceGetCount, (int* count), device_count(*count))
TUTTI_DRIVER cuDeviceGetName(char* name, int room, int device) {
  std::string text;
  const int code = gpus().device_name(device, text);
  return copied(name, room, code, text);
}
TUTTI_FORWARD(cuDeviceTotalMem_v2, (std::size_t * bytes, int device), device_memory(device, *bytes))
TUTTI_DRIVER cuDeviceGetPCIBusId(char* id, int room, int device) {
  std::string text;
  const int code = gpus().bus_id(device, text);
  return copied(id, room, code, text);
}
TUTTI_DRIVER cuDeviceCanAccessPeer(int* may, int device, int other) {
  bool yes = false;
  const int code = gpus().can_access_peer(device, other, yes);
  *may = yes ? 1 : 0;
  return told(code);
}
TUTTI_FORWARD(cuDevicePrimaryCtxRetain, (Context * context, int device),
              retain_context(device, *context))
TUTTI_FORWARD(cuDevicePrimaryCtxRelease_v2, (int device), release_context(device))
TUTTI_FORWARD(cuCtxPushCurrent_v2, (Context context), push_context(context))
TUTTI_FORWARD(cuCtxPopCurrent_v2, (Context * /*before*/), pop_context())
TUTTI_FORWARD(cuThreadExchangeStreamCaptureMode, (int* mode), exchange_capture_mode(*mode))
TUTTI_FORWARD(cuStreamCreate, (Stream * stream, unsigned /*flags*/), create_stream(*stream))
TUTTI_FORWARD(cuStreamDestroy_v2, (Stream stream), destroy_stream(stream))
TUTTI_FORWARD(cuStreamWaitEvent, (Stream stream, Event event, unsigned /*flags*/),
              wait_event(stream, event))
TUTTI_DRIVER cuStreamIsCapturing(Stream stream, int* capturing) {
  last_stream = stream;
  bool yes = false;
  const int code = gpus().is_capturing(stream, yes);
  *capturing = yes ? 1 : 0;
  return told(code);
}
TUTTI_FORWARD(cuEventCreate, (Event * event, unsigned /*flags*/), create_event(*event))
TUTTI_FORWARD(cuEventDestroy_v2, (Event event), destroy_event(event))
TUTTI_FORWARD(cuEventRecord, (Event event, Stream stream), record_event(event, stream))
TUTTI_FORWARD(cuEventQuery, (Event event), query_event(event))
TUTTI_FORWARD(cuMemHostRegister_v2, (void* memory, std::size_t bytes, unsigned /*flags*/),
              register_host(memory, bytes))
TUTTI_FORWARD(cuMemHostUnregister, (void* memory), unregister_host(memory))
TUTTI_DRIVER cuPointerGetAttribute(int* value, int attribute, Address address) {
  constexpr int kDeviceOrdinal = 9;
  return attribute == kDeviceOrdinal ? told(gpus().device_of(address, *value)) : kInvalidValue;
}
TUTTI_DRIVER cuMemAllocAsync(Address* address, std::size_t bytes, Stream stream) {
  const char* const full = std::getenv("TUTTI_TEST_FULL_GPU_RANK");
  const char* const rank = std::getenv("RANK");
  constexpr std::size_t kMost = std::size_t{5} << 20;
  if (full != nullptr && rank != nullptr && std::strcmp(full, rank) == 0 && bytes > kMost)
    return kOutOfMemory;
  return told(gpus().allocate(*address, bytes, stream));
}
TUTTI_FORWARD(cuMemFreeAsync, (Address address, Stream stream), free(address, stream))
TUTTI_DRIVER cuMemcpyAsync(Address to, Address from, std::size_t bytes, Stream stream) {
  {
    const std::lock_guard lock(machine().mutex);
    last_copy = {to, from, bytes};
  }
  return told(gpus().copy(to, from, bytes, stream));
}
TUTTI_FORWARD(cuMemcpyPeerAsync,
              (Address to, Context to_gpu, Address from, Context from_gpu, std::size_t bytes,
               Stream stream),
              copy_peer(to, to_gpu, from, from_gpu, bytes, stream))
TUTTI_DRIVER cuMemcpy2DAsync_v2(const Copy2d* copy, Stream stream) {
  constexpr unsigned kUnified = 4;
  if (copy->from_type != kUnified || copy->to_type != kUnified) return kInvalidValue;
  return told(gpus().copy_rows({copy->to_device, copy->to_pitch, copy->from_device,
                                copy->from_pitch, copy->width, copy->height},
                               stream));
}
TUTTI_FORWARD(cuMemCreate,
              (Memory * memory, std::size_t bytes, const void* /*kind*/,
               unsigned long long /*flags*/),
              create_memory(*memory, bytes, 0))
TUTTI_FORWARD(cuMemRelease, (Memory memory), release_memory(memory))
TUTTI_DRIVER cuMemExportToShareableHandle(int* descriptor, Memory memory, int type,
                                          unsigned long long /*flags*/) {
  return type == 1 ? told(gpus().export_memory(*descriptor, memory)) : kInvalidValue;
}
TUTTI_DRIVER cuMemImportFromShareableHandle(Memory* memory, std::intptr_t descriptor, int type) {
  return type == 1 ? told(gpus().import_memory(*memory, static_cast<int>(descriptor)))
                   : kInvalidValue;
}
TUTTI_FORWARD(cuMemAddressReserve,
              (Address * address, std::size_t bytes, std::size_t /*alignment*/, Address /*at*/,
               unsigned long long /*flags*/),
              reserve_address(*address, bytes))
TUTTI_FORWARD(cuMemAddressFree, (Address address, std::size_t bytes), free_address(address, bytes))
TUTTI_FORWARD(cuMemMap,
              (Address address, std::size_t bytes, std::size_t /*offset*/, Memory memory,
               unsigned long long /*flags*/),
              map_memory(address, bytes, memory))
TUTTI_FORWARD(cuMemUnmap, (Address address, std::size_t bytes), unmap_memory(address, bytes))
TUTTI_DRIVER cuMemSetAccess(Address address, std::size_t bytes, const Access* access,
                            std::size_t count) {
  return count == 1 ? told(gpus().allow_access(address, bytes, access->gpu)) : kInvalidValue;
}
TUTTI_FORWARD(cuModuleLoadData, (Module * module, const void* image), load_module(*module, image))
TUTTI_FORWARD(cuModuleUnload, (Module module), unload_module(module))
TUTTI_FORWARD(cuModuleGetFunction, (Function * function, Module module, const char* name),
              find_function(*function, module, name))
TUTTI_FORWARD(cuLaunchKernel,
              (Function function, unsigned blocks, unsigned /*y*/, unsigned /*z*/, unsigned threads,
               unsigned /*threads_y*/, unsigned /*threads_z*/, unsigned /*shared*/, Stream stream,
               void** arguments, void** /*extra*/),
              launch(function, blocks, threads, arguments, stream))

/// For tests: the last copy within the memory of a GPU, or from or to it.
TUTTI_DRIVER tuttiTestLastCopy(Address* to, Address* from, std::size_t* bytes) {
  const std::lock_guard lock(machine().mutex);
  *to = last_copy[0];
  *from = last_copy[1];
  *bytes = last_copy[2];
  return 0;
}
/// For tests: the stream of the last call.
TUTTI_DRIVER tuttiTestLastStream(Stream* stream) {
  *stream = last_stream;
  return 0;
}
/// And how often cuMemCreate has made memory for several processes.
TUTTI_DRIVER tuttiTestSharedMemories(int* count) {
  const std::lock_guard lock(machine().mutex);
  const auto& calls = machine().calls(0);
  const auto made = calls.find("cuMemCreate");
  *count = made == calls.end() ? 0 : made->second;
  return 0;
}
