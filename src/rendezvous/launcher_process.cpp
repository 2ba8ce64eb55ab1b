#include "rendezvous/launcher_process.hpp"

#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <string_view>

#include "base/format.hpp"
#include "os/process_stat.hpp"

namespace tutti::rendezvous {
namespace {

/// Names of processes that start ranks, one for each job and host, as the kernel cuts them.
constexpr std::array<std::string_view, 14> kLauncherNames = {
    "hydra_pmi_proxy", "pmi_proxy",       "mpispawn",       "orted",     "prted",
    "prterun",         "mpiexec.gforker", "slurmstepd",     "mpirun",    "mpiexec",
    "mpiexec.hydra",   "mpiexec.openmpi", "mpirun.openmpi", "flux-shell"};

/// Variables that a launcher gives to each rank, and that differ between its own processes and the
/// ranks. Set by hand they lack the last two.
constexpr std::array kOfARank = {"PMI_RANK", "PMI_FD", "PMI_PORT"};

/// More processes stand above no rank; parents that form a circle would be a bug of the kernel.
constexpr int kMostAbove = 100;

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// True if the process was started with the same variables of a rank as this one.
bool is_of_rank(const std::string& proc, pid_t pid, const Environment& environment) {
  // Each entry stands between two zeros.
  constexpr char kEnd = '\0';
  const std::string all = kEnd + text_of(base::format("{}/{}/environ", proc, pid)) + kEnd;
  return std::ranges::all_of(kOfARank, [&](const std::string& name) {
    const auto ours = environment.text(name.c_str());
    return !ours || all.find(kEnd + name + '=' + *ours + kEnd) != std::string::npos;
  });
}

}  // namespace

std::optional<std::string> launcher_process(const Environment& environment,
                                            const std::string& proc) {
  std::optional<std::string> not_of_rank;
  // Variables that were set by hand tell nothing about the processes above.
  const bool may_be_unknown = environment.filled("PMI_FD") || environment.filled("PMI_PORT");
  pid_t pid = ::getppid();
  for (int above = 0; above < kMostAbove && pid > 0; ++above) {
    const auto process = os::process_stat(pid, proc);
    if (!process) break;
    const std::string told = base::format("{} {}", pid, process->began);
    if (std::ranges::find(kLauncherNames, process->name) != kLauncherNames.end()) return told;
    // A rank whose shell has ended is a child of the first process, which takes those of all jobs.
    const bool takes_orphans = process->parent == 0 || process->name == "systemd";
    if (may_be_unknown && !not_of_rank && !takes_orphans && !is_of_rank(proc, pid, environment))
      not_of_rank = told;
    pid = process->parent;
  }
  return not_of_rank;
}

}  // namespace tutti::rendezvous
