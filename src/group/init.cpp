#include <tutti/init.hpp>

#include <functional>
#include <numeric>
#include <random>
#include <utility>

#include "backend/native/native_backend.hpp"
#include "base/log.hpp"
#include "engine/call_code.hpp"
#include "rendezvous/environment.hpp"
#include "rendezvous/rendezvous.hpp"

namespace tutti {
namespace {

Status without(const std::string& what) {
  return Status(Errc::invalid_argument, "init_process_group with an exchange: " + what);
}

/// A meeting without a store: what ranks must know of each other goes through the caller's
/// exchange.
Result<rendezvous::Rendezvous> from_exchange(const InitOptions& options, bool tls) {
  if (options.store || options.init_method) return without("neither store nor init_method");
  if (!options.rank || !options.size) return without("rank and size must be given");
  if (*options.size < 1 || *options.rank < 0 || *options.rank >= *options.size) {
    return without("rank " + std::to_string(*options.rank) + " is none of " +
                   std::to_string(*options.size));
  }
  rendezvous::Rendezvous meeting;
  if (tls) {  // what the exchange carries may be read on the way
    Result<std::vector<std::byte>> secret = rendezvous::read_secret(rendezvous::Environment({}));
    if (!secret) return secret.status();
    if (secret->empty()) {
      return without(
          "TUTTI_TLS needs a secret that does not go through it: start with tuttirun, or give all "
          "processes the same TUTTI_SECRET_FILE");
    }
    meeting.secret = std::move(*secret);
  }
  meeting.rank = *options.rank;
  meeting.size = *options.size;
  meeting.master_addr = options.master_addr.value_or("127.0.0.1");
  meeting.generation = 1;
  // Rank 0 draws what tells this world from others, and proves membership.
  std::string drawn;
  if (meeting.rank == 0) {
    std::random_device random;
    for (int word = 0; word < 8; ++word) drawn += std::to_string(random()) + " ";
  }
  Result<std::vector<std::string>> texts = options.exchange("world", drawn);
  if (!texts) return texts.status();
  if (texts->size() != static_cast<std::size_t>(meeting.size) || texts->front().empty()) {
    return without("it did not give the texts of all ranks");
  }
  meeting.job = texts->front();
  if (!tls) {
    for (const char letter : meeting.job) meeting.secret.push_back(static_cast<std::byte>(letter));
  }
  return meeting;
}

}  // namespace

ProcessGroup init_process_group(const InitOptions& options) {
  Config config;
  if (options.config) {
    config = *options.config;
  } else {
    Result<Config> read = Config::from_environment();
    if (!read) raise(read.status());
    config = *read;
  }
  base::set_log_level(config.log_level);
  if (options.timeout) config.timeout = *options.timeout;
  if (config.timeout <= std::chrono::nanoseconds(0)) {
    raise(Status(Errc::invalid_argument, "init_process_group: the timeout must be positive"));
  }

  const auto deadline = std::chrono::steady_clock::now() + config.timeout;
  rendezvous::Settings settings;
  settings.init_method = options.init_method;
  settings.store = options.store;
  settings.rank = options.rank;
  settings.size = options.size;
  settings.master_addr = options.master_addr;
  settings.master_port = options.master_port;
  settings.tls = config.tls;
  settings.timeout = std::chrono::ceil<std::chrono::milliseconds>(config.timeout);
  Result<rendezvous::Rendezvous> found =
      options.exchange ? from_exchange(options, config.tls) : rendezvous::find_others(settings);
  if (!found) raise(found.status());
  const rendezvous::Rendezvous& meeting = *found;
  // From here on the others hear of it at once if we are killed, or cannot go on.
  const auto give_up = [&](const Status& why) {
    if (meeting.store)
      rendezvous::excuse(*meeting.store, rendezvous::kWorldExchange, meeting.rank, meeting.size,
                         why);
    raise(why);
  };
  if (meeting.store) {
    raise_if(rendezvous::promise(*meeting.store, rendezvous::kWorldExchange, meeting.rank,
                                 meeting.size));
  }

  Result<std::string> ours = rendezvous::our_address(meeting, settings, deadline);
  if (!ours) give_up(ours.status());
  native::ContextOptions context_options;
  context_options.rank = meeting.rank;
  context_options.size = meeting.size;
  context_options.job = engine::hash_text(meeting.job);
  context_options.generation = meeting.generation;
  context_options.secret = meeting.secret;
  context_options.bind_host = *ours;
  context_options.config = config;
  context_options.deadline = deadline;
  context_options.exchange = [&](const std::string& name, const std::string& mine) {
    if (options.exchange) return options.exchange(name, mine);
    return rendezvous::exchange(*meeting.store, name, meeting.rank, meeting.size, mine, deadline);
  };
  // A given store is the caller's, who may keep it longer than this world: no mark is left there.
  if (meeting.store && !options.store && rendezvous::leave_mark(*meeting.store, meeting.rank)) {
    context_options.first_lost = [store = meeting.store, rank_0_serves = meeting.rank_0_serves] {
      return rendezvous::first_lost(*store, rank_0_serves);
    };
  }
  Result<std::shared_ptr<native::Context>> context = native::Context::create(context_options);
  if (!context) give_up(context.status());
  (*context)->keep(meeting.store);
  Result<native::NativeBackend*> backend =
      native::NativeBackend::make_world(*context, options.name);
  if (!backend) raise(backend.status());
  std::vector<int> globals(static_cast<std::size_t>(meeting.size));
  std::iota(globals.begin(), globals.end(), 0);
  return ProcessGroup(*backend, options.name, std::move(globals), config.timeout);
}

bool is_available(std::string_view backend) noexcept { return backend == native::kName; }

bool is_initialized() noexcept { return native::Context::alive() > 0; }

}  // namespace tutti
