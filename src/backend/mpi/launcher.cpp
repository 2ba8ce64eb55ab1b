#include "backend/mpi/launcher.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/shown.hpp"
#include "os/environment.hpp"
#include "os/fd.hpp"
#include "os/pipe.hpp"
#include "os/process.hpp"

namespace tutti::mpi {
namespace {

namespace fs = std::filesystem;

/// The project that a library and its launcher come from.
enum class Maker { open_mpi, mpich, intel };

Maker maker_of(const LibraryInfo& library) {
  if (library.name.find("Intel") != std::string::npos) return Maker::intel;
  if (library.name.find("Open MPI") != std::string::npos) return Maker::open_mpi;
  return Maker::mpich;
}

/// True if this is the output of `--version` of its launcher.
bool is_of(Maker maker, std::string_view version) {
  const auto says = [&](std::string_view word) {
    return version.find(word) != std::string_view::npos;
  };
  switch (maker) {
    case Maker::open_mpi: return says("Open MPI") || says("OpenRTE") || says("PRRTE");
    case Maker::intel: return says("Intel");
    case Maker::mpich: return says("HYDRA") || says("MPICH");
  }
  return false;
}

/// The first 4 KiB that `program --version` prints; empty if it prints nothing within ten seconds.
std::string version_of(const std::string& program) {
  constexpr auto kLimit = std::chrono::seconds(10);
  constexpr std::size_t kEnough = 4096;
  auto pipe = os::make_pipe("cannot make a pipe");
  if (!pipe) return {};
  os::SpawnOptions options;
  options.argv = {program, "--version"};
  options.environment = os::entries_of(os::environment());
  options.fds = {{pipe->write.get(), STDOUT_FILENO}};
  auto process = os::spawn(options);
  pipe->write.reset();
  if (!process) return {};
  std::string text;
  const auto deadline = std::chrono::steady_clock::now() + kLimit;
  std::array<char, 512> bytes{};
  while (text.size() < kEnough) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    pollfd ready{pipe->read.get(), POLLIN, 0};
    if (left.count() <= 0 || ::poll(&ready, 1, static_cast<int>(left.count())) <= 0) break;
    const ssize_t count = ::read(pipe->read.get(), bytes.data(), bytes.size());
    if (count <= 0) break;
    text.append(bytes.data(), static_cast<std::size_t>(count));
  }
  // It may still run where it prints more than is read, or nothing.
  (void)process->kill_group(SIGKILL);
  (void)process->wait(deadline + kLimit);
  (void)process->collect();
  return text;
}

/// Files that may be the launcher of a library, in the order in which they are asked.
std::vector<std::string> candidates(const LibraryInfo& library, Maker maker) {
  constexpr std::array<std::string_view, 2> kNames = {"mpiexec", "mpirun"};
  std::vector<std::string> files;
  const auto add = [&](const fs::path& file) {
    if (::access(file.c_str(), X_OK) == 0) files.push_back(file.string());
  };
  std::error_code error;
  const fs::path folder = fs::canonical(library.path, error).parent_path();
  if (!error) {
    for (const std::string_view name : kNames) add(folder.parent_path() / "bin" / name);
  }
  if (maker == Maker::open_mpi) add("/usr/bin/mpirun.openmpi");
  if (maker == Maker::mpich) add("/usr/bin/mpiexec.mpich");
  for (const fs::path& one : os::search_path())
    for (const std::string_view name : kNames) add(one / name);
  return files;
}

}  // namespace

Result<std::string> find_launcher(const LibraryInfo& library) {
  const Maker maker = maker_of(library);
  std::string others;
  for (const std::string& file : candidates(library, maker)) {
    if (is_of(maker, version_of(file))) return file;
    others += (others.empty() ? "" : ", ") + base::shown(file);
  }
  return Outcome(
      Errc::unsupported,
      "there is no mpiexec or mpirun of " + base::shown(library.name) + " (" +
          base::shown(library.path) + ") beside it or in PATH" +
          (others.empty() ? std::string() : "; these are of another MPI: " + others) +
          "; install it (Debian: apt install openmpi-bin, or mpich), or choose the library of the "
          "one that you have by TUTTI_MPI_LIBRARY");
}

Result<LaunchCommand> launch_command(const LibraryInfo& library, int ranks) {
  Result<std::string> launcher = find_launcher(library);
  if (!launcher) return launcher.status();
  LaunchCommand command;
  command.argv = {*launcher, "-n", std::to_string(ranks)};
  if (maker_of(library) == Maker::open_mpi) {
    // Its own limits that tuttirun does not have either: as many ranks as cores, and not as root.
    command.argv.insert(command.argv.end(), {"--map-by", ":OVERSUBSCRIBE"});
    if (::geteuid() == 0) command.argv.emplace_back("--allow-run-as-root");
  }
  command.environment = {"TUTTI_BACKEND=mpi", "TUTTI_MPI_LIBRARY=" + library.path};
  return command;
}

}  // namespace tutti::mpi
