#include "cuda/library.hpp"

#include <dlfcn.h>
#include <link.h>

#include <filesystem>
#include <memory>
#include <mutex>
#include <system_error>
#include <utility>

#include <tutti/device.hpp>

#include "base/forks.hpp"
#include "base/getenv.hpp"
#include "base/shown.hpp"
#include "cuda/real_cuda.hpp"

namespace tutti::cuda {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDriver = "libcuda.so.1";

/// A driver that the user names; empty: none.
std::string given_file() { return base::getenv("TUTTI_CUDA_LIBRARY"); }

struct Found {
  std::unique_ptr<CudaApi> driver;
  std::string why;
};

Found search() {
  Found found;
  const std::string given = given_file();
  const std::string file = given.empty() ? kDriver : given;
  void* const library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr && !given.empty()) {
    const char* const why = ::dlerror();
    found.why = "TUTTI_CUDA_LIBRARY=" + base::shown(given) +
                " cannot be used: " + base::shown(why == nullptr ? given : why);
    return found;
  }
  if (library == nullptr) {
    found.why = "no NVIDIA driver was found (" + file + "); install it on a machine with a GPU";
    return found;
  }
  if (!has_gpu()) {
    found.why = "this machine has no NVIDIA GPU (there is no /dev/nvidiactl)";
    return found;
  }
  const std::string path = path_of(library, file);
  Result<std::unique_ptr<CudaApi>> made = real_cuda(library, path);
  if (made)
    found.driver = std::move(*made);
  else
    found.why = base::shown(path) + " cannot be used: " + std::string(made.status().message());
  return found;
}

}  // namespace

bool has_gpu() {
  std::error_code error;  // under WSL the driver has another file
  return !given_file().empty() || fs::exists("/dev/nvidiactl", error) ||
         fs::exists("/dev/dxg", error);
}

Result<CudaApi*> driver() {
  static base::ForkMutex mutex;
  static Found* found = nullptr;  // a library that is installed later: the next process finds it
  const std::lock_guard lock(mutex);
  if (found == nullptr) found = new Found(search());
  if (!found->why.empty()) return Outcome(Errc::unsupported, found->why);
  return found->driver.get();
}

std::string path_of(void* library, const std::string& file) {
  link_map* map = nullptr;
  if (::dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr && *map->l_name != '\0')
    return map->l_name;
  return file;
}

}  // namespace tutti::cuda

namespace tutti {
inline namespace v0 {

std::optional<Device> gpu_of(const void* memory) {
  Result<cuda::CudaApi*> driver = cuda::driver();
  int device = -1;
  if (!driver || (*driver)->device_of(reinterpret_cast<cuda::Address>(memory), device) != 0 ||
      device < 0)
    return std::nullopt;
  return Device{DeviceType::cuda, static_cast<std::int16_t>(device)};
}

}  // namespace v0
}  // namespace tutti
