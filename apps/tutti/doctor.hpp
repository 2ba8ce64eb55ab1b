#pragma once

#include <string>

#include <tutti/config.hpp>

#include "apps/tutti/findings.hpp"

namespace tutti::cli {

/// The job that is asked about.
struct DoctorJob {
  int ranks = 2;
  int hosts = 1;
};

/// CPUs, memory, and what of the system the library stands on.
void look_at_machine(Findings& findings);
/// Nodes of memory, and the caches that CPUs share: what the kernel's own files tell.
void look_at_topology(Findings& findings);
/// The driver of NVIDIA's GPUs, and the GPUs; nothing where there are none.
void look_at_gpus(Findings& findings);
/// Interfaces, names and TCP.
void look_at_network(Findings& findings);
/// Connects to HOST:PORT, and looks whether the store of a job with our secret listens there.
void look_at_port(const std::string& endpoint, const Config& config, Findings& findings);
/// Other programs of the kind.
void look_at_peers(Findings& findings);
/// Variables of ours, and those that seem to be meant as ours. Returns what they come to; faulty
/// ones count as not given.
Config look_at_settings(Findings& findings);
/// The choices of the library for such a job on this machine.
void look_at_choices(const DoctorJob& job, const Config& config, Findings& findings);

}  // namespace tutti::cli
