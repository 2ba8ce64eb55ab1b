#include "backend_launcher.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include <tutti/backends.hpp>

#include "os/system_error.hpp"
#include "workers.hpp"

namespace tutti::launcher {

Status hand_over(const Options& options) {
  Result<std::optional<LaunchCommand>> found =
      launch_command(options.backend, options.nproc_per_node);
  if (!found) return found.status();
  ::setenv("TUTTI_BACKEND", options.backend.c_str(), 1);
  if (!*found) return {};
  if (!options.ours_only.empty()) {
    return Status(
        Errc::invalid_argument,
        fmt::format("{} and --backend {} do not go together: its ranks are started by "
                    "{}; leave it out, or start the program by that launcher with "
                    "TUTTI_BACKEND={}",
                    options.ours_only, options.backend, (*found)->argv.front(), options.backend));
  }
  LaunchCommand& command = **found;
  for (std::string& one : command.environment) ::putenv(one.data());
  for (std::string& one : command_of(options, 0)) command.argv.push_back(std::move(one));
  std::vector<char*> arguments;
  for (std::string& one : command.argv) arguments.push_back(one.data());
  arguments.push_back(nullptr);
  ::execv(arguments.front(), arguments.data());
  return os::system_error("cannot start " + command.argv.front(), errno);
}

}  // namespace tutti::launcher
