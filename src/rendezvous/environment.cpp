#include "rendezvous/environment.hpp"

#include <cstdlib>

#include "base/format.hpp"
#include "base/number.hpp"
#include "base/shown.hpp"
#include "os/address.hpp"

namespace tutti::rendezvous {
namespace {

// The variables of other launchers. The first whose rank is set is used.
struct Launcher {
  const char* name;
  const char* rank;
  const char* size;
  const char* local_rank;
  const char* local_size;          // may be null
  std::array<const char*, 2> job;  // may be null
};
constexpr std::array kLaunchers = {
    Launcher{"mpirun (Open MPI)",
             "OMPI_COMM_WORLD_RANK",
             "OMPI_COMM_WORLD_SIZE",
             "OMPI_COMM_WORLD_LOCAL_RANK",
             "OMPI_COMM_WORLD_LOCAL_SIZE",
             {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"}},
    // PMI_JOBID is Slurm's (srun --mpi=pmi2).
    Launcher{"mpiexec (PMI)",
             "PMI_RANK",
             "PMI_SIZE",
             "MPI_LOCALRANKID",
             "MPI_LOCALNRANKS",
             {"PMI_JOBID"}},
    Launcher{"srun (Slurm)",
             "SLURM_PROCID",
             "SLURM_NTASKS",
             "SLURM_LOCALID",
             nullptr,
             {"SLURM_JOB_ID", "SLURM_STEP_ID"}},
};

Outcome fill(std::optional<int>& value, const Environment& environment, const char* name) {
  if (value || name == nullptr) return {};
  auto number = environment.number(name);
  if (!number) return number.status();
  value = *number;
  return {};
}

}  // namespace

Outcome cannot_join(std::string_view what) {
  return Outcome(Errc::invalid_argument, base::format("cannot join the job: {}", what));
}

std::optional<std::string> Environment::text(const char* name) const {
  const char* value = lookup_ ? lookup_(name) : std::getenv(name);
  return value == nullptr ? std::optional<std::string>() : std::string(value);
}

std::optional<std::string> Environment::filled(const char* name) const {
  std::optional<std::string> value = text(name);
  if (value && value->empty()) value.reset();
  return value;
}

Result<std::optional<int>> Environment::number(const char* name) const {
  const std::optional<std::string> value = text(name);
  if (!value) return std::optional<int>();
  const std::optional<int> parsed = base::whole_number(*value);
  if (!parsed)
    return cannot_join(
        base::format("{} is \"{}\", which is not a whole number", name, base::shown(*value, 64)));
  return parsed;
}

Outcome complete(Place& place, const Environment& environment) {
  if (Outcome s = fill(place.rank, environment, "RANK"); !s) return s;
  if (Outcome s = fill(place.size, environment, "WORLD_SIZE"); !s) return s;
  if (Outcome s = fill(place.local_rank, environment, "LOCAL_RANK"); !s) return s;
  if (place.rank && place.size) return {};
  for (const Launcher& launcher : kLaunchers) {
    if (!environment.text(launcher.rank)) continue;
    place.launcher = launcher.name;
    if (Outcome s = fill(place.rank, environment, launcher.rank); !s) return s;
    if (Outcome s = fill(place.size, environment, launcher.size); !s) return s;
    if (Outcome s = fill(place.local_rank, environment, launcher.local_rank); !s) return s;
    if (Outcome s = fill(place.local_size, environment, launcher.local_size); !s) return s;
    for (const char* const name : launcher.job) {
      if (name != nullptr) place.launcher_job += environment.text(name).value_or("") + " ";
    }
    break;
  }
  // Slurm tells the number of hosts only.
  auto hosts = environment.number("SLURM_STEP_NUM_NODES");
  if (!place.launcher.empty() && !place.local_size && hosts && *hosts)
    place.local_size = **hosts == 1 ? place.size : std::optional<int>(0);
  return {};
}

Outcome check_place(const Place& place) {
  const int rank = place.rank.value_or(0);
  const int size = place.size.value_or(1);
  if (size < 1) return cannot_join(base::format("WORLD_SIZE is {}, it must be at least 1", size));
  if (rank < 0 || rank >= size) {
    return cannot_join(base::format("RANK is {} and WORLD_SIZE {}; ranks count from 0 to {}", rank,
                                    size, size - 1));
  }
  if (place.local_rank.value_or(0) < 0) {
    return cannot_join(
        base::format("LOCAL_RANK is {}, it must not be negative", *place.local_rank));
  }
  return {};
}

Outcome check_master(const std::string& host, int port, const char* variable) {
  if (port < 1 || port > 65535)
    return cannot_join(base::format("{} is {}, ports are 1 to 65535", variable, port));
  const auto complain = [&](std::string_view why) {
    return cannot_join(
        base::format("MASTER_ADDR is \"{}\", {}; set it to the address or name of the "
                     "host of rank 0",
                     base::shown(host, 256), why));
  };
  if (host.empty()) return complain("which is empty");
  constexpr std::size_t kLongestName = 253;  // of the domain name system
  if (host.size() > kLongestName) return complain("which is too long for a host");
  for (const char c : host) {
    if (static_cast<unsigned char>(c) <= ' ' || c == '/' || c == 127)
      return complain("which is not an address or a host name");
  }
  if (const auto address = os::Address::parse(host, static_cast<std::uint16_t>(port))) {
    const os::Address& master = address.value();
    if (master.is_multicast()) return complain("a multicast address, which no host has");
    if (master.is_broadcast()) return complain("the broadcast address, which no host has");
    if (master.is_unspecified()) return complain("which stands for any address");
  }
  return {};
}

Outcome check_job_name(const std::string& name) {
  if (name.size() > kMostJobNameBytes) {
    return cannot_join(base::format("the job name has {} bytes, at most {} are taken", name.size(),
                                    kMostJobNameBytes));
  }
  for (const char c : name) {
    if (static_cast<unsigned char>(c) < ' ' || c == 127)
      return cannot_join("the job name has a control character in it");
  }
  return {};
}

Result<bool> agent_serves(const Environment& environment) {
  const std::string value = environment.filled("TUTTI_AGENT_STORE").value_or("0");
  const std::string_view flag = base::without_blanks(value);
  if (flag == "0") return false;
  if (flag == "1") return true;
  return cannot_join(
      base::format("TUTTI_AGENT_STORE is \"{}\", it must be 0 or 1", base::shown(value, 64)));
}

}  // namespace tutti::rendezvous
