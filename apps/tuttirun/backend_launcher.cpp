#include "backend_launcher.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include <tutti/backend/registry.hpp>

#include "base/format.hpp"
#include "group/plugins.hpp"
#include "os/environment.hpp"
#include "os/system_error.hpp"
#include "workers.hpp"

namespace tutti::launcher {
namespace {

/// The file that PATH has for a program; its name where there is none. mpirun puts its own folder
/// before ours, where it would find another Python.
std::string file_of(const std::string& program) {
  if (program.find('/') != std::string::npos) return program;
  const auto file = os::find_program(program);
  std::error_code error;
  return file ? std::filesystem::absolute(*file, error).string() : program;
}

}  // namespace

void hand_down_plugins() {
  const std::string path = group::plugin_path_of_children();
  if (!path.empty()) ::setenv("TUTTI_BACKEND_PATH", path.c_str(), 1);
}

Outcome hand_over(const Options& options) {
  Result<std::optional<LaunchCommand>> found =
      launch_command(options.backend, options.nproc_per_node);
  if (!found) return found.status();
  ::setenv("TUTTI_BACKEND", options.backend.c_str(), 1);
  // Without a launcher of its own the backend's ranks look at it, and `auto` chooses accordingly.
  if (!*found) return {};
  if (options.tls && !keeps_promise(options.backend, Promise::encrypted)) {
    return Outcome(Errc::invalid_argument,
                   base::format("--tls (TUTTI_TLS=1) and --backend {} do not go together: it does "
                                "not encrypt; leave one out",
                                options.backend));
  }
  if (!options.ours_only.empty()) {
    return Outcome(
        Errc::invalid_argument,
        base::format("{} and --backend {} do not go together: its ranks are started by "
                     "{}; leave it out, or start the program by that launcher with "
                     "TUTTI_BACKEND={}",
                     options.ours_only, options.backend, (*found)->argv.front(), options.backend));
  }
  LaunchCommand& command = **found;
  for (std::string& one : command.environment) ::putenv(one.data());
  std::vector<std::string> program = command_of(options, 0);
  program.front() = file_of(program.front());
  for (std::string& one : program) command.argv.push_back(std::move(one));
  std::vector<char*> arguments;
  for (std::string& one : command.argv) arguments.push_back(one.data());
  arguments.push_back(nullptr);
  ::execv(arguments.front(), arguments.data());
  return os::system_error("cannot start " + command.argv.front(), errno);
}

}  // namespace tutti::launcher
