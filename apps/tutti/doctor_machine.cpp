#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "apps/tutti/doctor.hpp"
#include "base/format.hpp"
#include "os/cgroup.hpp"
#include "os/cpu.hpp"
#include "os/cpu_set.hpp"
#include "os/futex.hpp"
#include "os/host.hpp"
#include "os/process.hpp"
#include "os/shared_memory.hpp"
#include "secure/hmac.hpp"
#include "secure/tls.hpp"

namespace tutti::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kLittleMemory = 256 * kMiB;
// Sockets, eventfds, pipes and what peers hand us: a few for each rank of the host.
constexpr rlim_t kFewDescriptors = 256;

std::string memory_text(std::uint64_t bytes) {
  const double mib = static_cast<double>(bytes) / static_cast<double>(kMiB);
  return mib >= 1024 ? base::format("{:.1f} GiB", mib / 1024) : base::format("{:.0f} MiB", mib);
}

std::optional<std::uint64_t> available_memory() {
  std::ifstream file("/proc/meminfo");
  std::string name;
  std::uint64_t kib = 0;
  std::string unit;
  while (file >> name >> kib && std::getline(file, unit))
    if (name == "MemAvailable:") return kib * 1024;
  return std::nullopt;
}

void look_at_cpus(Findings& findings) {
  const auto allowed = static_cast<int>(os::affinity_of(0).count());
  const int usable = os::usable_cpus();
  findings.fact("cpus",
                base::format("{} usable ({} online, affinity allows {}, {})", usable,
                             sysconf(_SC_NPROCESSORS_ONLN), allowed,
                             usable < allowed ? base::format("the cgroup's quota is {}", usable)
                                              : std::string("no quota below that")));
  if (usable == 1)
    findings.hint("one CPU: ranks of this host take turns, and every operation costs switches");
}

void look_at_memory(Findings& findings) {
  const auto available = available_memory();
  const auto limit = os::memory_limit();
  findings.fact("memory",
                base::format("{} available, {}", available ? memory_text(*available) : "unknown",
                             limit ? "the cgroup's limit is " + memory_text(limit->bytes)
                                   : std::string("no limit of a cgroup")));
  if (available && *available < kLittleMemory)
    findings.hint("little memory is left: a rank takes some MiB, and what its buffers take");
}

void look_at_shared_memory(Findings& findings) {
  constexpr std::size_t kTried = std::size_t{4} << 20;
  Outcome status;
  auto memory = os::make_memfd("tutti-doctor", kTried);
  status = memory.status();
  if (memory) {
    auto mapping = os::map_shared(*memory, kTried, true);
    status = mapping ? os::populate(mapping->data(), kTried) : mapping.status();
  }
  findings.fact("shared memory", status ? "memfd, can be filled" : "not available");
  if (!status) {
    findings.wrong(
        base::format("shared memory does not work: {}; ranks of one host need it unless "
                     "TUTTI_TRANSPORT=tcp",
                     status.message()));
  }
  const auto network = os::network_namespace();
  const auto boot = os::boot_id();
  if (!boot || !network) {
    findings.wrong(
        base::format("ranks cannot tell whether they share a host: {}; is /proc mounted?",
                     (boot ? network.status() : boot.status()).message()));
  }
}

void look_at_kernel(Findings& findings) {
  utsname name{};
  if (uname(&name) == 0) findings.fact("kernel", base::format("{} {}", name.sysname, name.release));
  const auto pidfd = os::open_pidfd(getpid());
  findings.fact("pidfd", pidfd ? "yes" : "no: tuttirun waits for SIGCHLD, spawn asks every 10 ms");
  const bool fence = os::register_global_fence() && os::global_fence();
  findings.fact("membarrier", fence ? "yes" : "no: each publication pays a fence of its own");
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
    const bool unlimited = files.rlim_cur == RLIM_INFINITY;
    findings.fact("descriptors",
                  unlimited ? "no limit" : base::format("{} for a process", files.rlim_cur));
    if (!unlimited && files.rlim_cur < kFewDescriptors) {
      findings.wrong(base::format("a process may open {} descriptors only; say ulimit -n 1024",
                                  files.rlim_cur));
    }
  }
  const auto digest = secure::hmac_sha256({}, {});
  findings.fact("libcrypto", digest ? "yes" : "no");
  if (!digest) {
    findings.wrong(
        base::format("{}; connections between hosts, and tuttirun, cannot prove that "
                     "they know the job's secret without it",
                     digest.status().message()));
  }
  const auto tls = secure::Tls::library();
  findings.fact("TLS 1.3", tls ? base::format("{}; on with TUTTI_TLS=1", tls.value())
                               : std::string("no: TUTTI_TLS=1 will not work"));
}

}  // namespace

void look_at_machine(Findings& findings) {
  findings.section("Machine");
  findings.fact("host", os::host_name());
  look_at_cpus(findings);
  look_at_topology(findings);
  look_at_memory(findings);
  look_at_shared_memory(findings);
  look_at_kernel(findings);
}

}  // namespace tutti::cli
