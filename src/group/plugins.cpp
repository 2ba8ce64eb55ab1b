#include "group/plugins.hpp"

#include <dlfcn.h>
#include <sys/auxv.h>

#include <algorithm>
#include <filesystem>
#include <mutex>
#include <optional>
#include <system_error>

#include <tutti/backend/plugin.hpp>

#include "base/forks.hpp"
#include "base/getenv.hpp"
#include "base/log.hpp"
#include "base/shown.hpp"
#include "base/split.hpp"
#include "group/trusted_file.hpp"

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

std::string file_of_plugin(std::string_view name) {
  return std::string(kHead) + std::string(name) + std::string(kTail);
}

std::string why_distrusted(const fs::path& file) {
  return "its plug-in " + base::shown(file.string()) +
         " is not loaded: it or its folder belongs to another user, or others may write it; name "
         "the folder in TUTTI_BACKEND_PATH if you trust it";
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
  // A program with rights that its user does not have loads nothing that the user chooses.
  if (::getauxval(AT_SECURE) != 0) return {{TUTTI_INSTALLED_BACKENDS, false}};
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
  if (const fs::path here = own_file().parent_path(); !here.empty()) {
    // Seen from libtutti.so in lib, and from Python's module.
    for (const char* const place : {"tutti", "lib/tutti"}) add((here / place).string(), false);
    if (here.filename() == "bin") {
      for (const char* const place : {"../lib/tutti", TUTTI_BACKENDS_FROM_BIN})
        add((here / place).lexically_normal().string(), false);
    }
  }
  for (auto one = gap; one != entries.end(); ++one)
    if (!one->empty()) add(std::string(*one), true);
  // May be of another version if the prefix was moved. A wheel has none.
  if (const std::string installed = TUTTI_INSTALLED_BACKENDS; !installed.empty())
    add(installed, false);
  return folders;
}

BackendFactory load_plugin(std::string_view name) {
  if (!is_plain(name)) return {};
  std::string why;
  for (const auto& [folder, named] : plugin_folders()) {
    const fs::path file = fs::path(folder) / file_of_plugin(name);
    std::error_code error;
    if (!fs::is_regular_file(file, error)) continue;
    const std::optional<fs::path> real = named ? fs::canonical(file, error) : trusted_file(file);
    if (real && !real->empty()) return load(std::string(name), real->string());
    if (why.empty()) why = why_distrusted(file);
  }
  return why.empty() ? BackendFactory() : unusable(std::string(name), std::move(why));
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
    // One of another user may be very long.
    if (!named && !trusted_folder(folder)) continue;
    for (const fs::path& file : plugins_in(folder)) {
      std::string name = file.stem().string().substr(kHead.size());
      if (is_plain(name)) names.push_back(std::move(name));
    }
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

std::string plugin_path_of_children() {
  std::string path;
  const std::string own = base::getenv("TUTTI_BACKEND_PATH");
  const std::vector<std::string_view> entries = base::split(own, ':');
  for (const auto& [folder, named] : plugin_folders()) {
    const std::optional<fs::path> real = named ? std::nullopt : trusted_folder(folder);
    if (!real) continue;
    const std::vector<fs::path> files = plugins_in(*real);
    // A child trusts all that is in such a folder.
    if (files.empty() || !std::ranges::all_of(files, [](const auto& file) {
          return trusted_file(file).has_value();
        }))
      continue;
    const std::string text = real->string();  // a launcher in a launcher adds it once
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
