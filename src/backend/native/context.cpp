#include "backend/native/context.hpp"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "backend/native/dial_addresses.hpp"
#include "backend/native/job_text.hpp"
#include "backend/native/progress_thread.hpp"
#include "backend/native/worker_addresses.hpp"
#include "base/agreed_settings.hpp"
#include "base/bounded_lock.hpp"
#include "base/index.hpp"
#include "base/log.hpp"
#include "os/cpu.hpp"
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
using transport::shm::HostAddress;

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

std::string describe_waiting(int rank, const Driver::Options& driver) {
  const int ranks = driver.ranks_on_host;
  const auto many = [](int count, const char* what) {
    return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
  };
  return "rank " + std::to_string(rank) + ": waits " + (ranks > driver.cpus ? "yield" : "spin") +
         ", " + many(ranks, "rank") + " of this host have " + many(driver.cpus, "CPU");
}

/// The job id with the nonces of all ranks mixed in. It differs between two starts of a job, even
/// with equal name, secret and generation: a rank of an earlier start may still run, and dial a
/// port that is used again.
std::uint64_t job_of_start(std::uint64_t job, const std::vector<HostAddress>& places) {
  std::string nonces;
  for (const HostAddress& place : places) nonces += std::to_string(place.nonce) + ",";
  return call::hash_text(nonces, job);
}

/// Where ranks of a host do not see the same folder (containers), they meet by an abstract name.
/// All ranks of the world call this, and have listened after it.
Outcome listen_by_name_if_needed(transport::shm::Host& host, const WorkerAddresses& addresses,
                                 const WorldOptions& options) {
  std::map<int, std::vector<int>> hosts;
  for (int r = 0; r < options.identity.size; ++r)
    hosts[base::at(addresses.world.host_of, r)].push_back(r);
  const auto apart = [&](const std::vector<int>& ranks) {
    return ranks.size() > 1 && !transport::shm::share_a_folder(ranks, addresses.places);
  };
  if (std::ranges::none_of(hosts, [&](const auto& one) { return apart(one.second); })) return {};
  Outcome listening;
  if (apart(addresses.local)) listening = host.listen_by_name();
  Result<std::vector<std::string>> texts = options.exchange(std::string(listening.message()));
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
void log_job(const engine::World& world, const WorkerAddresses& addresses, const std::string& tcp,
             const Config& config) {
  if (base::is_logged(base::Level::debug)) base::log(base::Level::debug, peers_text(world));
  if (world.rank != 0 || !base::is_logged(base::Level::info)) return;
  JobFacts facts;
  for (const HostAddress& place : addresses.places) facts.hosts.push_back(place.host_name);
  facts.ranks_here = static_cast<int>(addresses.local.size());
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
  Result<WorkerAddresses> addresses =
      WorkerAddresses::read(*texts, mine, options.identity, config_.transport);
  if (!addresses) return addresses.status();
  if (Outcome s = listen_by_name_if_needed(*host_, *addresses, options); !s.ok()) return s;
  const std::vector<HostAddress>& places = addresses->places;
  const std::vector<int>& local = addresses->local;
  if (Outcome s = local.size() > 1
                      ? host_->join(local, places, options.identity.secret, options.deadline)
                      : host_->stay_alone();
      !s.ok())
    return s;
  engine::World world = std::move(addresses->world);
  world.regions = &host_->regions();
  world.transports.assign(static_cast<std::size_t>(size_), nullptr);
  const bool remote = addresses->driver.remote;
  if (remote) {
    tcp->set_job(job_of_start(options.identity.job, places));
    Result<std::vector<std::string>> dialled = dial_addresses(addresses->told, rank_);
    if (!dialled) return dialled.status();
    if (Outcome s = tcp->set_addresses(std::move(*dialled)); !s.ok()) return s;
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
  world.populate = [host = host_.get()](std::byte* data, std::size_t size) {
    return host->populate(data, size);
  };
  world.publish_fence = !addresses->driver.sleepers_fence;
  world.core_cache = os::core_cache_bytes();
  if (local.size() > 1) {
    Result<std::unique_ptr<transport::shm::RingTransport>> ring =
        transport::shm::RingTransport::make(
            {&host_->regions(), size_, world.populate, world.publish_fence, world.core_cache});
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
  world.algorithms = config_.algorithms;
  log_job(world, *addresses, remote ? mine.address : "", config_);
  engine_ = std::make_unique<engine::Engine>(std::move(world));
  base::log(base::Level::debug, describe_waiting(rank_, addresses->driver));
  driver_ = std::make_unique<Driver>(*engine_, *host_, std::move(addresses->driver));
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
