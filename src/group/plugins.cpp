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

/// The file that holds this code: a shared library, or a program.
fs::path own_file() {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<const void*>(&own_file), &info) == 0 || info.dli_fname == nullptr)
    return {};
  std::error_code error;
  const std::string_view name = info.dli_fname;
  fs::path file = fs::canonical(name, error);
  // A name without a slash is that of a program which was found in PATH.
  return error || name.find('/') == name.npos ? fs::canonical("/proc/self/exe", error) : file;
}

/// True if the file belongs to this user, root or the owner of the program, and no other user can
/// write it.
bool is_trusted(const fs::path& path) {
  struct stat about {};
  if (::stat(path.c_str(), &about) != 0 || (about.st_mode & S_IWOTH) != 0) return false;
  if (about.st_uid == ::geteuid() || about.st_uid == 0) return true;
  struct stat program {};
  return ::stat(own_file().c_str(), &program) == 0 && about.st_uid == program.st_uid;
}

std::string file_of_plugin(std::string_view name) {
  return std::string(kHead) + std::string(name) + std::string(kTail);
}

/// Why the file is not loaded; empty: it is loaded. The folders of TUTTI_BACKEND_PATH are trusted.
/// Other folders are not: any user can put a file next to a program in /tmp.
std::string distrusted(const fs::path& file) {
  std::error_code error;
  const fs::path real = fs::canonical(file, error);
  if (!error && is_trusted(real) && is_trusted(real.parent_path())) return {};
  return "its plug-in " + base::shown(file.string()) +
         " is not loaded: it or its folder belongs to another user, or all may write it; name the "
         "folder in TUTTI_BACKEND_PATH if you trust it";
}

/// The plug-ins in a folder.
std::vector<fs::path> plugins_in(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string file = at->path().filename().string();
    if (file.size() > kHead.size() + kTail.size() && file.starts_with(kHead) &&
        file.ends_with(kTail))
      files.push_back(at->path());
  }
  return files;
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
  const auto add = [&](std::string path, bool named) {
    if (std::ranges::find(folders, path, &PluginFolder::path) == folders.end())
      folders.push_back({std::move(path), named});
  };
  const std::string named = base::getenv("TUTTI_BACKEND_PATH");
  const std::vector<std::string_view> entries = base::split(named, ':');
  const auto gap = std::ranges::find(entries, std::string_view());
  for (auto one = entries.begin(); one != gap; ++one) add(std::string(*one), true);
  {
    const std::lock_guard lock(added_folders().mutex);
    for (const std::string& path : added_folders().paths) add(path, false);
  }
  if (const fs::path file = own_file(); !file.empty()) {
    // Seen from libtutti.so in lib, from Python's module, and from a program in bin.
    for (const char* const place : {"tutti", "lib/tutti", "../lib/tutti", TUTTI_BACKENDS_FROM_BIN})
      add((file.parent_path() / place).lexically_normal().string(), false);
  }
  for (auto one = gap; one != entries.end(); ++one)
    if (!one->empty()) add(std::string(*one), true);
  add(TUTTI_INSTALLED_BACKENDS, false);  // may be of another version if the prefix was moved
  return folders;
}

BackendFactory load_plugin(std::string_view name) {
  if (!is_plain(name)) return {};
  for (const auto& [folder, named] : plugin_folders()) {
    const fs::path file = fs::path(folder) / file_of_plugin(name);
    std::error_code error;
    if (!fs::is_regular_file(file, error)) continue;
    if (std::string why = named ? "" : distrusted(file); !why.empty())
      return unusable(std::string(name), std::move(why));
    return load(std::string(name), fs::canonical(file, error).string());
  }
  return {};
}

std::string why_no_plugin(std::string_view name) {
  if (!is_plain(name)) return "there is none of this name";
  std::string folders;
  for (const auto& [folder, named] : plugin_folders())
    folders += (folders.empty() ? "" : ", ") + base::shown_on_line(folder);
  return "there is none of this name, nor a plug-in " + file_of_plugin(name) + " in " + folders +
         " (TUTTI_BACKEND_PATH names other folders)";
}

std::vector<std::string> plugin_names() {
  std::vector<std::string> names;
  for (const auto& [folder, named] : plugin_folders()) {
    for (const fs::path& file : plugins_in(folder)) {
      std::string name = file.stem().string().substr(kHead.size());
      if (is_plain(name) && std::find(names.begin(), names.end(), name) == names.end())
        names.push_back(std::move(name));
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string plugin_path_of_children() {
  std::string path;
  const std::string own = base::getenv("TUTTI_BACKEND_PATH");
  const std::vector<std::string_view> entries = base::split(own, ':');
  for (const auto& [folder, named] : plugin_folders()) {
    std::error_code error;
    const fs::path real = fs::canonical(folder, error);
    const std::vector<fs::path> files = plugins_in(real);
    // A child trusts all that is in such a folder.
    if (named || error || files.empty() || !is_trusted(real) ||
        !std::ranges::all_of(files, [](const auto& file) { return distrusted(file).empty(); }))
      continue;
    const std::string text = real.string();  // a launcher in a launcher adds it once
    if (text.find(':') == text.npos && std::ranges::find(entries, text) == entries.end())
      path += ":" + text;
  }
  return path.empty() || own.empty() ? own + path : own + ":" + path;
}

}  // namespace tutti::group

namespace tutti {
inline namespace v0 {

void add_backend_folder(std::string folder) {
  const std::lock_guard lock(group::added_folders().mutex);
  std::vector<std::string>& paths = group::added_folders().paths;
  if (std::find(paths.begin(), paths.end(), folder) == paths.end())
    paths.push_back(std::move(folder));
}

}  // namespace v0
}  // namespace tutti
