#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <tutti/backend/registry.hpp>
#include <tutti/init.hpp>

#include <tutti/backend/kinds.hpp>
#include "apps/tutti/doctor.hpp"
#include "base/format.hpp"
#include "group/worlds.hpp"
#include "os/cpu.hpp"
#include "plan/select.hpp"
#include "plan/topology.hpp"

namespace tutti::cli {
namespace {

// Of the sizes that are looked at.
constexpr std::size_t kMostBytes = std::size_t{1} << 30;

std::string size_text(std::size_t bytes) {
  constexpr std::size_t kKiB = 1024;
  if (bytes < kKiB) return base::format("{} B", bytes);
  if (bytes < kKiB * kKiB) return base::format("{} KiB", bytes / kKiB);
  return base::format("{} MiB", bytes / (kKiB * kKiB));
}

std::string describe(const plan::Choice& choice) {
  if (choice.chunk_bytes == 0) return std::string(choice.algorithm);
  return base::format("{} in pieces of {}", choice.algorithm, size_text(choice.chunk_bytes));
}

plan::Topology topology_of(const DoctorJob& job, const Config& config) {
  std::vector<int> hosts;
  const bool apart = config.transport == Config::TransportChoice::tcp;
  for (int rank = 0; rank < job.ranks; ++rank)
    hosts.push_back(apart ? rank : static_cast<int>(std::int64_t{rank} * job.hosts / job.ranks));
  return plan::make_topology(std::move(hosts));
}

void list_algorithms(Kind kind, const plan::Topology& topology, int cpus, const Config& config,
                     Findings& findings) {
  const auto choice_for = [&](std::size_t bytes) {
    plan::Query query;
    query.kind = kind;
    query.bytes = bytes;
    query.rounds = traits_of(kind).reduces;
    query.even_blocks = true;
    query.cpus = cpus;
    query.override_text = config.algorithms;
    return describe(plan::select(query, topology));
  };
  std::string_view name = traits_of(kind).name;
  if (!has_data(kind)) {
    findings.fact(name, choice_for(0));
    return;
  }
  // The rows of the table end at a power of two or just below it; one that did not would be shown
  // at the next power.
  std::string last = choice_for(1);
  for (std::size_t bytes = 2; bytes <= kMostBytes; bytes *= 2) {
    for (const std::size_t probe : {bytes, bytes + 1}) {
      const std::string choice = choice_for(probe);
      if (choice == last) continue;
      findings.fact(
          std::exchange(name, ""),
          base::format("{} {}: {}", probe == bytes ? "below" : "up to", size_text(bytes), last));
      last = choice;
    }
  }
  findings.fact(name, name.empty() ? "beyond: " + last : "all sizes: " + last);
}

}  // namespace

void look_at_choices(const DoctorJob& job, const Config& config, Findings& findings) {
  const int cpus = config.cpus.value_or(os::usable_cpus());
  const int per_host = (job.ranks + job.hosts - 1) / job.hosts;
  const plan::Topology topology = topology_of(job, config);
  findings.section(base::format("Choices for {} rank{} on {} host{}", job.ranks,
                                job.ranks == 1 ? "" : "s", job.hosts, job.hosts == 1 ? "" : "s"));
  const std::vector<std::string> backends = available_backends();
  if (const Outcome usable = group::check_backend(config); usable.ok())
    findings.fact("backend", config.backend == "auto"
                                 ? "auto (native; collectives on GPUs go to nccl in groups whose "
                                   "ranks can use it)"
                                 : config.backend);
  else
    findings.wrong(std::string(usable.message()));
  for (const std::string& name : backends) {
    if (const std::string about = about_backend(name); !about.empty())
      findings.fact("there is also " + name, about);
  }
  for (const char* const name : {"mpi", "nccl"}) {
    if (std::ranges::find(backends, name) == backends.end())
      findings.fact(name, "no: " + group::why_missing(name));
  }
  switch (config.transport) {
    case Config::TransportChoice::tcp:
      findings.fact("transport", "TCP for everything, as TUTTI_TRANSPORT says");
      break;
    case Config::TransportChoice::shm:
    case Config::TransportChoice::automatic:
      findings.fact("transport", job.hosts == 1 ? "shared memory"
                                                : "shared memory within a host, TCP between hosts");
      break;
  }
  findings.fact("encryption",
                config.tls ? "TLS 1.3 on every TCP connection" : "no: TUTTI_TLS=1 switches it on");
  if (config.transport == Config::TransportChoice::shm && job.hosts > 1)
    findings.wrong("TUTTI_TRANSPORT=shm refuses to start on several hosts: unset it");
  if (config.agree == Config::Agree::strict)
    findings.fact("agreement", "strict: no rank writes before the calls of all ranks are compared");
  findings.fact(
      "waiting",
      per_host <= cpus
          ? base::format("spins, then sleeps: {} ranks of a host, {} CPUs", per_host, cpus)
          : base::format("yields, then sleeps: {} ranks of a host share {} CPU{}", per_host, cpus,
                         cpus == 1 ? "" : "s"));
  std::vector<Kind> kinds;
  for (const plan::Algorithm& algorithm : plan::algorithms()) {
    if (std::ranges::find(kinds, algorithm.kind) == kinds.end()) kinds.push_back(algorithm.kind);
  }
  for (const Kind kind : kinds) list_algorithms(kind, topology, cpus, config, findings);
}

}  // namespace tutti::cli
