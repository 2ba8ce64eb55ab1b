#include <unistd.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "apps/tutti/doctor.hpp"
#include "base/format.hpp"
#include "base/number.hpp"
#include "os/environment.hpp"
#include "plan/select.hpp"
#include "rendezvous/environment.hpp"
#include "rendezvous/known_variables.hpp"
#include "secure/tls.hpp"
#include "store/job_secret.hpp"

namespace tutti::cli {
namespace {

using os::Variables;

/// Variables that look like ours and are not.
void look_for_typos(const Variables& variables, Findings& findings) {
  std::vector<std::string> names;
  for (const auto& [name, value] : variables) names.push_back(name);
  for (const auto& [name, meant] : rendezvous::strange_variables(names)) {
    findings.wrong(base::format(
        "{} is set and means nothing{}", name,
        meant ? base::format("; did you mean {}?", *meant) : std::string(": unset it")));
  }
}

Config read_config(const Variables& variables, const std::vector<std::string>& names,
                   Findings& findings) {
  std::vector<std::string> faulty;
  // One at a time, so that every fault is told and not only the first.
  for (const std::string& name : names) {
    const auto alone = Config::from_environment([&](const char* asked) -> const char* {
      const auto found = variables.find(asked);
      return asked == name && found != variables.end() ? found->second.c_str() : nullptr;
    });
    Outcome status = alone.status();
    if (status) status = plan::check_override(alone.value().algorithms);
    if (status) continue;
    faulty.push_back(name);
    findings.wrong(std::string(status.message()));
  }
  const auto all = Config::from_environment([&](const char* asked) -> const char* {
    const auto found = variables.find(asked);
    const bool good = std::ranges::find(faulty, asked) == faulty.end();
    return good && found != variables.end() ? found->second.c_str() : nullptr;
  });
  return all.ok() ? all.value() : Config{};
}

std::optional<int> number(const Variables& variables, const char* name, Findings& findings) {
  const auto found = variables.find(name);
  if (found == variables.end()) return std::nullopt;
  const std::optional<int> value = base::whole_number(found->second);
  if (value) return value;
  findings.wrong(base::format("{} is \"{}\", which is not a whole number", name, found->second));
  return std::nullopt;
}

void look_at_job(const Variables& variables, Findings& findings) {
  std::vector<std::string> missing;
  for (const char* name : {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"})
    if (!variables.contains(name)) missing.emplace_back(name);
  if (!missing.empty() && missing.size() < 4) {
    findings.hint(
        base::format("some variables of a job are set, but not {}: "
                     "init_process_group() needs all four, and tuttirun sets them",
                     fmt::join(missing, ", ")));
  }
  const auto rank = number(variables, "RANK", findings);
  const auto size = number(variables, "WORLD_SIZE", findings);
  if (size && *size < 1) findings.wrong(base::format("WORLD_SIZE is {}, the least is 1", *size));
  if (rank && size && *size >= 1 && (*rank < 0 || *rank >= *size)) {
    findings.wrong(base::format("RANK is {} and WORLD_SIZE {}; ranks count from 0 to {}", *rank,
                                *size, *size - 1));
  }
  const auto port = number(variables, "MASTER_PORT", findings);
  if (port && (*port < 1 || *port > 65535))
    findings.wrong(base::format("MASTER_PORT is {}, ports are 1 to 65535", *port));
  const auto store = number(variables, "TUTTI_STORE_PORT", findings);
  if (store && (*store < 1 || *store > 65535))
    findings.wrong(base::format("TUTTI_STORE_PORT is {}, ports are 1 to 65535", *store));
  const auto agent = rendezvous::agent_serves(rendezvous::Environment({}));
  if (!agent.ok()) findings.wrong(std::string(agent.status().message()));
}

void look_at_secret(bool tls, Findings& findings) {
  const auto secret = store::job_secret({});
  if (!secret) {
    findings.wrong(std::string(secret.status().message()));
    return;
  }
  findings.fact("secret of a job", secret.value().source);
  if (!secret.value().bytes.empty()) return;
  if (tls)
    findings.wrong("TUTTI_TLS is 1 and needs a secret, but TUTTI_INSECURE allows none; unset one");
  auto insecure = store::insecure({});
  const bool pickle = insecure && *insecure == store::Insecure::pickle;
  findings.hint(
      base::format("TUTTI_INSECURE is {}: anybody who reaches the port of a job can join, "
                   "read and change data{}",
                   pickle ? "pickle" : "1",
                   pickle ? ", and run any code in its ranks" : "; object operations are refused"));
}

void look_at_encryption(Findings& findings) {
  if (const auto library = secure::Tls::library(); !library)
    findings.wrong(std::string(library.status().message()));
}

}  // namespace

Config look_at_settings(Findings& findings) {
  findings.section("Settings");
  const Variables variables = os::environment();
  const std::vector<std::string> settings = rendezvous::setting_variables();
  bool any = false;
  std::vector<std::string> shown = rendezvous::known_variables();
  for (const char* name : {"GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "RANK", "WORLD_SIZE",
                           "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "OMP_NUM_THREADS"})
    shown.emplace_back(name);
  for (const std::string& name : shown) {
    const auto found = variables.find(name);
    if (found == variables.end()) continue;
    any = true;
    findings.fact(name, found->second);
  }
  if (!any) findings.fact("none", "defaults, as in docs/reference/configuration.md");
  look_for_typos(variables, findings);
  look_at_job(variables, findings);
  Config config = read_config(variables, settings, findings);
  look_at_secret(config.tls, findings);
  if (config.tls) look_at_encryption(findings);
  return config;
}

}  // namespace tutti::cli
