#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <utility>

#include "cuda/kernels/elements.hpp"
#include "support/host_kernels.hpp"
#include "support/mock_gpu.hpp"

// The functions of the driver as one rank has them.
namespace tutti::test {
namespace {

constexpr int kInvalidValue = 1;
constexpr int kInvalidContext = 201;
constexpr int kFailure = 719;

/// Contexts of a thread, the current one last. Without a destructor, as a thread may end before the
/// last call.
struct Contexts {
  std::size_t depth = 0;
  std::array<cuda::Context, 16> all{};
};
thread_local Contexts contexts;
thread_local int capture_mode = 0;  // CU_STREAM_CAPTURE_MODE_GLOBAL

/// The current device of this thread; -1: none.
int device_now() {
  return contexts.depth == 0 ? -1 : static_cast<int>(contexts.all[contexts.depth - 1]) - 1;
}

class MockCuda final : public cuda::CudaApi {
 public:
  MockCuda(MockMachine& machine, int rank, int devices)
      : machine_(machine), rank_(rank), devices_(devices) {}

  std::string error_text(int code) const override {
    return code == kFailure ? "a planted fault of CUDA (719)"
                            : "CUDA error " + std::to_string(code);
  }
  std::string about() const override { return "a mock driver"; }
  int init() noexcept override {
    return call_anywhere("cuInit", [&] { initialized_ = true; });
  }
  int device_count(int& count) noexcept override {
    return call_anywhere("cuDeviceGetCount", [&] { count = devices_; });
  }
  int device_name(int device, std::string& name) override {
    return call_anywhere("cuDeviceGetName",
                         [&] { name = "mock of a GPU " + std::to_string(device); });
  }
  int device_memory(int /*device*/, std::size_t& bytes) noexcept override {
    return call_anywhere("cuDeviceTotalMem", [&] { bytes = std::size_t{3} << 29; });
  }
  /// Neighbours reach each other.
  int can_access_peer(int device, int other, bool& may) noexcept override {
    return call_anywhere("cuDeviceCanAccessPeer", [&] { may = std::abs(device - other) == 1; });
  }
  int device_of(cuda::Address address, int& device) noexcept override {
    int code = call_anywhere("cuPointerGetAttribute", [&] { device = owner_of(address); });
    return code == 0 && device == -1 ? kInvalidValue : code;
  }
  int bus_id(int device, std::string& id) override {
    return call_anywhere("cuDeviceGetPCIBusId", [&] {
      std::array<char, 16> text{};
      (void)std::snprintf(text.data(), text.size(), "0000:%02x:00.0",
                          static_cast<unsigned>(machine_.first_gpu[rank_] + device) & 0xffU);
      id = text.data();
    });
  }
  int retain_context(int device, cuda::Context& made) noexcept override {
    return call_anywhere("cuDevicePrimaryCtxRetain", [&] {
      check_device(device);
      ++machine_.alive["contexts"];
      made = static_cast<cuda::Context>(device + 1);
    });
  }
  int release_context(int /*device*/) noexcept override {
    return give_back([&] { --machine_.alive["contexts"]; });
  }
  int push_context(cuda::Context context) noexcept override {
    return call_anywhere("cuCtxPushCurrent", [&] {
      if (context == cuda::Context{}) machine_.misuse("no context is pushed");
      contexts.all.at(contexts.depth++) = context;
    });
  }
  int pop_context() noexcept override {
    if (contexts.depth == 0) return kInvalidContext;
    --contexts.depth;
    return 0;
  }
  int exchange_capture_mode(int& mode) noexcept override {
    const auto swap = [&] { std::swap(mode, capture_mode); };
    if (mode == cuda::kCaptureRelaxed)
      return call_anywhere("cuThreadExchangeStreamCaptureMode", swap);
    swap();  // nobody can be told of a failure here
    return 0;
  }

  int create_stream(cuda::Stream& made) noexcept override {
    return call("cuStreamCreate",
                [&] { made = static_cast<cuda::Stream>(machine_.make_stream(rank_)); });
  }
  int destroy_stream(cuda::Stream stream) noexcept override {
    const std::lock_guard lock(machine_.mutex);
    machine_.drop_stream(rank_, static_cast<std::uintptr_t>(stream));
    return 0;
  }
  int create_event(cuda::Event& made) noexcept override {
    return call("cuEventCreate", [&] {
      made = static_cast<cuda::Event>(next_event_++);
      events_[made] = nullptr;
      ++machine_.alive["events"];
    });
  }
  int destroy_event(cuda::Event event) noexcept override {
    const std::lock_guard lock(machine_.mutex);
    if (events_.erase(event) != 1) machine_.misuse("an event is destroyed that is none");
    --machine_.alive["events"];
    return 0;
  }
  int record_event(cuda::Event event, cuda::Stream stream) noexcept override {
    return call("cuEventRecord", [&] {
      const auto at = events_.find(event);
      if (at == events_.end()) return machine_.misuse("an event is recorded that is none");
      at->second = std::make_shared<MockMachine::Mark>();
      push(stream, {.records = at->second});
    });
  }
  int wait_event(cuda::Stream stream, cuda::Event event) noexcept override {
    return call("cuStreamWaitEvent", [&] {
      const auto at = events_.find(event);
      if (at == events_.end()) return machine_.misuse("a stream waits for an event that is none");
      if (at->second != nullptr) push(stream, {.waits = at->second});
    });
  }
  int query_event(cuda::Event event) noexcept override {
    int outcome = 0;
    const int code = call("cuEventQuery", [&] {
      machine_.pump();
      MockMachine::Mark* const mark = events_[event].get();
      if (mark == nullptr) return;
      if (!mark->done) {
        outcome = cuda::kCudaNotReady;
        return;
      }
      if (std::exchange(mark->seen, true)) ++machine_.looked_again;
      machine_.join_host(rank_, mark->clock);
    });
    return code != 0 ? code : outcome;
  }
  int is_capturing(cuda::Stream stream, bool& capturing) noexcept override {
    bool implicit = false;
    const int code = call("cuStreamIsCapturing", [&] {
      const std::uintptr_t captured = machine_.captured(rank_);
      capturing = captured != 0 && captured == static_cast<std::uintptr_t>(stream);
      implicit = captured != 0 && stream == cuda::Stream{};
    });
    return implicit ? cuda::kCudaCaptureImplicit : code;
  }

  int register_host(void* memory, std::size_t bytes) noexcept override {
    return call("cuMemHostRegister", [&] {
      if (!registered_.emplace(memory, bytes).second) machine_.misuse("memory is registered twice");
      ++machine_.alive["registered memory"];
    });
  }
  int unregister_host(void* memory) noexcept override {
    return give_back([&] {
      const auto at = registered_.find(memory);
      if (at == registered_.end())
        return machine_.misuse("memory is unregistered that is not registered");
      const auto begin = reinterpret_cast<std::uintptr_t>(memory);
      machine_.forget(rank_, begin, begin + at->second);
      registered_.erase(at);
      --machine_.alive["registered memory"];
    });
  }
  int allocate(cuda::Address& made, std::size_t bytes, cuda::Stream stream) noexcept override {
    return call("cuMemAllocAsync", [&] {
      auto memory = std::make_unique_for_overwrite<std::byte[]>(bytes);
      made = reinterpret_cast<cuda::Address>(memory.get());
      memory_[made] = {made + bytes, device_now(), std::move(memory)};
      ++machine_.alive["allocations"];
      push(stream, {.accesses = {{made, made + bytes, true}}});
    });
  }
  int free(cuda::Address address, cuda::Stream stream) noexcept override {
    const std::lock_guard lock(machine_.mutex);
    // Given back all the same: who calls it has no second chance.
    const int code = enter("cuMemFreeAsync", true);
    const auto at = memory_.find(address);
    if (at == memory_.end() || at->second.memory == nullptr) {
      machine_.misuse("memory is freed that is none");
      return code;
    }
    const cuda::Address end = at->second.end;
    const auto ended = [this, address, end] {
      machine_.forget(rank_, address, end);
      memory_.erase(address);
      --machine_.alive["allocations"];
    };
    push(stream, {.ended = ended, .accesses = {{address, end, true}}});
    return code;
  }
  int copy(cuda::Address to, cuda::Address from, std::size_t bytes,
           cuda::Stream stream) noexcept override {
    return call("cuMemcpyAsync", [&] {
      for (const cuda::Address place : {to, from}) check_reach(place, device_now());
      push_copy(to, from, bytes, stream);
    });
  }
  int copy_peer(cuda::Address to, cuda::Context to_gpu, cuda::Address from, cuda::Context from_gpu,
                std::size_t bytes, cuda::Stream stream) noexcept override {
    return call("cuMemcpyPeerAsync", [&] {
      if (to_gpu == from_gpu || to_gpu == cuda::Context{} || from_gpu == cuda::Context{})
        machine_.misuse("cuMemcpyPeerAsync within one GPU");
      check_reach(to, static_cast<int>(to_gpu) - 1);
      check_reach(from, static_cast<int>(from_gpu) - 1);
      push_copy(to, from, bytes, stream);
    });
  }
  int copy_rows(const cuda::Rows& rows, cuda::Stream stream) noexcept override {
    return call("cuMemcpy2DAsync", [&] {
      if (rows.from_pitch < rows.width || rows.to_pitch < rows.width)
        machine_.misuse("cuMemcpy2DAsync with a pitch below the width");
      for (const cuda::Address place : {rows.to, rows.from}) check_reach(place, device_now());
      MockMachine::Item item;
      // As runs: a list of all rows would take the test's time.
      for (std::size_t i = 0; i < rows.rows; i += 64) {
        const cuda::Address from = rows.from + i * rows.from_pitch;
        const cuda::Address to = rows.to + i * rows.to_pitch;
        item.accesses.push_back({from, from + rows.width, false});
        item.accesses.push_back({to, to + rows.width, true});
      }
      item.run = [rows] {
        for (std::size_t i = 0; i < rows.rows; ++i) {
          std::memcpy(reinterpret_cast<void*>(rows.to + i * rows.to_pitch),
                      reinterpret_cast<const void*>(rows.from + i * rows.from_pitch), rows.width);
        }
        return true;
      };
      push(stream, std::move(item));
    });
  }

  int create_memory(cuda::Memory& made, std::size_t bytes, int /*device*/) noexcept override {
    return call("cuMemCreate", [&] {
      if (bytes == 0 || bytes % cuda::kMemoryStep != 0) machine_.misuse("memory of an odd size");
      made = machine_.make_shared(bytes);
      ++machine_.alive["shared memory"];
    });
  }
  int release_memory(cuda::Memory memory) noexcept override {
    return give_back([&] {
      (void)::close(static_cast<int>(memory));
      --machine_.alive["shared memory"];
    });
  }
  int export_memory(int& descriptor, cuda::Memory memory) noexcept override {
    return call("cuMemExportToShareableHandle",
                [&] { descriptor = ::dup(static_cast<int>(memory)); });
  }
  int import_memory(cuda::Memory& made, int descriptor) noexcept override {
    return call("cuMemImportFromShareableHandle", [&] {
      made = static_cast<cuda::Memory>(::dup(descriptor));
      ++machine_.alive["shared memory"];
    });
  }
  int reserve_address(cuda::Address& made, std::size_t bytes) noexcept override {
    return call("cuMemAddressReserve", [&] {
      void* const place =
          ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (place == MAP_FAILED) machine_.misuse("no addresses");
      made = reinterpret_cast<cuda::Address>(place);
      ++machine_.alive["reserved addresses"];
    });
  }
  int free_address(cuda::Address address, std::size_t bytes) noexcept override {
    return give_back([&] {
      (void)::munmap(reinterpret_cast<void*>(address), bytes);
      --machine_.alive["reserved addresses"];
    });
  }
  int map_memory(cuda::Address address, std::size_t bytes, cuda::Memory memory) noexcept override {
    return call("cuMemMap", [&] {
      machine_.map_shared(address, bytes, memory);
      ++machine_.alive["mappings"];
    });
  }
  int unmap_memory(cuda::Address address, std::size_t bytes) noexcept override {
    return give_back([&] {
      machine_.unmap_shared(address, bytes);
      memory_.erase(address);
      --machine_.alive["mappings"];
    });
  }
  int allow_access(cuda::Address address, std::size_t bytes, int device) noexcept override {
    return call("cuMemSetAccess", [&] {
      check_device(device);
      memory_[address] = {address + bytes, device};
      (void)::mprotect(reinterpret_cast<void*>(address), bytes, PROT_READ | PROT_WRITE);
    });
  }

  int load_module(cuda::Module& made, const void* image) noexcept override {
    return call("cuModuleLoadData", [&] {
      if (image == nullptr) machine_.misuse("a module of nothing");
      if (machine_.at_load) machine_.at_load();
      made = static_cast<cuda::Module>(1);
      ++machine_.alive["modules"];
    });
  }
  int unload_module(cuda::Module /*module*/) noexcept override {
    return give_back([&] { --machine_.alive["modules"]; });
  }
  int find_function(cuda::Function& found, cuda::Module /*module*/,
                    const char* name) noexcept override {
    return call("cuModuleGetFunction", [&] {
      const MockKernel kernel = mock_kernel(name);
      if (kernel.run == nullptr) machine_.misuse(std::string("there is no kernel ") + name);
      found = static_cast<cuda::Function>(reinterpret_cast<std::uintptr_t>(kernel.run));
      kernels_[found] = {kernel, std::string_view(name).starts_with("tutti_scale_")};
    });
  }
  int launch(cuda::Function function, unsigned blocks, unsigned threads, void** arguments,
             cuda::Stream stream) noexcept override {
    return call("cuLaunchKernel", [&] {
      if (blocks == 0 || threads == 0 || threads > 1024)
        machine_.misuse("a launch without threads");
      push_kernel(function, *static_cast<const cuda::kernels::ReduceArguments*>(arguments[0]),
                  stream);
    });
  }

 private:
  struct Kernel {
    MockKernel host = {};
    bool scales = false;
  };
  /// Memory of a GPU, or what is mapped for it.
  struct Owned {
    cuda::Address end = 0;
    int device = 0;
    std::unique_ptr<std::byte[]> memory = nullptr;  ///< null: it is mapped
  };

  /// Under the mutex. Needs a context of this thread, but for a few.
  int enter(const char* function, bool needs_context) {
    if (machine_.deinitialized) return cuda::kCudaDeinitialized;
    if (machine_.captured(rank_) != 0 && needs_context && capture_mode != cuda::kCaptureRelaxed)
      machine_.misuse(std::string(function) + " while a graph is captured");
    if (!initialized_ && std::string_view(function) != "cuInit")
      machine_.misuse(std::string(function) + " before cuInit");
    if (needs_context && contexts.depth == 0)
      machine_.misuse(std::string(function) + " without a context");
    return machine_.enter(rank_, function) ? kFailure : 0;
  }
  /// Does it under the mutex, unless this is the call that fails.
  template <class Action>
  int call(const char* function, const Action& action, bool needs_context = true) {
    const std::lock_guard lock(machine_.mutex);
    const int code = enter(function, needs_context);
    if (code == 0) action();
    return code;
  }
  template <class Action>
  int call_anywhere(const char* function, const Action& action) {
    return call(function, action, false);
  }
  /// No failure of these is planted: they are called when nobody is left to be told.
  template <class Action>
  int give_back(const Action& action) {
    const std::lock_guard lock(machine_.mutex);
    if (machine_.deinitialized) return cuda::kCudaDeinitialized;
    action();
    return 0;
  }

  void check_device(int device) {
    if (device < 0 || device >= devices_) machine_.misuse("there is no such device");
  }
  /// The device that has this memory; -1: it is memory of the host, or of nobody we know.
  [[nodiscard]] int owner_of(cuda::Address place) const {
    const auto after = memory_.upper_bound(place);
    if (after == memory_.begin()) return -1;
    const Owned& own = std::prev(after)->second;
    return place < own.end ? own.device : -1;
  }
  void check_reach(cuda::Address place, int device) {
    if (const int its = owner_of(place); its != -1 && its != device)
      machine_.misuse("a GPU is given memory of another one");
  }
  void push(cuda::Stream stream, MockMachine::Item item) {
    machine_.push(rank_, static_cast<std::uintptr_t>(stream), std::move(item));
  }
  void push_copy(cuda::Address to, cuda::Address from, std::size_t bytes, cuda::Stream stream) {
    const auto run = [=] {
      if (bytes != 0)
        std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
      return true;
    };
    push(stream, {.run = run, .accesses = {{from, from + bytes, false}, {to, to + bytes, true}}});
  }
  void push_kernel(cuda::Function function, const cuda::kernels::ReduceArguments& all,
                   cuda::Stream stream) {
    MockMachine::Item item;
    const auto [kernel, scales] = kernels_[function];
    const std::size_t element = kernel.element;
    const auto access = [&](const void* place, std::size_t count, bool writes) {
      const auto begin = reinterpret_cast<cuda::Address>(place);
      check_reach(begin, device_now());
      item.accesses.push_back({begin, begin + count * element, writes});
      return begin;
    };
    const auto check = [&](cuda::Address place, std::size_t multiple) {
      if (place % multiple != 0) machine_.misuse("a kernel with an address that is not aligned");
    };
    for (int j = 0; j < all.k; ++j)
      check(access(all.sources[j], all.count, false), scales ? 1 : 16);
    check(access(all.to, all.count, true), scales ? element : 16);
    if (scales && all.k != 1) machine_.misuse("several sources are scaled");
    if (all.factors != nullptr) {
      const bool in_a_row = all.step == 0 || all.step == 1;
      const std::uint64_t each = all.step == 1 ? all.count : 1;
      for (std::uint64_t i = 0; i < (in_a_row ? 1 : all.count); ++i)
        access(static_cast<const std::byte*>(all.factors) +
                   static_cast<std::int64_t>(i * element) * all.step,
               each, false);
    }
    item.run = [all, run = kernel.run] {
      run(all);
      return true;
    };
    push(stream, std::move(item));
  }

  MockMachine& machine_;
  int rank_;
  int devices_;
  /// The last record of each; null: none.
  std::map<cuda::Event, std::shared_ptr<MockMachine::Mark>> events_;
  std::map<cuda::Address, Owned> memory_;    ///< by its begin
  std::map<void*, std::size_t> registered_;  ///< memory of the host, and how much
  std::map<cuda::Function, Kernel> kernels_;
  std::uintptr_t next_event_ = 1;
  bool initialized_ = false;
};

}  // namespace

MockKernel mock_kernel(std::string_view name) {
  return {cuda::kernels::host_kernel(name), cuda::kernels::host_kernel_bytes(name)};
}

std::unique_ptr<cuda::CudaApi> make_mock_cuda(MockMachine& machine, int rank, int devices) {
  return std::make_unique<MockCuda>(machine, rank, devices);
}

}  // namespace tutti::test
