#include "backend/native/context.hpp"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "backend/native/dial_addresses.hpp"
#include "backend/native/host_cpus.hpp"
#include "backend/native/job_text.hpp"
#include "backend/native/progress_thread.hpp"
#include "backend/native/worker_address.hpp"
#include "base/agreed_settings.hpp"
#include "base/bounded_lock.hpp"
#include "base/log.hpp"
#include "os/descriptors.hpp"
#include "os/route.hpp"
#include "os/running_clock.hpp"
#include "plan/select.hpp"
#include "plan/selection_text.hpp"
#include "transport/shm/ring_transport.hpp"

namespace tutti::native {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::nanoseconds;

/// The contexts of this process, so that they leave gracefully when the process ends.
struct Living {
  std::mutex mutex;
  std::set<Context*> contexts;
};
Living& living() {
  static base::PerProcess<Living> ours;
  return ours.get();
}

// Connections beyond one for each peer: peers that dial us at the same time as we dial them.
constexpr std::size_t kPendingConnections = 16;
// Of a rank's memory, listeners and events.
constexpr std::size_t kOwnDescriptors = 16;

constexpr auto kLeaveTime = std::chrono::seconds(1);
// The part of kLeaveTime that is kept for telling the peers if queued frames cannot be sent.
constexpr auto kTellTime = std::chrono::milliseconds(200);

void leave_all() {
  const auto deadline = Clock::now() + kLeaveTime;
  // The lock is held to the end: another thread may be about to destroy a context. A signal handler
  // that calls exit() may have interrupted the thread that holds it; hence the deadline.
  const auto lock = base::lock_until(living().mutex, deadline);
  if (!lock.owns_lock()) return;
  for (Context* const context : living().contexts) context->leave(deadline);
}

void register_process_hooks() {
  static std::once_flag once;
  std::call_once(once, [] { std::atexit(leave_all); });
}

std::string describe_waiting(int rank, int ranks, int cpus) {
  const auto many = [](int count, const char* what) {
    return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
  };
  return "rank " + std::to_string(rank) + ": waits " + (ranks > cpus ? "yield" : "spin") + ", " +
         many(ranks, "rank") + " of this host have " + many(cpus, "CPU");
}

/// The job id with the nonces of all ranks mixed in. It differs between two starts of a job, even
/// with equal name, secret and generation: a rank of an earlier start may still run, and dial a
/// port that is used again.
std::uint64_t job_of_start(std::uint64_t job,
                           const std::vector<transport::shm::HostAddress>& worker_addresses) {
  std::string nonces;
  for (const transport::shm::HostAddress& worker_address : worker_addresses)
    nonces += std::to_string(worker_address.nonce) + ",";
  return call::hash_text(nonces, job);
}

/// Where ranks of a host do not see the same folder (containers), they meet by an abstract name.
/// All ranks of the world call this, and have listened after it.
Outcome listen_by_name_if_needed(
    transport::shm::Host& host, const std::vector<int>& host_of,
    const std::vector<transport::shm::HostAddress>& worker_addresses,
    const std::function<Result<std::vector<std::string>>(const std::string&)>& exchange, int rank) {
  std::map<int, std::vector<int>> hosts;
  for (std::size_t r = 0; r < host_of.size(); ++r) hosts[host_of[r]].push_back(static_cast<int>(r));
  const auto apart = [&](const std::vector<int>& ranks) {
    return ranks.size() > 1 && !transport::shm::share_a_folder(ranks, worker_addresses);
  };
  if (std::ranges::none_of(hosts, [&](const auto& one) { return apart(one.second); })) return {};
  Outcome listening;
  if (apart(hosts[host_of[static_cast<std::size_t>(rank)]])) listening = host.listen_by_name();
  Result<std::vector<std::string>> texts = exchange(std::string(listening.message()));
  if (!listening.ok()) return listening;
  if (!texts) return texts.status();
  for (std::size_t r = 0; r < texts->size(); ++r) {
    if (const std::string& text = (*texts)[r]; !text.empty())
      return Outcome(Errc::peer_left, "rank " + std::to_string(r) + " has given up: " + text)
          .with_culprit(static_cast<int>(r));
  }
  return {};
}

/// The name of our interface with this address; empty: none has it, or we listen on all.
std::string interface_at(const os::Address& address) {
  auto all = os::interfaces();
  if (!all) return {};
  for (const os::Interface& one : *all) {
    if (one.address.host() == address.host()) return one.name;
  }
  return {};
}

/// Logs one line for the job, and for each rank how it reaches the others. `tcp`: the address that
/// others connect to.
void log_job(const engine::World& world, std::vector<std::string> hosts, int ranks_here,
             const std::string& tcp, const Config& config) {
  if (base::is_logged(base::Level::debug)) base::log(base::Level::debug, peers_text(world));
  if (world.rank != 0 || !base::is_logged(base::Level::info)) return;
  JobFacts facts;
  facts.hosts = std::move(hosts);
  facts.ranks_here = ranks_here;
  facts.address = tcp;
  if (auto address = os::Address::parse_endpoint(tcp); address)
    facts.interface = interface_at(*address);
  facts.encrypted = config.tls;
  facts.cpus = world.cpus;
  facts.selection =
      plan::selection_text(plan::make_topology(world.host_of), world.cpus, config.algorithms);
  base::log(base::Level::info, job_text(facts));
}

os::RunningClock running_clock;

engine::TimePoint running_now() noexcept { return running_clock.at(Clock::now()); }

}  // namespace

Result<std::shared_ptr<Context>> Context::create(const WorldOptions& options,
                                                 transport::FirstLost first_lost) {
  register_process_hooks();
  std::shared_ptr<Context> context(new Context);
  if (Outcome s = context->build(options, std::move(first_lost)); !s.ok()) return s;
  const std::lock_guard lock(living().mutex);
  living().contexts.insert(context.get());
  return context;
}

Outcome Context::build(const WorldOptions& options, transport::FirstLost first_lost) {
  rank_ = options.identity.rank;
  size_ = options.identity.size;
  config_ = options.config;
  if (Outcome s = plan::check_override(config_.algorithms); !s.ok()) return s;

  // Asked for before they are taken: a rank that serves the store without a descriptor left could
  // not tell the others.
  const bool may_serve = options.store != nullptr && rank_ == 0;
  if (Outcome s = os::ensure_descriptors(
          kOwnDescriptors + (may_serve ? static_cast<std::size_t>(size_ - 1) : 0),
          "a world of " + std::to_string(size_) + (size_ == 1 ? " rank" : " ranks"));
      !s.ok())
    return s;
  Result<std::unique_ptr<transport::shm::Host>> host = transport::shm::Host::prepare(
      rank_, config_.host_id, size_ == 1 || config_.transport == Config::TransportChoice::tcp,
      options.identity.secret);
  if (!host) return host.status();
  host_ = std::move(*host);

  WorkerAddress mine;
  mine.host = host_->worker_address();
  mine.host.given_cpus = config_.cpus;
  mine.settings = base::agreed_settings_of(config_);
  std::unique_ptr<transport::TcpTransport> tcp;
  if (size_ > 1) {
    Result<os::Address> bind = os::Address::parse(options.bind_host, options.bind_port);
    if (!bind) return bind.status();
    const std::string& advertised_host =
        options.advertised_host.empty() ? options.bind_host : options.advertised_host;
    Result<os::Address> told = os::Address::parse(advertised_host, options.advertised_port);
    if (!told) return told.status();
    transport::TcpOptions tcp_options;
    tcp_options.identity = options.identity;
    tcp_options.encrypt = config_.tls;
    tcp_options.link_timeout = config_.link_timeout;
    tcp_options.handshake_timeout = config_.link_timeout;
    tcp_options.bind = *bind;
    tcp_options.told = *told;
    tcp_options.first_lost = std::move(first_lost);
    Result<std::unique_ptr<transport::TcpTransport>> listening =
        transport::TcpTransport::listen(std::move(tcp_options));
    if (!listening) {
      const Outcome& why = listening.status();
      if (options.bind_port == 0) return why;
      return Outcome(why.code(),
                     std::string(why.message()) +
                         "; TUTTI_PORT, or the port in TUTTI_ADVERTISE, with LOCAL_RANK "
                         "added must be free and another one for each rank of a host");
    }
    tcp = std::move(*listening);
    mine.address = tcp->address();
    mine.store_host = options.store_host;
  }

  const std::string text = encode(mine);
  if (Result<WorkerAddress> readable = decode(text); !readable) {
    return Outcome(Errc::invalid_argument, "the other ranks could not read where this one is (" +
                                               std::string(readable.status().message()) +
                                               "); is TUTTI_HOST_ID that long?");
  }
  Result<std::vector<std::string>> texts = options.exchange(text);
  if (!texts) return texts.status();
  std::vector<WorkerAddress> told;
  std::vector<transport::shm::HostAddress> worker_addresses;
  engine::World world;
  std::map<std::string, int> hosts;
  bool fences = true;
  bool all_seen = true;  // all ranks of this machine are in our pid namespace
  std::vector<int> processes;
  for (int r = 0; r < size_; ++r) {
    Result<WorkerAddress> worker_address = decode((*texts)[static_cast<std::size_t>(r)]);
    if (!worker_address) {
      return Outcome(worker_address.status().code(),
                     "rank " + std::to_string(r) +
                         " cannot be reached: " + std::string(worker_address.status().message()) +
                         "; does it run another version of tutti, or does somebody else write to "
                         "the store?");
    }
    if (worker_address->settings != mine.settings) {
      return Outcome(
          Errc::disagreement,
          "settings differ: " +
              base::settings_that_differ(mine.settings, rank_, worker_address->settings, r) +
              "; give all ranks the same");
    }
    const bool share = config_.transport != Config::TransportChoice::tcp;
    const std::string key = share ? worker_address->host.host_key : "rank " + std::to_string(r);
    world.host_of.push_back(hosts.try_emplace(key, static_cast<int>(hosts.size())).first->second);
    // The pid from another pid namespace means another process here, or none.
    const bool seen = worker_address->host.pid_namespace != 0 &&
                      worker_address->host.boot == mine.host.boot &&
                      worker_address->host.pid_namespace == mine.host.pid_namespace;
    world.pids.push_back(seen ? worker_address->host.pid : 0);
    if (worker_address->host.boot == mine.host.boot) {
      all_seen = all_seen && seen;
      processes.push_back(worker_address->host.pid);
    }
    fences = fences && worker_address->host.fence;
    world.whereabouts.push_back(worker_address->host.host_name + ", pid " +
                                std::to_string(worker_address->host.pid));
    worker_addresses.push_back(worker_address->host);
    told.push_back(std::move(*worker_address));
  }
  if (config_.transport == Config::TransportChoice::shm && hosts.size() > 1) {
    return Outcome(Errc::unsupported, "TUTTI_TRANSPORT=shm, but the ranks are on " +
                                          std::to_string(hosts.size()) + " hosts");
  }

  std::vector<int> local;
  for (int r = 0; r < size_; ++r) {
    if (world.host_of[static_cast<std::size_t>(r)] ==
        world.host_of[static_cast<std::size_t>(rank_)]) {
      local.push_back(r);
    }
  }
  if (Outcome s = listen_by_name_if_needed(*host_, world.host_of, worker_addresses,
                                           options.exchange, rank_);
      !s.ok())
    return s;
  if (local.size() > 1) {
    if (Outcome s = host_->join(local, worker_addresses, options.identity.secret, options.deadline);
        !s.ok())
      return s;
  } else {
    host_->stay_alone();
  }
  world.rank = rank_;
  world.size = size_;
  world.cpus = least_cpus(worker_addresses);  // equal on all ranks, as select() depends on it
  world.settings = call::hash_text(mine.settings);
  world.regions = &host_->regions();
  world.local_of.assign(static_cast<std::size_t>(size_), -1);
  for (std::size_t i = 0; i < local.size(); ++i) {
    world.local_of[static_cast<std::size_t>(local[i])] = static_cast<int>(i);
  }
  world.transports.assign(static_cast<std::size_t>(size_), nullptr);
  const bool remote = local.size() < static_cast<std::size_t>(size_);
  if (remote) {
    tcp->set_job(job_of_start(options.identity.job, worker_addresses));
    Result<std::vector<std::string>> addresses = dial_addresses(told, rank_);
    if (!addresses) return addresses.status();
    if (Outcome s = tcp->set_addresses(std::move(*addresses)); !s.ok()) return s;
    // Connections are made at first use, which may be long after init.
    const std::size_t peers = static_cast<std::size_t>(size_) - local.size();
    if (Outcome s = os::ensure_descriptors(
            peers + kPendingConnections,
            "a connection to each of the " + std::to_string(peers) + " ranks of other hosts");
        !s.ok())
      return s;
    for (int r = 0; r < size_; ++r) {
      if (r != rank_) world.transports[static_cast<std::size_t>(r)] = tcp.get();
    }
    tcp_ = std::move(tcp);
  }
  const auto populate = [host = host_.get()](std::byte* data, std::size_t size) {
    return host->populate(data, size);
  };
  if (local.size() > 1) {
    Result<std::unique_ptr<transport::shm::RingTransport>> ring =
        transport::shm::RingTransport::make(
            {&host_->regions(), size_, populate, /*publish_fence=*/!fences});
    if (!ring) return ring.status();
    for (const int r : local) {
      if (r != rank_) world.transports[static_cast<std::size_t>(r)] = ring->get();
    }
    ring_ = std::move(*ring);
  }
  world.process_state = transport::shm::process_state;
  world.now = running_now;
  world.stall_warning = config_.stall_warning;
  if (config_.flight_recorder) {
    auto recorder = record::FlightRecorder::make(rank_, size_, mine.host.host_name);
    if (recorder)
      recorder_ = std::move(*recorder);
    else
      base::log(base::Level::info,
                "no flight recorder: " + std::string(recorder.status().message()));
    world.recorder = recorder_.get();
  } else {
    record::FlightRecorder::announce();
  }
  world.populate = populate;
  world.publish_fence = !fences;
  world.algorithms = config_.algorithms;
  std::vector<std::string> names;
  for (const transport::shm::HostAddress& one : worker_addresses) names.push_back(one.host_name);
  log_job(world, std::move(names), static_cast<int>(local.size()), remote ? mine.address : "",
          config_);
  engine_ = std::make_unique<engine::Engine>(std::move(world));
  // All ranks of this machine share our CPUs, also those in another network namespace.
  std::vector<const transport::shm::HostAddress*> sharing;
  for (const transport::shm::HostAddress& worker_address : worker_addresses) {
    if (worker_address.boot == mine.host.boot) sharing.push_back(&worker_address);
  }
  const int cpus = cpus_of_host(sharing);
  const auto ranks = static_cast<int>(sharing.size());
  base::log(base::Level::debug, describe_waiting(rank_, ranks, cpus));
  if (!all_seen) processes.clear();
  driver_ = std::make_unique<Driver>(
      *engine_, *host_, Driver::Options{cpus, ranks, fences, remote, std::move(processes)});
  kept_ = options.store;
  // Set last: a rank that fails to join a world has not left gracefully.
  tell_left_ = options.left;
  return Outcome();
}

int Context::alive() noexcept {
  const std::lock_guard lock(living().mutex);
  return static_cast<int>(living().contexts.size());
}

void Context::leave(engine::TimePoint deadline) noexcept {
  if (left_.exchange(true) || engine_ == nullptr) return;
  if (tcp_ || ring_) {
    const auto drained_by = deadline - kTellTime;
    bool unsent = true;
    bool driving = true;  // false: we did not get the driver lock in time
    while (driving && unsent && Clock::now() < drained_by) {
      driving = driver_->with_until(drained_by, [&] {
        engine_->progress();
        unsent = engine_->has_unsent();
      });
    }
    if (driving) {
      driving = driver_->with_until(deadline, [&] {
        if (ring_) ring_->close(0);
        const nanoseconds left = std::max<nanoseconds>(deadline - Clock::now(), kTellTime);
        if (tcp_) tcp_->close(static_cast<std::uint64_t>(left.count()));
      });
    }
    if (!driving) return;  // the engine may be in any state: let the others see a death
  }
  host_->leave();
  if (tell_left_) tell_left_();
}

Context::~Context() {
  {
    const std::lock_guard lock(living().mutex);
    living().contexts.erase(this);
  }
  if (!forked()) leave(Clock::now() + kLeaveTime);
  // The driver goes first: the progress thread must not use an engine that is being destroyed.
  driver_.reset();
  if (engine_ == nullptr || forked()) return;
  // Makes the callbacks of operations that ended with the last group: each must be made once.
  for (const engine::Finished& one : engine_->take_finished()) {
    one.callback.function(one.callback.context, one.status);
  }
}

}  // namespace tutti::native
