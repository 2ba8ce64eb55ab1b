#include "apps/tutti/doctor_command.hpp"

#include <fmt/format.h>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <memory>
#include <string>

#include <tutti/version.hpp>

#include "apps/tutti/doctor.hpp"
#include "base/format.hpp"
#include "os/cpu.hpp"

namespace tutti::cli {

void add_doctor_command(CLI::App& app, int& exit_code) {
  auto job = std::make_shared<DoctorJob>();
  auto* command = app.add_subcommand(
      "doctor", "Tells what this machine offers, what would be chosen, and what is wrong");
  auto* ranks =
      command->add_option("--ranks", job->ranks, "Of the job that is asked about [one per CPU]")
          ->check(CLI::Range(1, 65536));
  command->add_option("--hosts", job->hosts, "Over which they are spread")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  auto endpoint = std::make_shared<std::string>();
  auto* const connect = command->add_option(
      "--connect", *endpoint, "HOST:PORT of a job's store: connect to it, and compare the secrets");
  command->callback([=, &exit_code] {
    if (ranks->count() == 0) job->ranks = std::max({2, os::usable_cpus(), job->hosts});
    if (job->ranks < job->hosts) throw CLI::ValidationError("--hosts", "more hosts than ranks");
    Findings findings;
    findings.section(base::format("tutti {}", tutti::version()));
    look_at_machine(findings);
    look_at_gpus(findings);
    look_at_network(findings);
    look_at_peers(findings);
    const Config config = look_at_settings(findings);
    look_at_choices(*job, config, findings);
    if (connect->count() > 0) look_at_port(*endpoint, config, findings);
    fmt::print("{}", findings.text());
    if (!findings.good()) exit_code = 1;
  });
}

}  // namespace tutti::cli
