#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

/// The libraries that can be measured and how each is started at its best documented settings.
namespace tutti::bench {

/// The name of our own in commands and tables, and that of our own with TUTTI_AGREE=off.
inline constexpr const char* kOurs = "tutti";
inline constexpr const char* kOursUnchecked = "unchecked";
/// Our own on the backend nccl, for tensors of GPUs.
inline constexpr const char* kOursOnNccl = "nccl";

/// tutti, openmpi, mpich, impi, gloo, nccl.
std::vector<std::string> known_libraries();
/// Those of them that our backend mpi can run on.
std::vector<std::string> known_mpis();
[[nodiscard]] bool is_ours(const std::string& library);

/// The device by which the hosts of a network that we have made reach each other.
inline constexpr const char* kHostInterface = "e0";

/// A host of such a network.
struct Host {
  std::string address;
  std::vector<std::string> enter;  ///< before a command: runs it there
};

struct LaunchRequest {
  std::string name;
  int ranks = 2;
  int cpus = 1;                     ///< usable ones
  std::filesystem::path programs;   ///< folder of the worker programs
  std::filesystem::path directory;  ///< of this run, empty, removed afterwards
  std::filesystem::path socket;     ///< where the ranks reach the harness
  /// The MPI that ours runs on, started as that MPI itself is; empty: on none.
  std::string mpi = {};
  /// Ours: the tensors are on GPUs.
  bool gpu = false;
  /// TUTTI_BACKEND of ours; empty: that of our environment.
  std::string backend = {};
  /// The ranks are divided over them, evenly. Empty: all run here.
  std::vector<Host> hosts = {};
  /// Runs a command on a host as rsh does: ADDRESS COMMAND.
  std::filesystem::path remote_shell = {};
  [[nodiscard]] int ranks_per_host() const {
    return hosts.empty() ? ranks : ranks / static_cast<int>(hosts.size());
  }
};

/// A program to start.
struct Program {
  std::vector<std::string> argv;
  std::vector<std::pair<std::string, std::string>> environment;  ///< beside ours
};

struct Launch {
  std::vector<Program> programs;  ///< one that starts all ranks, or one per rank
  std::string settings;           ///< what was chosen, for the report
};

/// True if its worker was built and the program that starts it is there; else `why` says what is
/// missing. `mpi`: as in LaunchRequest.
bool installed(const std::string& library, const std::filesystem::path& programs, std::string& why,
               const std::string& mpi = {});

Launch plan_launch(const LaunchRequest& request);

}  // namespace tutti::bench
