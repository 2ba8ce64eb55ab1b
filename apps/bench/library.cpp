#include "apps/bench/library.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <stdexcept>

#include "base/format.hpp"
#include "base/getenv.hpp"
#include "base/index.hpp"
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

/// "10.0.0.1,10.0.0.2", each followed by `after`.
std::string addresses_of(const LaunchRequest& request, const std::string& after = {}) {
  std::string all;
  for (const Host& host : request.hosts) {
    all += (all.empty() ? "" : ",") + host.address + after;
  }
  return all;
}

/// A core per rank: bound, as its manual says. More ranks than cores: told so, and made to yield.
Program openmpi(const LaunchRequest& request) {
  Program program;
  auto& argv = program.argv;
  argv = {mpiexec_of("openmpi"), "-n", std::to_string(request.ranks)};
  if (::geteuid() == 0) argv.push_back("--allow-run-as-root");
  append(argv, {"--mca", "pml", "ob1", "--mca", "btl"});
  const bool yields = request.ranks > request.cpus;
  if (!request.hosts.empty()) {
    const std::string slots = base::format(":{}", request.ranks_per_host());
    append(argv, {"tcp,self,vader", "--host", addresses_of(request, slots), "--mca",
                  "plm_rsh_agent", request.remote_shell.string(), "--mca", "oob_tcp_if_include",
                  kHostInterface, "--mca", "btl_tcp_if_include", kHostInterface, "--bind-to",
                  "none", "--mca", "mpi_yield_when_idle", yields ? "1" : "0"});
    return program;
  }
  argv.emplace_back("self,vader");
  if (!yields) {
    append(argv, {"--bind-to", "core"});
  } else {
    append(argv, {"--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1"});
  }
  return program;
}

Program mpich(const LaunchRequest& request) {
  Program program;
  program.argv = {mpiexec_of("mpich"), "-n", std::to_string(request.ranks)};
  if (!request.hosts.empty()) {
    append(program.argv, {"-ppn", std::to_string(request.ranks_per_host()), "-hosts",
                          addresses_of(request), "-launcher", "ssh", "-launcher-exec",
                          request.remote_shell.string(), "-iface", kHostInterface});
    // UCX would find the shared memory of this machine.
    program.environment = {{"UCX_TLS", "tcp,self"}, {"UCX_NET_DEVICES", kHostInterface}};
    return program;
  }
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
                         {"I_MPI_FABRICS", request.hosts.empty() ? "shm" : "shm:ofi"},
                         {"I_MPI_HYDRA_BOOTSTRAP", request.hosts.empty() ? "fork" : "ssh"}};
  if (request.ranks > request.cpus) {
    program.environment.emplace_back("I_MPI_THREAD_YIELD", "2");
    program.environment.emplace_back("I_MPI_WAIT_MODE", "1");
  }
  program.argv = {mpiexec, "-n", std::to_string(request.ranks)};
  if (!request.hosts.empty()) {
    for (const auto& [name, value] :
         {std::pair("I_MPI_HYDRA_BOOTSTRAP_EXEC", request.remote_shell.string()),
          std::pair("I_MPI_HYDRA_IFACE", std::string(kHostInterface)),
          std::pair("FI_PROVIDER", std::string("tcp")),
          std::pair("FI_TCP_IFACE", std::string(kHostInterface)),
          std::pair("I_MPI_PIN", std::string("0"))})
      program.environment.emplace_back(name, value);
    append(program.argv,
           {"-ppn", std::to_string(request.ranks_per_host()), "-hosts", addresses_of(request)});
  }
  return program;
}

Program program_of(const std::string& mpi, const LaunchRequest& request) {
  if (mpi == "openmpi") return openmpi(request);
  return mpi == "mpich" ? mpich(request) : impi(request);
}

void enter(const Host& host, Program& program) {
  program.argv.insert(program.argv.begin(), host.enter.begin(), host.enter.end());
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
  // Its launcher would bind the ranks of each host to the same CPUs.
  if (!request.hosts.empty() && request.ranks <= request.cpus) program.argv.push_back("--pin");
  Launch launch;
  launch.settings = settings_text(program, worker);
  if (!request.hosts.empty()) enter(request.hosts.front(), program);
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

/// By tuttirun where it stands beside us and all ranks run here, else by hand with what env://
/// reads.
Launch ours(const LaunchRequest& request, const std::vector<std::string>& arguments) {
  Launch launch;
  const bool core_per_rank = request.ranks <= request.cpus;
  std::vector<std::string> worker{worker_of(kOurs, request.programs).string()};
  worker.insert(worker.end(), arguments.begin(), arguments.end());
  if (core_per_rank) worker.push_back("--pin");
  if (request.gpu) worker.push_back("--gpu");
  const std::string& backend = request.name == kOursOnNccl ? kOnNccl : request.backend;
  const fs::path tuttirun = request.programs / "tuttirun";
  if (fs::exists(tuttirun) && request.hosts.empty()) {
    Program program;
    program.argv = {tuttirun.string(), "--nproc-per-node", std::to_string(request.ranks)};
    program.argv.insert(program.argv.end(), worker.begin(), worker.end());
    if (!backend.empty()) program.environment.emplace_back(kBackend, backend);
    launch.programs.push_back(std::move(program));
    launch.settings = "tuttirun";
  } else {
    const std::string port = std::to_string(free_port());
    const int on_host = request.ranks_per_host();
    const std::string root = request.hosts.empty() ? "127.0.0.1" : request.hosts.front().address;
    for (int rank = 0; rank < request.ranks; ++rank) {
      launch.programs.push_back({worker,
                                 {{"RANK", std::to_string(rank)},
                                  {"WORLD_SIZE", std::to_string(request.ranks)},
                                  {"LOCAL_RANK", std::to_string(rank % on_host)},
                                  {"LOCAL_WORLD_SIZE", std::to_string(on_host)},
                                  {"MASTER_ADDR", root},
                                  {"MASTER_PORT", port}}});
      Program& program = launch.programs.back();
      if (!backend.empty()) program.environment.emplace_back(kBackend, backend);
      if (!request.hosts.empty()) enter(base::at(request.hosts, rank / on_host), program);
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
    if (!request.hosts.empty()) {
      const Host& host = base::at(request.hosts, rank / request.ranks_per_host());
      append(program.argv, {"--address", host.address});
      enter(host, program);
    }
    launch.programs.push_back(std::move(program));
  }
  launch.settings =
      request.hosts.empty() ? "TCP on loopback, default algorithms" : "TCP, default algorithms";
  return launch;
}

}  // namespace tutti::bench
