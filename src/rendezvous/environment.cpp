#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <map>
#include <mutex>

#include "base/log.hpp"
#include "os/address.hpp"
#include "rendezvous/rendezvous.hpp"
#include "store/secret.hpp"

namespace tutti::rendezvous {
namespace {

constexpr std::string_view kAdvice =
    "start the program with tuttirun, or set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT";

Status invalid(std::string_view what) {
  return Status(Errc::invalid_argument, fmt::format("cannot join the job: {}", what));
}

class Environment {
 public:
  explicit Environment(const Settings& settings) : lookup_(settings.environment) {}

  [[nodiscard]] std::optional<std::string> text(const char* name) const {
    const char* value = lookup_ ? lookup_(name) : std::getenv(name);
    return value == nullptr ? std::optional<std::string>() : std::string(value);
  }

  Result<std::optional<int>> number(const char* name) const {
    const std::optional<std::string> value = text(name);
    if (!value) return std::optional<int>();
    int parsed = 0;
    const char* end = value->data() + value->size();
    const auto [stop, error] = std::from_chars(value->data(), end, parsed);
    if (error != std::errc() || stop != end || value->empty())
      return invalid(
          fmt::format("{} is \"{}\", which is not a whole number", name, value->substr(0, 64)));
    return std::optional<int>(parsed);
  }

 private:
  std::function<const char*(const char*)> lookup_;
};

// What stands in an argument or, if there is none, in a variable.
struct Wanted {
  const char* variable;
  std::optional<int> given;
  std::optional<int> value;
};

Status check_ranks(int rank, int size, int local_rank) {
  if (size < 1) return invalid(fmt::format("WORLD_SIZE is {}, it must be at least 1", size));
  if (rank < 0 || rank >= size) {
    return invalid(fmt::format("RANK is {} and WORLD_SIZE {}; ranks count from 0 to {}", rank, size,
                               size - 1));
  }
  if (local_rank < 0)
    return invalid(fmt::format("LOCAL_RANK is {}, it must not be negative", local_rank));
  return {};
}

Status check_master(const std::string& host, int port) {
  if (port < 1 || port > 65535)
    return invalid(fmt::format("MASTER_PORT is {}, ports are 1 to 65535", port));
  const auto complain = [&](std::string_view why) {
    return invalid(
        fmt::format("MASTER_ADDR is \"{}\", {}; set it to the address or name of the "
                    "host of rank 0",
                    host.substr(0, 256), why));
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

Result<std::vector<std::byte>> read_secret(const Environment& environment) {
  auto fd = environment.number("TUTTI_SECRET_FD");
  if (!fd) return fd.status();
  if (*fd) return store::read_secret_fd(**fd);
  if (const auto path = environment.text("TUTTI_SECRET_FILE"))
    return store::read_secret_file(*path);
  return std::vector<std::byte>();
}

Result<bool> agent_serves(const Environment& environment) {
  const auto value = environment.text("TUTTI_AGENT_STORE");
  if (!value || *value == "0") return false;
  if (*value == "1") return true;
  return invalid(
      fmt::format("TUTTI_AGENT_STORE is \"{}\", it must be 0 or 1", value->substr(0, 64)));
}

// Counts the groups of this process per store and rank (ranks may be threads).
class Generations {
 public:
  std::uint64_t next(const std::string& key) {
    const std::lock_guard lock(mutex_);
    return counts_[key] + 1;
  }
  void made(const std::string& key, std::uint64_t generation) {
    const std::lock_guard lock(mutex_);
    counts_[key] = generation;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::uint64_t> counts_;
};

Generations& generations() {
  static Generations instance;
  return instance;
}

Status read_environment(const Settings& settings, const Environment& environment,
                        Rendezvous& result) {
  Wanted rank{"RANK", settings.rank, {}};
  Wanted size{"WORLD_SIZE", settings.size, {}};
  Wanted port{"MASTER_PORT", settings.master_port, {}};
  Wanted local{"LOCAL_RANK", settings.local_rank, {}};
  for (Wanted* wanted : {&rank, &size, &port, &local}) {
    wanted->value = wanted->given;
    if (wanted->value) continue;
    auto number = environment.number(wanted->variable);
    if (!number) return number.status();
    wanted->value = *number;
  }
  const std::optional<std::string> master =
      settings.master_addr ? settings.master_addr : environment.text("MASTER_ADDR");

  std::string missing;
  for (const Wanted* wanted : {&rank, &size, &port})
    if (!wanted->value)
      missing += fmt::format("{}{}", missing.empty() ? "" : ", ", wanted->variable);
  if (!master) missing += missing.empty() ? "MASTER_ADDR" : ", MASTER_ADDR";
  if (!missing.empty()) {
    const bool several = missing.find(',') != std::string::npos;
    return invalid(fmt::format("{} {} not set; {}", missing, several ? "are" : "is", kAdvice));
  }
  if (Status s = check_ranks(*rank.value, *size.value, local.value.value_or(0)); !s) return s;
  if (Status s = check_master(*master, *port.value); !s) return s;
  result.rank = *rank.value;
  result.size = *size.value;
  result.local_rank = local.value.value_or(0);
  result.master_addr = *master;
  result.master_port = static_cast<std::uint16_t>(*port.value);
  return {};
}

void warn_without_secret(const Rendezvous& rendezvous) {
  if (rendezvous.rank != 0 || !rendezvous.secret.empty()) return;
  const auto address = os::Address::parse(rendezvous.master_addr, rendezvous.master_port);
  if (rendezvous.master_addr == "localhost" || (address && address.value().is_loopback())) return;
  base::log(base::Level::warning,
            fmt::format("the job at {}:{} has no secret: whoever reaches that port can join or "
                        "disturb it; give all processes the same TUTTI_SECRET_FILE",
                        rendezvous.master_addr, rendezvous.master_port));
}

}  // namespace

Result<Rendezvous> from_env(const Settings& settings) {
  const Environment environment(settings);
  Rendezvous result;
  if (Status s = read_environment(settings, environment, result); !s) return s;
  auto secret = read_secret(environment);
  if (!secret) return secret.status();
  result.secret = std::move(*secret);
  auto agent = agent_serves(environment);
  if (!agent) return agent.status();
  result.job = environment.text("TUTTI_JOB").value_or("");
  const std::string key =
      fmt::format("{}:{} {} {}", result.master_addr, result.master_port, result.rank, result.job);
  result.generation = generations().next(key);

  TcpStoreOptions options;
  options.host = result.master_addr;
  options.port = result.master_port;
  options.timeout = settings.timeout;
  options.secret = result.secret;
  options.job = result.job;
  if (!*agent) {
    options.serve = result.rank == 0;
    options.users = result.size;
    options.generation = static_cast<std::uint32_t>(result.generation);
    warn_without_secret(result);
  }
  try {
    const std::shared_ptr<TcpStore> store = make_tcp_store(options);
    // The launcher's store outlives groups and, where a worker is a script, even processes: it
    // counts for us. A server of rank 0 is new each time.
    if (*agent) {
      const std::string joined = fmt::format("tutti/joined/{}", result.rank);
      result.generation = static_cast<std::uint64_t>(store->add(joined, 1));
    }
    result.store = make_prefix_store(fmt::format("tutti/{}", result.generation), store);
  } catch (const Error& error) {
    return Status(error.code(), fmt::format("rank {} of {} cannot join the job: {}", result.rank,
                                            result.size, error.what()));
  }
  generations().made(key, result.generation);
  return result;
}

}  // namespace tutti::rendezvous
