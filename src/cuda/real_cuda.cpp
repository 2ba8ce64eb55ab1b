#include "cuda/real_cuda.hpp"

#include <array>
#include <utility>

#include "base/shown.hpp"
#include "cuda/functions.hpp"

namespace tutti::cuda {
namespace {

template <class Handle>
void* of(Handle handle) noexcept {
  return reinterpret_cast<void*>(handle);
}

template <class Handle>
Handle as(void* pointer) noexcept {
  return static_cast<Handle>(reinterpret_cast<std::uintptr_t>(pointer));
}

class RealCuda final : public CudaApi {
 public:
  RealCuda(const CudaFunctions& functions, std::string path)
      : f_(functions), path_(std::move(path)) {}

  [[nodiscard]] std::string error_text(int code) const override {
    const char* name = nullptr;
    const char* text = nullptr;
    (void)f_.cuGetErrorName(code, &name);
    (void)f_.cuGetErrorString(code, &text);
    return base::shown(name == nullptr ? "an unknown error" : name) + " (" + std::to_string(code) +
           ")" + (text == nullptr ? "" : ": " + base::shown(text));
  }
  [[nodiscard]] std::string about() const override {
    int version = 0;
    std::string text = "driver " + base::shown(path_);
    if (f_.cuDriverGetVersion(&version) == 0)
      text += " (CUDA " + std::to_string(version / 1000) + "." +
              std::to_string(version % 1000 / 10) + ")";
    return text;
  }

  [[nodiscard]] int init() noexcept override { return f_.cuInit(0); }
  [[nodiscard]] int device_count(int& count) noexcept override {
    return f_.cuDeviceGetCount(&count);
  }
  // A CUdevice is its number.
  [[nodiscard]] int device_name(int device, std::string& name) override {
    std::array<char, 256> text{};
    const int code = f_.cuDeviceGetName(text.data(), static_cast<int>(text.size()) - 1, device);
    name = base::shown(text.data());
    return code;
  }
  [[nodiscard]] int device_memory(int device, std::size_t& bytes) noexcept override {
    return f_.cuDeviceTotalMem_v2(&bytes, device);
  }
  [[nodiscard]] int bus_id(int device, std::string& id) override {
    std::array<char, 64> text{};
    const int code = f_.cuDeviceGetPCIBusId(text.data(), static_cast<int>(text.size()) - 1, device);
    id = base::shown(text.data());
    return code;
  }
  [[nodiscard]] int can_access_peer(int device, int other, bool& may) noexcept override {
    int yes = 0;
    const int code = f_.cuDeviceCanAccessPeer(&yes, device, other);
    may = yes != 0;
    return code;
  }
  [[nodiscard]] int retain_context(int device, Context& made) noexcept override {
    void* context = nullptr;
    const int code = f_.cuDevicePrimaryCtxRetain(&context, device);
    made = as<Context>(context);
    return code;
  }
  [[nodiscard]] int release_context(int device) noexcept override {
    return f_.cuDevicePrimaryCtxRelease_v2(device);
  }
  [[nodiscard]] int push_context(Context context) noexcept override {
    return f_.cuCtxPushCurrent_v2(of(context));
  }
  [[nodiscard]] int pop_context() noexcept override {
    void* before = nullptr;
    return f_.cuCtxPopCurrent_v2(&before);
  }
  [[nodiscard]] int exchange_capture_mode(int& mode) noexcept override {
    return f_.cuThreadExchangeStreamCaptureMode(&mode);
  }

  [[nodiscard]] int create_stream(Stream& made) noexcept override {
    void* stream = nullptr;
    const int code = f_.cuStreamCreate(&stream, kStreamNonBlocking);
    made = as<Stream>(stream);
    return code;
  }
  [[nodiscard]] int destroy_stream(Stream stream) noexcept override {
    return f_.cuStreamDestroy_v2(of(stream));
  }
  [[nodiscard]] int wait_event(Stream stream, Event event) noexcept override {
    return f_.cuStreamWaitEvent(of(stream), of(event), 0);
  }
  [[nodiscard]] int is_capturing(Stream stream, bool& capturing) noexcept override {
    int status = 0;
    const int code = f_.cuStreamIsCapturing(of(stream), &status);
    capturing = status != 0;
    return code;
  }

  [[nodiscard]] int create_event(Event& made) noexcept override {
    void* event = nullptr;
    const int code = f_.cuEventCreate(&event, kEventDisableTiming);
    made = as<Event>(event);
    return code;
  }
  [[nodiscard]] int destroy_event(Event event) noexcept override {
    return f_.cuEventDestroy_v2(of(event));
  }
  [[nodiscard]] int record_event(Event event, Stream stream) noexcept override {
    return f_.cuEventRecord(of(event), of(stream));
  }
  [[nodiscard]] int query_event(Event event) noexcept override {
    return f_.cuEventQuery(of(event));
  }
  [[nodiscard]] int register_host(void* memory, std::size_t bytes) noexcept override {
    return f_.cuMemHostRegister_v2(memory, bytes, kRegisterPortable);
  }
  [[nodiscard]] int unregister_host(void* memory) noexcept override {
    return f_.cuMemHostUnregister(memory);
  }
  [[nodiscard]] int device_of(Address address, int& device) noexcept override {
    return f_.cuPointerGetAttribute(&device, kDeviceOrdinal, address);
  }
  [[nodiscard]] int allocate(Address& made, std::size_t bytes, Stream stream) noexcept override {
    return f_.cuMemAllocAsync(&made, bytes, of(stream));
  }
  [[nodiscard]] int free(Address address, Stream stream) noexcept override {
    return f_.cuMemFreeAsync(address, of(stream));
  }
  [[nodiscard]] int copy(Address to, Address from, std::size_t bytes,
                         Stream stream) noexcept override {
    return f_.cuMemcpyAsync(to, from, bytes, of(stream));
  }
  [[nodiscard]] int copy_peer(Address to, Context to_gpu, Address from, Context from_gpu,
                              std::size_t bytes, Stream stream) noexcept override {
    return f_.cuMemcpyPeerAsync(to, of(to_gpu), from, of(from_gpu), bytes, of(stream));
  }
  [[nodiscard]] int copy_rows(const Rows& rows, Stream stream) noexcept override {
    CudaCopy2d copy;
    copy.from_device = rows.from;
    copy.from_pitch = rows.from_pitch;
    copy.to_device = rows.to;
    copy.to_pitch = rows.to_pitch;
    copy.width = rows.width;
    copy.height = rows.rows;
    return f_.cuMemcpy2DAsync_v2(&copy, of(stream));
  }

  [[nodiscard]] int create_memory(Memory& made, std::size_t bytes, int device) noexcept override {
    CudaMemoryKind kind;
    kind.location.device = device;
    std::uint64_t handle = 0;
    const int code = f_.cuMemCreate(&handle, bytes, &kind, 0);
    made = static_cast<Memory>(handle);
    return code;
  }
  [[nodiscard]] int release_memory(Memory memory) noexcept override {
    return f_.cuMemRelease(static_cast<std::uint64_t>(memory));
  }
  [[nodiscard]] int export_memory(int& descriptor, Memory memory) noexcept override {
    return f_.cuMemExportToShareableHandle(&descriptor, static_cast<std::uint64_t>(memory),
                                           CudaMemoryKind::kDescriptor, 0);
  }
  [[nodiscard]] int import_memory(Memory& made, int descriptor) noexcept override {
    std::uint64_t handle = 0;
    // The descriptor itself, and not where it stands.
    const int code = f_.cuMemImportFromShareableHandle(
        &handle, reinterpret_cast<void*>(static_cast<std::intptr_t>(descriptor)),
        CudaMemoryKind::kDescriptor);
    made = static_cast<Memory>(handle);
    return code;
  }
  [[nodiscard]] int reserve_address(Address& made, std::size_t bytes) noexcept override {
    return f_.cuMemAddressReserve(&made, bytes, 0, 0, 0);
  }
  [[nodiscard]] int free_address(Address address, std::size_t bytes) noexcept override {
    return f_.cuMemAddressFree(address, bytes);
  }
  [[nodiscard]] int map_memory(Address address, std::size_t bytes,
                               Memory memory) noexcept override {
    return f_.cuMemMap(address, bytes, 0, static_cast<std::uint64_t>(memory), 0);
  }
  [[nodiscard]] int unmap_memory(Address address, std::size_t bytes) noexcept override {
    return f_.cuMemUnmap(address, bytes);
  }
  [[nodiscard]] int allow_access(Address address, std::size_t bytes, int device) noexcept override {
    CudaAccess access;
    access.location.device = device;
    return f_.cuMemSetAccess(address, bytes, &access, 1);
  }

  [[nodiscard]] int load_module(Module& made, const void* image) noexcept override {
    void* module = nullptr;
    const int code = f_.cuModuleLoadData(&module, image);
    made = as<Module>(module);
    return code;
  }
  [[nodiscard]] int unload_module(Module module) noexcept override {
    return f_.cuModuleUnload(of(module));
  }
  [[nodiscard]] int find_function(Function& found, Module module,
                                  const char* name) noexcept override {
    void* function = nullptr;
    const int code = f_.cuModuleGetFunction(&function, of(module), name);
    found = as<Function>(function);
    return code;
  }
  [[nodiscard]] int launch(Function function, unsigned blocks, unsigned threads, void** arguments,
                           Stream stream) noexcept override {
    return f_.cuLaunchKernel(of(function), blocks, 1, 1, threads, 1, 1, 0, of(stream), arguments,
                             nullptr);
  }

 private:
  CudaFunctions f_;
  std::string path_;
};

}  // namespace

Result<std::unique_ptr<CudaApi>> real_cuda(void* library, std::string path) {
  CudaFunctions functions;
  if (Outcome loaded = functions.load(library); !loaded.ok()) return loaded;
  return std::unique_ptr<CudaApi>(std::make_unique<RealCuda>(functions, std::move(path)));
}

}  // namespace tutti::cuda
