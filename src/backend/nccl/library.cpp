#include "backend/nccl/library.hpp"

#include <dlfcn.h>
#include <link.h>

#include <filesystem>
#include <memory>
#include <system_error>
#include <vector>

#include "backend/nccl/real_api.hpp"
#include "base/forks.hpp"
#include "base/getenv.hpp"
#include "base/shown.hpp"
#include "cuda/library.hpp"

namespace tutti::nccl {
namespace {

namespace fs = std::filesystem;

constexpr const char* kNccl = "libnccl.so.2";

struct Found {
  std::unique_ptr<Api> nccl;
  CudaApi* cuda = nullptr;
  std::string why;
};

std::string loader_error(const std::string& file) {
  const char* const why = ::dlerror();
  return base::shown(why == nullptr ? file : why);
}

/// Folders of Python packages: that which has this plug-in (`tutti/lib/tutti`), and that of a torch
/// that is loaded (`bindings/torch/lib`).
std::vector<fs::path> package_folders() {
  std::vector<fs::path> folders;
  Dl_info own{};
  if (::dladdr(reinterpret_cast<const void*>(&package_folders), &own) != 0 &&
      own.dli_fname != nullptr) {
    const fs::path package = fs::path(own.dli_fname).parent_path() / ".." / "..";
    // Beside an installed prefix, anybody may have made a folder.
    std::error_code error;
    if (fs::exists(package / "py.typed", error)) folders.push_back(package / "..");
  }
  const auto look = [](dl_phdr_info* info, std::size_t, void* into) {
    const fs::path file(info->dlpi_name);
    if (file.filename() != "libtorch.so" && file.filename() != "libtorch_cpu.so") return 0;
    static_cast<std::vector<fs::path>*>(into)->push_back(file.parent_path() / ".." / "..");
    return 1;
  };
  (void)::dl_iterate_phdr(look, &folders);
  return folders;
}

/// True: it is open, or there is no sense in looking further.
bool take_nccl(void* library, const std::string& file, Found& found) {
  const std::string path = cuda::path_of(library, file);
  Result<std::unique_ptr<Api>> api = real_nccl(library, path);
  if (!api) {
    found.why = base::shown(path) + " cannot be used: " + std::string(api.status().message());
    return true;
  }
  found.nccl = std::move(*api);
  return true;
}

bool try_nccl(const std::string& file, Found& found) {
  void* const library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  return library != nullptr && take_nccl(library, file, found);
}

void search_nccl(Found& found) {
  if (void* const loaded = ::dlopen(kNccl, RTLD_NOW | RTLD_NOLOAD); loaded != nullptr) {
    take_nccl(loaded, kNccl, found);
    return;
  }
  if (const std::string given = base::getenv("TUTTI_NCCL_LIBRARY"); !given.empty()) {
    if (!try_nccl(given, found)) found.why = loader_error(given);
    if (!found.why.empty())
      found.why = "TUTTI_NCCL_LIBRARY=" + base::shown(given) + " cannot be used: " + found.why;
    return;
  }
  for (const fs::path& folder : package_folders()) {
    std::error_code error;
    const fs::path file = fs::canonical(folder / "nvidia" / "nccl" / "lib" / kNccl, error);
    if (!error && try_nccl(file.string(), found)) return;
  }
  if (try_nccl(kNccl, found)) return;
  found.why = "no NCCL was found (" + std::string(kNccl) +
              "); install one (pip install nvidia-nccl-cu13, or -cu12 for CUDA 12; Debian: apt "
              "install libnccl2), or say where it is by TUTTI_NCCL_LIBRARY";
}

Found search() {
  Found found;
  Result<CudaApi*> driver = cuda::driver();
  if (!driver) {
    found.why = driver.status().message();
    return found;
  }
  found.cuda = *driver;
  search_nccl(found);
  return found;
}

/// Looks once; a library that is installed later is found by the next process.
const Found& of_process() {
  static base::ForkMutex mutex;
  static Found* found = nullptr;
  const std::lock_guard lock(mutex);
  if (found == nullptr) found = new Found(search());
  return *found;
}

}  // namespace

Result<Libraries> open_libraries() {
  const Found& found = of_process();
  if (!found.why.empty()) return Outcome(Errc::unsupported, found.why);
  return Libraries{found.nccl.get(), found.cuda};
}

std::string missing_libraries() { return of_process().why; }

}  // namespace tutti::nccl
