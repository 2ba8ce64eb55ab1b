#include "apps/bench/library.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <stdexcept>

#include "base/getenv.hpp"
#include "os/environment.hpp"
#include "os/socket.hpp"

namespace tutti::bench {

namespace {

namespace fs = std::filesystem;

constexpr const char* kBackend = "TUTTI_BACKEND";

/// The first such program in PATH; the name alone if there is none.
std::string in_path(const std::string& name) {
  return os::find_program(name).value_or(name).string();
}

/// `found`: where the build found it. A build that looked for none, as of a wheel, asks PATH.
std::string mpiexec_or_in_path(const std::string& found, const char* name) {
  return found.empty() ? in_path(name) : found;
}

std::string mpiexec_of(const std::string& library) {
  if (library == "openmpi")
    return mpiexec_or_in_path(TUTTI_BENCH_OPENMPI_MPIEXEC, "mpiexec.openmpi");
  if (library == "mpich") return mpiexec_or_in_path(TUTTI_BENCH_MPICH_MPIEXEC, "mpiexec.mpich");
  return mpiexec_or_in_path(TUTTI_BENCH_IMPI_MPIEXEC, "mpiexec.hydra");
}

/// The file that its worker is linked with. Where there was nothing to link with, the name by which
/// the loader finds it.
std::string library_file_of(const std::string& library) {
  if (library == "openmpi") return TUTTI_BENCH_OPENMPI_FILE;
  if (library == "mpich") return TUTTI_BENCH_MPICH_FILE;
  return TUTTI_BENCH_IMPI_FILE;
}

/// NCCL is measured through our backend on it.
bool has_our_worker(const std::string& library) {
  return is_ours(library) || library == kOursOnNccl;
}

fs::path worker_of(const std::string& library, const fs::path& programs) {
  return programs / ("tutti_bench_" + (has_our_worker(library) ? kOurs : library));
}

bool is_mpi(const std::string& library) {
  const auto all = known_mpis();
  return std::find(all.begin(), all.end(), library) != all.end();
}

std::string settings_text(const Program& program, const fs::path& worker) {
  std::string text;
  for (const auto& [name, value] : program.environment) {
    const bool place = name == "LD_LIBRARY_PATH" || name == "I_MPI_ROOT";
    if (!place && name != "TUTTI_MPI_LIBRARY") text += name + "=" + value + " ";
  }
  for (const auto& word : program.argv) {
    if (word == worker) break;
    text += (&word == program.argv.data() ? fs::path(word).filename().string() : word) + " ";
  }
  if (!text.empty()) text.pop_back();
  return text;
}

void append(std::vector<std::string>& to, std::initializer_list<std::string> words) {
  to.insert(to.end(), words);
}

/// A core per rank: bound, as its manual says. More ranks than cores: told so, and made to yield.
Program openmpi(const LaunchRequest& request) {
  Program program;
  auto& argv = program.argv;
  argv = {mpiexec_of("openmpi"), "-n", std::to_string(request.ranks)};
  if (::geteuid() == 0) argv.push_back("--allow-run-as-root");
  append(argv, {"--mca", "pml", "ob1", "--mca", "btl", "self,vader"});
  if (request.ranks <= request.cpus) {
    append(argv, {"--bind-to", "core"});
  } else {
    append(argv, {"--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1"});
  }
  return program;
}

Program mpich(const LaunchRequest& request) {
  Program program;
  program.argv = {mpiexec_of("mpich"), "-n", std::to_string(request.ranks)};
  if (request.ranks <= request.cpus) append(program.argv, {"-bind-to", "core"});
  return program;
}

/// Pins by itself. With more ranks than cores it is unusable (40 ms per small operation) unless
/// told to yield and to wait; with a core per rank waiting would cost it.
Program impi(const LaunchRequest& request) {
  Program program;
  const std::string mpiexec = mpiexec_of("impi");
  const fs::path root = fs::path(mpiexec).parent_path().parent_path();
  std::string libraries = (root / "lib").string();
  if (const std::string old = base::getenv("LD_LIBRARY_PATH"); !old.empty()) libraries += ":" + old;
  program.environment = {{"I_MPI_ROOT", root.string()},
                         {"LD_LIBRARY_PATH", libraries},
                         {"I_MPI_FABRICS", "shm"},
                         {"I_MPI_HYDRA_BOOTSTRAP", "fork"}};
  if (request.ranks > request.cpus) {
    program.environment.emplace_back("I_MPI_THREAD_YIELD", "2");
    program.environment.emplace_back("I_MPI_WAIT_MODE", "1");
  }
  program.argv = {mpiexec, "-n", std::to_string(request.ranks)};
  return program;
}

Program program_of(const std::string& mpi, const LaunchRequest& request) {
  if (mpi == "openmpi") return openmpi(request);
  return mpi == "mpich" ? mpich(request) : impi(request);
}

/// The worker of an MPI, or ours on that MPI: the same launcher, with the same settings.
Launch by_mpiexec(const std::string& mpi, const LaunchRequest& request,
                  const std::vector<std::string>& arguments) {
  const fs::path worker = worker_of(request.name, request.programs);
  Program program = program_of(mpi, request);
  if (is_ours(request.name)) {
    program.environment.emplace_back(kBackend, "mpi");
    program.environment.emplace_back("TUTTI_MPI_LIBRARY", library_file_of(mpi));
    program.environment.emplace_back("TUTTI_AGREE",
                                     request.name == kOursUnchecked ? "off" : "normal");
  }
  program.argv.push_back(worker.string());
  program.argv.insert(program.argv.end(), arguments.begin(), arguments.end());
  Launch launch;
  launch.settings = settings_text(program, worker);
  launch.programs.push_back(std::move(program));
  return launch;
}

std::uint16_t free_port() {
  auto reserved = os::reserve_port(0);
  if (!reserved) throw std::runtime_error(std::string(reserved.status().message()));
  auto address = os::local_address(reserved->get());
  if (!address) throw std::runtime_error(std::string(address.status().message()));
  return address->port();
}

const std::string kOnNccl = "cpu:native,cuda:nccl";

/// By tuttirun where it stands beside us, else by hand with what env:// reads.
Launch ours(const LaunchRequest& request, const std::vector<std::string>& arguments) {
  Launch launch;
  const bool core_per_rank = request.ranks <= request.cpus;
  std::vector<std::string> worker{worker_of(kOurs, request.programs).string()};
  worker.insert(worker.end(), arguments.begin(), arguments.end());
  if (core_per_rank) worker.push_back("--pin");
  if (request.gpu) worker.push_back("--gpu");
  const std::string& backend = request.name == kOursOnNccl ? kOnNccl : request.backend;
  const fs::path tuttirun = request.programs / "tuttirun";
  if (fs::exists(tuttirun)) {
    Program program;
    program.argv = {tuttirun.string(), "--nproc-per-node", std::to_string(request.ranks)};
    program.argv.insert(program.argv.end(), worker.begin(), worker.end());
    if (!backend.empty()) program.environment.emplace_back(kBackend, backend);
    launch.programs.push_back(std::move(program));
    launch.settings = "tuttirun";
  } else {
    const std::string port = std::to_string(free_port());
    const std::string size = std::to_string(request.ranks);
    for (int rank = 0; rank < request.ranks; ++rank) {
      const std::string number = std::to_string(rank);
      launch.programs.push_back({worker,
                                 {{"RANK", number},
                                  {"WORLD_SIZE", size},
                                  {"LOCAL_RANK", number},
                                  {"LOCAL_WORLD_SIZE", size},
                                  {"MASTER_ADDR", "127.0.0.1"},
                                  {"MASTER_PORT", port}}});
      if (!backend.empty()) launch.programs.back().environment.emplace_back(kBackend, backend);
    }
    launch.settings = "started directly";
  }
  if (core_per_rank) launch.settings += ", a core per rank";
  return launch;
}

}  // namespace

std::vector<std::string> known_libraries() {
  return {kOurs, "openmpi", "mpich", "impi", "gloo", kOursOnNccl};
}

std::vector<std::string> known_mpis() { return {"openmpi", "mpich", "impi"}; }

bool is_ours(const std::string& library) { return library == kOurs || library == kOursUnchecked; }

bool installed(const std::string& library, const fs::path& programs, std::string& why,
               const std::string& mpi) {
  if (!fs::exists(worker_of(library, programs))) {
    why = has_our_worker(library) ? "this build has no worker for it"
                                  : "not installed, or no build of tutti bench for it: " +
                                        worker_of(library, programs).string() + " is not there";
    return false;
  }
  const std::string& launched_by = is_ours(library) ? mpi : library;
  if (is_mpi(launched_by) && !fs::exists(mpiexec_of(launched_by))) {
    why = "not installed: no " + mpiexec_of(launched_by);
    return false;
  }
  return true;
}

Launch plan_launch(const LaunchRequest& request) {
  const fs::path worker = worker_of(request.name, request.programs);
  const std::vector<std::string> arguments{"--socket", request.socket.string()};
  if (has_our_worker(request.name))
    return request.mpi.empty() ? ours(request, arguments)
                               : by_mpiexec(request.mpi, request, arguments);
  if (is_mpi(request.name)) return by_mpiexec(request.name, request, arguments);
  if (request.name != "gloo") {
    throw std::invalid_argument("no such library: " + request.name);
  }
  Launch launch;
  for (int rank = 0; rank < request.ranks; ++rank) {
    Program program{{worker.string()}, {}};
    program.argv.insert(program.argv.end(), arguments.begin(), arguments.end());
    append(program.argv, {"--rank", std::to_string(rank), "--size", std::to_string(request.ranks),
                          "--directory", request.directory.string()});
    launch.programs.push_back(std::move(program));
  }
  launch.settings = "TCP on loopback, default algorithms";
  return launch;
}

}  // namespace tutti::bench
