#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cuda/kernels/elements.hpp"
#include "mock_gpu.hpp"
#include "support/host_kernels.hpp"

// Memory that ranks share, and kernels.
namespace tutti::test {
namespace {

/// Of the memory, which every descriptor of it has.
std::uint64_t file_of(cuda::Memory memory) {
  struct stat about {};
  (void)::fstat(static_cast<int>(memory), &about);
  return about.st_ino & 0x3fffff;
}

}  // namespace

cuda::Memory MockMachine::make_shared(std::size_t bytes) {
  const int fd = ::memfd_create("mock-gpu", MFD_CLOEXEC);
  if (fd < 0 || ::ftruncate(fd, static_cast<off_t>(bytes)) != 0) misuse("no memfd");
  return static_cast<cuda::Memory>(fd);
}

void MockMachine::map_shared(cuda::Address address, std::size_t bytes, cuda::Memory memory) {
  if (::mmap(reinterpret_cast<void*>(address), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED,
             static_cast<int>(memory), 0) == MAP_FAILED)
    misuse("memory could not be mapped");
  shared_.push_back({address, address + bytes, file_of(memory)});
}

void MockMachine::unmap_shared(cuda::Address address, std::size_t bytes) {
  if (std::erase_if(shared_, [&](const Shared& one) { return one.begin == address; }) != 1)
    misuse("memory is unmapped that is not mapped");
  if (::mmap(reinterpret_cast<void*>(address), bytes, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
    misuse("memory could not be unmapped");
}

bool MockMachine::place_shared(Access& access) const {
  for (const Shared& one : shared_) {
    if (access.begin < one.begin || access.begin >= one.end) continue;
    const std::uintptr_t offset = (std::uintptr_t{one.file} << 40) - one.begin;
    access.begin += offset;
    access.end += offset;
    return true;
  }
  return false;
}

int MockCuda::create_memory(cuda::Memory& made, std::size_t bytes, int /*device*/) noexcept {
  const std::lock_guard lock(machine_.mutex);
  if (const int code = enter("cuMemCreate"); code != 0) return code;
  if (bytes == 0 || bytes % cuda::kMemoryStep != 0) machine_.misuse("memory of an odd size");
  made = machine_.make_shared(bytes);
  ++machine_.alive["shared memory"];
  return 0;
}

int MockCuda::release_memory(cuda::Memory memory) noexcept {
  const std::lock_guard lock(machine_.mutex);
  if (machine_.deinitialized) return cuda::kCudaDeinitialized;
  (void)::close(static_cast<int>(memory));
  --machine_.alive["shared memory"];
  return 0;
}

int MockCuda::export_memory(int& descriptor, cuda::Memory memory) noexcept {
  const std::lock_guard lock(machine_.mutex);
  if (const int code = enter("cuMemExportToShareableHandle"); code != 0) return code;
  descriptor = ::dup(static_cast<int>(memory));
  return 0;
}

int MockCuda::import_memory(cuda::Memory& made, int descriptor) noexcept {
  const std::lock_guard lock(machine_.mutex);
  if (const int code = enter("cuMemImportFromShareableHandle"); code != 0) return code;
  made = static_cast<cuda::Memory>(::dup(descriptor));
  ++machine_.alive["shared memory"];
  return 0;
}

int MockCuda::reserve_address(cuda::Address& made, std::size_t bytes) noexcept {
  const std::lock_guard lock(machine_.mutex);
  if (const int code = enter("cuMemAddressReserve"); code != 0) return code;
  void* const place =
      ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (place == MAP_FAILED) machine_.misuse("no addresses");
  made = reinterpret_cast<cuda::Address>(place);
  ++machine_.alive["reserved addresses"];
  return 0;
}

int MockCuda::free_address(cuda::Address address, std::size_t bytes) noexcept {
  const std::lock_guard lock(machine_.mutex);
  if (machine_.deinitialized) return cuda::kCudaDeinitialized;
  (void)::munmap(reinterpret_cast<void*>(address), bytes);
  --machine_.alive["reserved addresses"];
  return 0;
}

int MockCuda::map_memory(cuda::Address address, std::size_t bytes, cuda::Memory memory) noexcept {
  const std::lock_guard lock(machine_.mutex);
  if (const int code = enter("cuMemMap"); code != 0) return code;
  machine_.map_shared(address, bytes, memory);
  ++machine_.alive["mappings"];
  return 0;
}

int MockCuda::unmap_memory(cuda::Address address, std::size_t bytes) noexcept {
  const std::lock_guard lock(machine_.mutex);
  if (machine_.deinitialized) return cuda::kCudaDeinitialized;
  machine_.unmap_shared(address, bytes);
  --machine_.alive["mappings"];
  return 0;
}

int MockCuda::allow_access(cuda::Address address, std::size_t bytes, int /*device*/) noexcept {
  const std::lock_guard lock(machine_.mutex);
  if (const int code = enter("cuMemSetAccess"); code != 0) return code;
  (void)::mprotect(reinterpret_cast<void*>(address), bytes, PROT_READ | PROT_WRITE);
  return 0;
}

int MockCuda::load_module(cuda::Module& made, const void* image) noexcept {
  const std::lock_guard lock(machine_.mutex);
  if (const int code = enter("cuModuleLoadData"); code != 0) return code;
  if (image == nullptr) machine_.misuse("a module of nothing");
  if (machine_.at_load) machine_.at_load();
  made = static_cast<cuda::Module>(1);
  ++machine_.alive["modules"];
  return 0;
}

int MockCuda::unload_module(cuda::Module /*module*/) noexcept {
  const std::lock_guard lock(machine_.mutex);
  if (machine_.deinitialized) return cuda::kCudaDeinitialized;
  --machine_.alive["modules"];
  return 0;
}

int MockCuda::find_function(cuda::Function& found, cuda::Module /*module*/,
                            const char* name) noexcept {
  const std::lock_guard lock(machine_.mutex);
  if (const int code = enter("cuModuleGetFunction"); code != 0) return code;
  const cuda::kernels::HostKernel kernel = cuda::kernels::host_kernel(name);
  if (kernel == nullptr) machine_.misuse(std::string("there is no kernel ") + name);
  found = static_cast<cuda::Function>(reinterpret_cast<std::uintptr_t>(kernel));
  kernels_[found] = {cuda::kernels::host_kernel_bytes(name),
                     std::string_view(name).starts_with("tutti_scale_")};
  return 0;
}

int MockCuda::launch(cuda::Function function, unsigned blocks, unsigned threads, void** arguments,
                     cuda::Stream stream) noexcept {
  const std::lock_guard lock(machine_.mutex);
  if (const int code = enter("cuLaunchKernel"); code != 0) return code;
  const auto all = *static_cast<const cuda::kernels::ReduceArguments*>(arguments[0]);
  if (blocks == 0 || threads == 0 || threads > 1024) machine_.misuse("a launch without threads");
  MockMachine::Item item;
  const Kernel kernel = kernels_[function];
  const auto access = [&](const void* place, std::size_t count, bool writes) {
    const auto begin = reinterpret_cast<cuda::Address>(place);
    item.accesses.push_back({begin, begin + count * kernel.element, writes});
    return begin;
  };
  const auto check = [&](cuda::Address place, std::size_t multiple) {
    if (place % multiple != 0) machine_.misuse("a kernel with an address that is not aligned");
  };
  for (int j = 0; j < all.k; ++j)
    check(access(all.sources[j], all.count, false), kernel.scales ? 1 : 16);
  check(access(all.to, all.count, true), kernel.scales ? kernel.element : 16);
  if (kernel.scales && all.k != 1) machine_.misuse("several sources are scaled");
  if (all.factors != nullptr) {
    const bool in_a_row = all.step == 0 || all.step == 1;
    const std::uint64_t each = all.step == 1 ? all.count : 1;
    for (std::uint64_t i = 0; i < (in_a_row ? 1 : all.count); ++i)
      access(static_cast<const std::byte*>(all.factors) +
                 static_cast<std::int64_t>(i * kernel.element) * all.step,
             each, false);
  }
  item.run = [all, function] {
    reinterpret_cast<cuda::kernels::HostKernel>(function)(all);
    return true;
  };
  machine_.push(rank_, static_cast<std::uintptr_t>(stream), std::move(item));
  return 0;
}

}  // namespace tutti::test
