#include <tutti/init.hpp>

#include <optional>
#include <random>
#include <system_error>
#include <utility>

#include "base/deadline.hpp"
#include "base/fnv.hpp"
#include "base/format.hpp"
#include "base/index.hpp"
#include "base/log.hpp"
#include "group/common_secret.hpp"
#include "group/worlds.hpp"
#include "os/system_error.hpp"
#include "record/start_watch.hpp"
#include "rendezvous/environment.hpp"
#include "rendezvous/known_variables.hpp"
#include "rendezvous/rendezvous.hpp"
#include "store/job_secret.hpp"
#include "transport/first_lost.hpp"

namespace tutti {
inline namespace v0 {
namespace {

Outcome without(const std::string& what) {
  return Outcome(Errc::invalid_argument, "init_process_group with an exchange: " + what);
}

/// The options, completed by the backend's own rendezvous if the caller leaves it to the backend.
InitOptions with_own_rendezvous(const InitOptions& options, const Config& config,
                                std::chrono::steady_clock::time_point deadline) {
  InitOptions own = options;
  const auto factory = group::find_backend(config.backend);
  if (!factory || !factory->rendezvous || options.exchange || options.store ||
      options.init_method || options.rank || options.size || options.master_addr ||
      options.master_port)
    return own;
  Result<BackendRendezvous> met = factory->rendezvous(options.backend_options, deadline);
  if (!met) raise(met.status());
  auto launched = rendezvous::Environment({}).number("WORLD_SIZE");
  if (launched && *launched && **launched != met->size) {
    raise(
        Outcome(Errc::invalid_argument,
                base::format("init_process_group: WORLD_SIZE is {0}, but the backend '{1}' has {2} "
                             "rank{3}; start the program by its own launcher (tuttirun --backend "
                             "{1} does)",
                             **launched, config.backend, met->size, met->size == 1 ? "" : "s")));
  }
  own.rank = met->rank;
  own.size = met->size;
  own.exchange = [exchange = met->exchange](const std::string& /*name*/, const std::string& mine) {
    return exchange(mine);
  };
  return own;
}

/// True if no launcher has started this process, and nothing says where others are.
bool is_alone(const InitOptions& options, const rendezvous::Environment& environment) {
  if (options.exchange || options.store || options.init_method.value_or("env://") != "env://" ||
      options.master_addr || options.master_port)
    return false;
  for (const char* const name : {"MASTER_ADDR", "MASTER_PORT", "TUTTI_STORE_PORT", "PMIX_RANK"}) {
    if (environment.text(name)) return false;
  }
  rendezvous::Place place;
  place.rank = options.rank;
  place.size = options.size;
  return rendezvous::complete(place, environment).ok() && !place.rank && !place.size;
}

/// A rendezvous without a store: the ranks exchange their addresses through the caller's exchange.
Result<rendezvous::Rendezvous> from_exchange(const InitOptions& options, const Config& config) {
  if (options.store || options.init_method) return without("neither store nor init_method");
  if (!options.job_name.empty()) return without("no job name: the exchange determines the ranks");
  if (!options.rank || !options.size) return without("rank and size must be given");
  if (*options.size < 1 || *options.rank < 0 || *options.rank >= *options.size) {
    return without(base::format("rank {} is none of {}", *options.rank, *options.size));
  }
  rendezvous::Rendezvous result;
  const bool compares = !options.exchange_is_private && !options.secret;
  if (options.secret || (config.tls && !compares)) {  // others may read the exchange
    Result<store::JobSecret> secret = store::job_secret({}, options.secret);
    if (!secret) return secret.status();
    result.identity.secret = std::move(secret->bytes);
  }
  result.identity.rank = *options.rank;
  result.identity.size = *options.size;
  result.master_addr = options.master_addr.value_or("");
  if (config.port || !config.advertise.empty()) {  // otherwise the address is not needed
    auto local = rendezvous::Environment({}).number("LOCAL_RANK");
    if (!local) return local.status();
    result.local_rank = local->value_or(0);
  }
  result.identity.generation = 1;
  // Rank 0 draws the random values that identify this world and prove membership.
  std::string drawn;
  if (result.identity.rank == 0) {
    std::random_device random;
    for (int word = 0; word < 8; ++word) drawn += std::to_string(random()) + " ";
  }
  std::optional<group::SecretOffer> offer;
  if (compares) {
    offer = group::SecretOffer({});
    drawn = offer->line() + '\n' + drawn;
  }
  Result<std::vector<std::string>> texts = options.exchange("world", drawn);
  if (!texts) return texts.status();
  if (texts->size() != base::as_size(result.identity.size) || texts->front().empty()) {
    return without("it did not give the texts of all ranks");
  }
  if (offer) {
    std::vector<std::string> lines;
    for (std::string& text : *texts) {
      const std::size_t end = text.find('\n');
      if (end == std::string::npos)
        return without("it gave a text that no rank of this version has sent");
      lines.push_back(text.substr(0, end));
      text.erase(0, end + 1);
    }
    auto common = offer->common(lines);
    if (!common) return common.status();
    result.identity.secret = std::move(*common);
    if (result.identity.secret.empty() && !config.tls && result.identity.rank == 0) {
      base::log(base::Level::warning,
                "the ranks have no secret (TUTTI_INSECURE), so rank 0 hands out one where they "
                "meet: any process that can read it there can join, read and change data");
    }
  }
  if (config.tls && result.identity.secret.empty())
    return without(
        "TUTTI_TLS needs a secret, and TUTTI_INSECURE says that there is none; unset one of them");
  result.authenticated = !result.identity.secret.empty() || options.exchange_is_private;
  result.identity.job = base::fnv_of(texts->front());
  if (result.identity.secret.empty())
    result.identity.secret = SecretBytes(std::as_bytes(std::span(texts->front())));
  return result;
}

bool is_no_thread(const std::system_error& problem) {
  return problem.code() == std::errc::resource_unavailable_try_again;
}

Outcome no_thread() {
  return Outcome(Errc::resource, base::format("init_process_group: no thread can be started: {}",
                                              os::kNoThreadHint));
}

ProcessGroup join_world(const InitOptions& given) {
  Config config;
  if (given.config) {
    config = *given.config;
  } else {
    Result<Config> read = Config::from_environment();
    if (!read) raise(read.status());
    config = *read;
  }
  // Without a level in the config, that of set_log_sink stays.
  const rendezvous::Environment environment({});
  if (given.config || !environment.text("TUTTI_LOG_LEVEL").value_or("").empty())
    base::set_log_level(config.log_level);
  rendezvous::warn_of_misspelt_variables();
  if (given.timeout) config.timeout = *given.timeout;
  if (given.backend) config.backend = *given.backend;
  if (config.timeout <= std::chrono::nanoseconds(0)) {
    raise(Outcome(Errc::invalid_argument, "init_process_group: the timeout must be positive"));
  }
  raise_if(group::check_backend(config));
  if (given.secret)  // before anything that depends on the other ranks' hosts
    raise_if(store::given_secret({}, given.secret).status());

  const auto deadline = base::deadline_after(std::chrono::steady_clock::now(), config.timeout);
  InitOptions options = with_own_rendezvous(given, config, deadline);
  if (options.or_alone && is_alone(options, environment)) {
    options.rank = 0;
    options.size = 1;
    options.init_method.reset();
    options.store = make_hash_store();
  }
  rendezvous::Settings settings;
  settings.init_method = options.init_method;
  settings.store = options.store;
  settings.job_name = options.job_name;
  settings.rank = options.rank;
  settings.size = options.size;
  settings.master_addr = options.master_addr;
  settings.master_port = options.master_port;
  settings.secret = options.secret;
  settings.tls = config.tls;
  settings.link_timeout = config.link_timeout;
  settings.interfaces = config.interfaces;
  settings.advertise = config.advertise;
  settings.port = config.port;
  settings.timeout = std::chrono::ceil<std::chrono::milliseconds>(config.timeout);
  record::StartWatch watch(config.stall_warning, config.flight_recorder);
  settings.watch = &watch;
  Result<rendezvous::Rendezvous> found =
      options.exchange ? from_exchange(options, config) : rendezvous::find_others(settings);
  if (!found) raise(found.status());
  const rendezvous::Rendezvous& place = *found;
  // From here on the others are told at once if this rank is killed or fails.
  const auto report = [&](const Outcome& why) {
    if (place.store)
      rendezvous::report_failure(*place.store, rendezvous::kWorldExchange, place.identity.rank,
                                 place.identity.size, why);
  };
  if (place.store) {
    raise_if(rendezvous::set_exchange_will(*place.store, rendezvous::kWorldExchange,
                                           place.identity.rank, place.identity.size));
  }

  const rendezvous::Gather gather = [&](const std::string& name, const std::string& mine) {
    if (options.exchange) return options.exchange(name, mine);
    Result<std::vector<std::string>> texts = rendezvous::exchange(
        *place.store, name, place.identity.rank, place.identity.size, mine, deadline, &watch);
    watch.end();  // all ranks have arrived
    return texts;
  };
  Result<rendezvous::OwnAddress> ours = rendezvous::our_address(place, settings, gather);
  if (!ours) {
    report(ours.status());
    raise(ours.status());
  }
  WorldOptions world_options;
  world_options.name = options.name;
  world_options.config = config;
  world_options.deadline = deadline;
  world_options.identity = place.identity;
  world_options.authenticated = place.authenticated;
  world_options.bind_host = ours->listens.host();
  world_options.advertised_host = ours->told.host();
  world_options.bind_port = ours->listens.port();
  world_options.advertised_port = ours->told.port();
  if (!ours->store_host.is_unspecified()) world_options.store_host = ours->store_host.host();
  world_options.store = place.store;
  world_options.backend_options = options.backend_options;
  const auto record = std::make_shared<rendezvous::LivenessRecord>(place);
  transport::FirstLost first_lost;
  if (record->publish()) {
    first_lost = [place, record](int unreachable) {
      if (record->all_registered()) return rendezvous::ask_first_lost(place, unreachable);
      return transport::Question(
          [] { return Outcome(Errc::store, "not all ranks have a liveness record in the store"); });
    };
  }
  // A store of the caller may outlive this world, so this rank does not leave it.
  world_options.left = [record, leave = place.given ? nullptr : place.leave] {
    record->withdraw();
    if (leave) leave();
  };
  try {
    Result<ProcessGroup> world =
        group::make_world(std::move(world_options), gather, std::move(first_lost));
    if (!world) raise(world.status());
    record->look_for_all();
    return std::move(*world);
  } catch (const Error& problem) {
    report(problem.status());
    throw;
  } catch (const std::system_error& problem) {
    report(is_no_thread(problem) ? no_thread() : Outcome(Errc::internal, problem.what()));
    throw;
  } catch (const std::exception& problem) {  // a registered backend may throw anything
    report(Outcome(Errc::internal, problem.what()));
    throw;
  }
}

}  // namespace

ProcessGroup init_process_group(const InitOptions& options) {
  try {
    return join_world(options);
  } catch (const std::system_error& problem) {
    if (is_no_thread(problem)) raise(no_thread());
    throw;
  }
}

std::vector<std::byte> job_secret() {
  Result<store::JobSecret> secret = store::job_secret({});
  if (!secret) raise(secret.status());
  return {secret->bytes.begin(), secret->bytes.end()};
}

}  // namespace v0
}  // namespace tutti
