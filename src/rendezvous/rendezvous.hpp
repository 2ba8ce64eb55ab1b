#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tutti/backend/job_identity.hpp>
#include <tutti/error.hpp>
#include <tutti/store.hpp>

#include "os/address.hpp"

namespace tutti::record {
class StartWatch;
}
namespace tutti::store {
class TcpClient;
}

namespace tutti::rendezvous {

using Clock = std::chrono::steady_clock;
using Deadline = Clock::time_point;

/// How a process found the others.
struct Rendezvous {
  /// For this group of processes alone: an earlier group on the same server has its own part.
  std::shared_ptr<Store> store;
  /// Its generation counts the groups this rank has made on this store (under this name), from 1.
  JobIdentity identity;
  int local_rank = 0;
  /// Empty where no host is named: with a file or a given store.
  std::string master_addr;
  std::uint16_t master_port = 0;
  /// Only the processes of the job know the secret. False for one that was drawn in a store from
  /// which no secret follows (Store::derive_secret).
  bool authenticated = false;
  /// The store ends with rank 0.
  bool rank_0_serves = false;
  /// Where the store is on a server: what `ask_first_lost` asks, and what stands before our keys
  /// there.
  std::shared_ptr<store::TcpClient> client = {};
  std::string part = {};
  /// It belongs to the caller, which may keep it longer than this world.
  bool given = false;
  /// Leaves such a store, for a process that ends without destroying it (store.hpp).
  /// While `store` lives.
  std::function<void()> leave = {};
};

/// Values that are given here precede those of the environment.
struct Settings {
  /// The place of the rendezvous, as `parse_url` takes it; absent: env://.
  std::optional<std::string> init_method;
  /// The store of the rendezvous; then there is no init_method.
  std::shared_ptr<Store> store;
  /// Only ranks that give the same name find each other; empty is a name, too. Each process counts
  /// its groups under a name, so ranks that have changed or are new need a new name.
  std::string job_name = {};
  std::optional<int> rank;
  std::optional<int> size;
  std::optional<int> local_rank;
  std::optional<std::string> master_addr;
  std::optional<int> master_port;
  std::optional<SecretBytes> secret = {};
  /// Encrypt the connection to the store; then there must be a secret.
  bool tls = false;
  /// Config::link_timeout, for the store.
  std::chrono::milliseconds link_timeout = std::chrono::seconds(15);
  /// Config::interfaces: goes before the variables that name one.
  std::string interfaces = {};
  /// Config::advertise and Config::port.
  std::string advertise = {};
  std::optional<int> port = {};
  /// Null: the process's own environment, read now.
  std::function<const char*(const char* name)> environment;
  /// For all of it, and the default of the store.
  std::chrono::milliseconds timeout = Store::kDefaultTimeout;
  /// Told of long waits; may be null.
  record::StartWatch* watch = nullptr;
};

/// Finds the others where the settings say. Reaches the store before it returns, but does not wait
/// for the other ranks: `exchange` does.
/// Errors: invalid_argument for what is missing or senseless, timeout, refused, store.
Result<Rendezvous> find_others(const Settings& settings);

/// Gives each rank everybody's text under that name, in the order of ranks.
using Gather = std::function<Result<std::vector<std::string>>(const std::string& name,
                                                              const std::string& mine)>;

/// Where a rank listens, and what it tells the others.
struct OwnAddress {
  os::Address listens;  ///< unspecified: on all addresses; port 0: any
  /// Port 0: that of the listener. Unspecified: it is on the host of the store, so it is dialled
  /// there by loopback, and elsewhere at the address by which the other has reached the store.
  os::Address told;
  /// The address by which this rank has reached the store; unspecified: there is none.
  os::Address store_host;
};

/// The address of a rank that has reached the store, known as `master`, over a connection with
/// these ends. Pure.
[[nodiscard]] OwnAddress address_by_connection(const std::string& master, os::Address ours,
                                               os::Address stores);

/// Where this rank listens, so that all others reach it (decided by, in this order,
/// Settings::advertise; TUTTI_SOCKET_IFNAME, GLOO_SOCKET_IFNAME, NCCL_SOCKET_IFNAME; its connection
/// to the store, or the way to the master; on one host the loopback). Where there is no master,
/// asks the other ranks by `gather` where they are, so all must call it. Errors: invalid_argument
/// (no such interface, no such port), refused (no way), those of `gather`.
Result<OwnAddress> our_address(const Rendezvous& rendezvous, const Settings& settings,
                               const Gather& gather);

/// The rendezvous of torch.distributed's `env://`.
///
/// Reads RANK, WORLD_SIZE, LOCAL_RANK (or what Open MPI, PMI or Slurm set instead), MASTER_ADDR,
/// MASTER_PORT (TUTTI_STORE_PORT goes before it), TUTTI_AGENT_STORE ("1": the launcher serves the
/// store; else rank 0 does), TUTTI_JOB and what store::job_secret reads.
/// Reaches the store before it returns, but does not wait for the other ranks: `exchange` does.
/// Errors: invalid_argument for what is missing or senseless, timeout, refused, store.
Result<Rendezvous> from_env(const Settings& settings);

/// Gathers one blob per rank; every rank gets all of them, in order. One `name` serves once per
/// store. All ranks give the same `size`.
/// Where the store takes wills, a rank that is killed meanwhile is told to all at once.
/// `watch`: told of long waits, which one of the ranks logs; may be null.
/// Errors, each naming the ranks concerned, on every rank that waits: timeout (ranks have not
/// come), disagreement (a rank given twice, unequal sizes), peer_lost (a process ended), store.
Result<std::vector<std::string>> exchange(Store& store, std::string_view name, int rank, int size,
                                          const std::string& mine, Deadline deadline,
                                          record::StartWatch* watch = nullptr);

/// The name of the exchange that makes a world; `find_others` sets its will.
inline constexpr std::string_view kWorldExchange = "worker_addresses";

/// The will of a rank that may be lost before that exchange: the key, beside the other keys of the
/// exchange, and the value. `where` names the store.
std::pair<std::string, std::string> will_before(std::string_view name, int rank, int size,
                                                const std::string& where);
/// The beginning of the value of that key where a store sets it because it has refused a process.
std::string begin_of_refusal();
/// Sets that will: if this process ends before `exchange`, the other ranks get the error. Does
/// nothing if the store takes no wills.
Outcome set_exchange_will(Store& store, std::string_view name, int rank, int size);
/// This rank's wills for `ask_first_lost`: the store executes them if the process ends without
/// leaving the store.
class LivenessRecord {
 public:
  explicit LivenessRecord(Rendezvous rendezvous) : rendezvous_(std::move(rendezvous)) {}
  /// As `withdraw`.
  ~LivenessRecord() { withdraw(); }
  LivenessRecord(const LivenessRecord&) = delete;
  LivenessRecord& operator=(const LivenessRecord&) = delete;

  /// False if the store takes no wills.
  bool publish();
  /// Looks once whether every rank has registered its record. Otherwise a missing record proves
  /// nothing. May wait for the store.
  void look_for_all();
  [[nodiscard]] bool all_registered() const noexcept { return all_registered_; }
  /// This rank leaves gracefully: tells the store, and drops its wills where it stays with the
  /// store. Does not throw, and waits only briefly.
  void withdraw() noexcept;

 private:
  Rendezvous rendezvous_;
  std::atomic<bool> all_registered_{false};
  std::atomic<bool> published_{false};
  std::atomic<int> process_{0};
};

/// Begins to ask the store which rank of this world was lost first, and whether `unreachable` was
/// lost, too. Call it only if all ranks are registered. The function that is returned polls for the
/// answer: nothing: not yet; peer_lost with its culprit; peer_left with that culprit: `unreachable`
/// has left; ok: no rank was lost, and it has left; refused: it runs; else it is unknown. Neither
/// waits; the answer takes a second at most.
std::function<std::optional<Outcome>()> ask_first_lost(const Rendezvous& rendezvous,
                                                       int unreachable);
/// Tells the other ranks of that exchange, unless it is over, why this rank will not take part:
/// with its code, or peer_left for invalid_argument. Fails silently.
void report_failure(Store& store, std::string_view name, int rank, int size, const Outcome& why);

}  // namespace tutti::rendezvous
