#include "group/plugins.hpp"

#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <mutex>
#include <system_error>

#include <tutti/backend/plugin.hpp>

#include "base/forks.hpp"
#include "base/getenv.hpp"
#include "base/log.hpp"
#include "base/shown.hpp"
#include "base/split.hpp"

namespace tutti::group {
namespace {

namespace fs = std::filesystem;

/// The folders of add_backend_folder.
struct AddedFolders {
  base::ForkMutex mutex;
  std::vector<std::string> paths;
};

AddedFolders& added_folders() {
  static AddedFolders* const kAdded = new AddedFolders;  // never destroyed: threads use it
  return *kAdded;
}

constexpr std::string_view kHead = "tutti_backend_";
constexpr std::string_view kTail = ".so";

/// The file of this code: a program, or Python's module.
fs::path own_file() {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<const void*>(&own_file), &info) == 0 || info.dli_fname == nullptr)
    return {};
  std::error_code error;
  fs::path file = fs::canonical(info.dli_fname, error);
  // The name of a program may have been found in PATH.
  return error ? fs::canonical("/proc/self/exe", error) : file;
}

/// True if the file belongs to this user, root or the owner of the program, and no other user can
/// write it.
bool is_trusted(const fs::path& path, uid_t programs_owner) {
  struct stat about {};
  if (::stat(path.c_str(), &about) != 0) return false;
  const bool owned =
      about.st_uid == ::geteuid() || about.st_uid == 0 || about.st_uid == programs_owner;
  return owned && (about.st_mode & S_IWOTH) == 0;
}

/// Why the file is not loaded; empty: it is loaded. The folders of TUTTI_BACKEND_PATH are trusted.
/// Other folders are not: any user can put a file next to a program in /tmp.
std::string distrusted(const fs::path& file) {
  std::error_code error;
  struct stat program {};
  if (::stat(own_file().c_str(), &program) != 0) program.st_uid = ::geteuid();
  const fs::path real = fs::canonical(file, error);
  if (!error && is_trusted(real, program.st_uid) && is_trusted(real.parent_path(), program.st_uid))
    return {};
  return "its plug-in " + base::shown(file.string()) +
         " is not loaded: it or its folder belongs to another user, or all may write it; name the "
         "folder in TUTTI_BACKEND_PATH if you trust it";
}

/// A file's name is made of it.
bool is_plain(std::string_view name) noexcept {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
}

BackendFactory unusable(std::string name, std::string why) {
  BackendFactory factory;
  factory.name = std::move(name);
  factory.missing = [why] { return why; };
  factory.make_world = [why](const WorldOptions&) -> Result<Backend*> {
    return Outcome(Errc::unsupported, why);
  };
  return factory;
}

BackendFactory load(const std::string& name, const std::string& file) {
  void* const library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const why = ::dlerror();
    return unusable(
        name, "its plug-in cannot be loaded: " + base::shown(why != nullptr ? why : file.c_str()));
  }
  using Entry = const BackendPlugin* (*)();
  const auto entry = reinterpret_cast<Entry>(::dlsym(library, "tutti_backend_plugin"));
  const BackendPlugin* const plugin = entry == nullptr ? nullptr : entry();
  if (plugin == nullptr || plugin->abi != kBackendAbi || plugin->layout != backend_layout() ||
      plugin->describe == nullptr)
    return unusable(name, "its plug-in " + base::shown(file) +
                              " was built for another version of tutti; install that of this one");
  if (plugin->set_log != nullptr)
    plugin->set_log([](LogLevel level, std::string_view text) { base::log(level, text); });
  BackendFactory factory;
  plugin->describe(factory);
  factory.name = name;
  return factory;
}

}  // namespace

std::vector<PluginFolder> plugin_folders() {
  std::vector<PluginFolder> folders;
  const std::string named = base::getenv("TUTTI_BACKEND_PATH");
  for (const std::string_view folder : base::split(named, ':'))
    if (!folder.empty()) folders.push_back({std::string(folder), true});
  {
    const std::lock_guard lock(added_folders().mutex);
    for (const std::string& path : added_folders().paths) folders.push_back({path, false});
  }
  if (const fs::path file = own_file(); !file.empty()) {
    folders.push_back({file.parent_path() / "backends", false});
    if (file.parent_path().filename() == "_bin")  // the programs of a wheel
      folders.push_back({file.parent_path().parent_path() / "backends", false});
    folders.push_back({file.parent_path().parent_path() / "lib" / "tutti", false});
  }
  folders.push_back({TUTTI_INSTALLED_BACKENDS, false});
  return folders;
}

BackendFactory load_plugin(std::string_view name) {
  if (!is_plain(name)) return {};
  for (const auto& [folder, named] : plugin_folders()) {
    const fs::path file =
        fs::path(folder) / (std::string(kHead) + std::string(name) + std::string(kTail));
    std::error_code error;
    if (!fs::is_regular_file(file, error)) continue;
    if (std::string why = named ? "" : distrusted(file); !why.empty())
      return unusable(std::string(name), std::move(why));
    return load(std::string(name), fs::canonical(file, error).string());
  }
  return {};
}

std::vector<std::string> plugin_names() {
  std::vector<std::string> names;
  for (const auto& [folder, named] : plugin_folders()) {
    std::error_code error;
    for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
      const std::string file = at->path().filename().string();
      if (file.size() <= kHead.size() + kTail.size() || !file.starts_with(kHead) ||
          !file.ends_with(kTail))
        continue;
      std::string name = file.substr(kHead.size(), file.size() - kHead.size() - kTail.size());
      if (is_plain(name) && std::find(names.begin(), names.end(), name) == names.end())
        names.push_back(std::move(name));
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace tutti::group

namespace tutti::inline v0 {

void add_backend_folder(std::string folder) {
  const std::lock_guard lock(group::added_folders().mutex);
  std::vector<std::string>& paths = group::added_folders().paths;
  if (std::find(paths.begin(), paths.end(), folder) == paths.end())
    paths.push_back(std::move(folder));
}

}  // namespace tutti::inline v0
