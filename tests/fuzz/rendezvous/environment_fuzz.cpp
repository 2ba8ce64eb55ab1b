// Any text may stand in the variables of a process: its place in the job makes sense or is refused,
// and a list of interfaces is understood or refused. Lines "NAME=value".

#include <sys/socket.h>

#include <string>

#include <tutti/config.hpp>

#include "fuzz/fuzzer.hpp"
#include "fuzz/input.hpp"
#include "rendezvous/advertised_address.hpp"
#include "rendezvous/environment.hpp"
#include "rendezvous/interfaces.hpp"
#include "store/job_secret.hpp"

using namespace tutti::rendezvous;

namespace tutti::fuzz::environment_parser {

void check(tutti::Result<tutti::Config> config) {
  if (!config) {
    require(config.status().code() == tutti::Errc::invalid_argument);
    return;
  }
  require(config->timeout.count() > 0);
  require(!config->cpus || (*config->cpus >= 1 && *config->cpus <= 65536));
  require(!config->port || (*config->port >= 1 && *config->port <= 65535));
}

TUTTI_FUZZER(environment_fuzz)(const std::uint8_t* data, std::size_t size) {
  std::map<std::string, std::string, std::less<>> variables;
  Input input(data, size);
  while (!input.empty()) {
    const std::string_view line = input.line();
    const std::size_t equals = line.find('=');
    if (equals == std::string_view::npos) continue;
    // As the environment gives it: up to a zero byte.
    const std::string value(line.substr(equals + 1));
    variables[std::string(line.substr(0, equals))] = value.c_str();
  }
  const auto lookup = [&](const char* name) -> const char* {
    const auto found = variables.find(std::string_view(name));
    return found == variables.end() ? nullptr : found->second.c_str();
  };
  const Environment environment(lookup);
  Place place;
  const tutti::Outcome read = complete(place, environment);
  require(read.ok() || read.code() == tutti::Errc::invalid_argument);
  require(read.message().size() < 2000);
  if (read.ok() && check_place(place).ok() && place.rank && place.size)
    require(*place.rank >= 0 && *place.rank < *place.size);
  static_cast<void>(agent_serves(environment));
  check(tutti::Config::from_environment(lookup));
  // Descriptors only: opening what is named there may do something.
  if (!variables.contains("TUTTI_SECRET_FILE")) {
    if (auto secret = tutti::store::given_secret(lookup))
      require(!secret->has_value() || (*secret)->bytes.size() >= 32);
  }
  if (auto chosen = choose_interface(environment, AF_INET); !chosen)
    require(chosen.status().code() == tutti::Errc::invalid_argument);
  else if (*chosen)
    require(variables.contains((*chosen)->variable) && !(*chosen)->interface.name.empty());
  for (const auto& [name, value] : variables) {
    auto advertised = parse_advertised(value);
    require(advertised ? !advertised->host.empty()
                       : advertised.status().code() == tutti::Errc::invalid_argument);
    auto port = port_of_local_rank(name.substr(0, 64), static_cast<int>(value.size()) * 4000,
                                   static_cast<int>(name.size()) - 1);
    require(!port || *port > 0);
    auto choice = parse_interfaces(name.substr(0, 64), value, false);
    if (!choice) {
      require(choice.status().message().size() < 2000);
      continue;
    }
    require(!choice->names.empty() && choice->names.size() <= kMostInterfaces);
    static_cast<void>(choice->place_of("eth0"));
  }
  return 0;
}

}  // namespace tutti::fuzz::environment_parser
