#include "transport/shm/host.hpp"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <mutex>
#include <new>
#include <string_view>
#include <utility>

#include "base/forks.hpp"
#include "base/format.hpp"
#include "os/background_closer.hpp"
#include "os/descriptors.hpp"
#include "os/futex.hpp"
#include "os/host.hpp"
#include "os/process_stat.hpp"
#include "os/socket.hpp"
#include "secure/hmac.hpp"
#include "transport/shm/doorbell.hpp"
#include "transport/shm/host_exchange.hpp"

namespace tutti::transport::shm {
namespace {

std::uint64_t random_number() {
  std::uint64_t value = 0;
  while (::getrandom(&value, sizeof(value), 0) != sizeof(value)) {
  }
  return value;
}

/// The end of a folder's name that only ranks of the job can know.
Result<std::string> end_of_folder(std::span<const std::byte> secret) {
  constexpr std::string_view kLabel = "tutti folder of ranks";
  auto digest = secure::hmac_sha256(secret, std::as_bytes(std::span(kLabel)));
  if (!digest) return digest.status();
  std::string text;
  for (const std::byte byte : std::span(*digest).first(8))
    text += base::format("{:02x}", std::to_integer<unsigned>(byte));
  return text;
}

/// Checks the limit of descriptors: a rank gets an eventfd of each one, and three of the host. The
/// leader also has a connection to each, and three descriptors of it.
Outcome enough_descriptors(std::size_t ranks, bool collects) {
  return os::ensure_descriptors(
      ranks + kDescriptors + (collects ? (ranks - 1) * (1 + kDescriptors) : 0),
      "sharing memory with the " + std::to_string(ranks - 1) + " other ranks of this host");
}

}  // namespace

std::string process_state(int pid) {
  const auto stat = os::process_stat(pid);
  switch (stat ? stat->state : '\0') {
    case 'T': return "stopped";
    case 't': return "held by a debugger";
    case 'Z': return "dead";
    case 'D': return "in an uninterruptible system call";
    default: return {};
  }
}

Result<std::unique_ptr<Host>> Host::prepare(int rank, const std::string& host_id, bool alone,
                                            std::span<const std::byte> secret) {
  std::unique_ptr<Host> host(new Host);
  host->rank_ = rank;
  host->own_.event = os::Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!host->own_.event.valid()) return Outcome(Errc::resource, "eventfd failed");
  if (!alone) {
    Result<os::DeathPipe> death_pipe = os::open_death_pipe();
    if (!death_pipe) return death_pipe.status();
    host->own_.death = std::move(*death_pipe);
  }

  HostAddress& worker_address = host->own_address_;
  if (Result<std::string> boot = os::boot_id(); boot) worker_address.boot = *boot;
  if (Result<std::uint64_t> network = os::network_namespace(); network)
    worker_address.network = *network;
  worker_address.host_name = os::host_name();
  // Ranks of unlike users do not take memory from each other.
  worker_address.host_key = worker_address.boot + "/" + std::to_string(worker_address.network) +
                            "/" + std::to_string(os::user_outside()) + "/" + host_id;
  worker_address.nonce = random_number();
  worker_address.pid = ::getpid();
  if (Result<std::uint64_t> pids = os::pid_namespace(); pids) worker_address.pid_namespace = *pids;
  worker_address.cpus = os::affinity_of(0);
  worker_address.quota = os::cpu_quota();
  worker_address.fence = os::register_global_fence();
  char name[64];
  std::snprintf(name, sizeof(name), "rank-%016llx%016llx",
                static_cast<unsigned long long>(random_number()),
                static_cast<unsigned long long>(random_number()));
  worker_address.listener = name;
  if (!alone) host->spare_ = os::Fd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  Result<os::PrivateListener> listener = os::PrivateListener();
  if (!alone) listener = os::PrivateListener::open(name);
  if (!listener && !secret.empty()) {
    if (auto end = end_of_folder(secret)) listener = os::PrivateListener::open(name, *end);
  }
  if (listener && listener->valid()) {
    worker_address.folder = listener->folder_id();
    os::take_descriptors(listener->get(), false);
    host->listener_ = std::move(*listener);
  }

  return host;
}

Host::~Host() {
  // A rank that was killed while it joined has left its socket.
  close_listener();
  listener_.sweep();
}

Outcome Host::stay_alone() {
  close_listener();
  spare_ = os::Fd();
  own_.death = {};
  Result<os::Fd> memory = HostMemory::make(1);
  if (!memory) return memory.status();
  return map({rank_}, std::move(*memory), own_address_.nonce);
}

std::string Host::socket_name(const HostAddress& worker_address) const {
  if (named_listener_.valid()) return "tutti-" + worker_address.listener;
  return listener_.path_of(worker_address.listener);
}

Outcome Host::listen_by_name() {
  Result<os::Fd> listener = os::listen_unix("tutti-" + own_address_.listener);
  if (!listener) return listener.status();
  os::take_descriptors(listener->get(), false);
  named_listener_ = std::move(*listener);
  return Outcome();
}

void Host::close_listener() noexcept {
  listener_.close();
  if (!named_listener_.valid()) return;
  // Any user may have left something in its queue.
  os::BackgroundCloser closer;
  closer.close(std::move(named_listener_));
}

Outcome Host::join(const std::vector<int>& ranks, const std::vector<HostAddress>& worker_addresses,
                   std::span<const std::byte> secret, Deadline deadline) {
  if (ranks.size() > static_cast<std::size_t>(kMaxLocalRanks)) {
    return Outcome(Errc::unsupported, std::to_string(ranks.size()) +
                                          " ranks on one host; at most " +
                                          std::to_string(kMaxLocalRanks) + " can share memory");
  }
  const std::unique_ptr<HostExchange> exchange = HostExchange::make(
      {rank_, ranks, &worker_addresses, secret,
       [this](const HostAddress& worker_address) { return socket_name(worker_address); },
       named_listener_.valid() ? named_listener_.get() : listener_.get(), named_listener_.valid(),
       deadline});
  const bool leads = ranks.front() == rank_;
  Outcome enough = enough_descriptors(ranks.size(), leads);
  spare_ = os::Fd();
  Result<HostDescriptors> host = exchange->run(own_, std::move(enough));
  if (!host) return host.status();
  const HostAddress& leader = worker_addresses[static_cast<std::size_t>(ranks.front())];
  deaths_ = std::move(host->deaths);
  events_ = std::move(host->events);
  if (Outcome s = exchange->agree(map(ranks, std::move(host->memory), leader.nonce)); !s.ok())
    return s;
  if (leads) listener_.sweep();
  close_listener();
  own_.death = {};
  return Outcome();
}

Outcome Host::map(const std::vector<int>& ranks, os::Fd memory, std::uint64_t id) {
  Result<std::shared_ptr<HostMemory>> mapped = HostMemory::map(std::move(memory), ranks.size(), id);
  if (!mapped) return mapped.status();
  memory_ = std::move(*mapped);
  const auto self = static_cast<std::size_t>(std::ranges::find(ranks, rank_) - ranks.begin());
  regions_.self = static_cast<int>(self);
  ended_.reserve(2 * ranks.size());
  told_.resize(ranks.size());
  events_.resize(ranks.size());
  events_[self] = os::Fd();
  for (std::size_t local = 0; local < ranks.size(); ++local) {
    Result<RegionPeer> peer = memory_->peer(local, self);
    if (!peer) return peer.status();
    peer->rank = ranks[local];
    peer->eventfd = local == self ? own_.event.get() : events_[local].get();
    regions_.peers.push_back(std::move(*peer));
  }
  Result<std::byte*> arena = memory_->own(self, rank_);
  if (!arena) return arena.status();
  regions_.arena = *arena;
  regions_.peers[self].arena_bytes = kArenaBytes;
  if (memory_->whole()) {
    user_memory_ = std::make_shared<UserMemory>(memory_, *arena);
    regions_.user_bytes = kArenaBytes - kUserOffset;
    return Outcome();
  }
  // Its addresses are not reserved: what lies there may be anybody's.
  regions_.map = [this](int local, std::size_t begin, std::size_t bytes) {
    return map_range(local, begin, bytes);
  };
  return Outcome();
}

bool Host::map_range(int local, std::size_t begin, std::size_t bytes) noexcept {
  if (begin > kArenaBytes || bytes > kArenaBytes - begin) return false;
  try {
    return memory_->add(static_cast<std::size_t>(local), begin, bytes).ok();
  } catch (const std::bad_alloc&) {
    return false;
  }
}

const std::vector<int>& Host::ended() {
  // The vectors are kept between calls: this runs every few milliseconds and must not allocate.
  ended_.clear();
  if (!deaths_.ends.valid()) return ended_;
  deaths_.add_ended(ended_);
  std::erase_if(ended_, [&](int local) {
    const auto index = static_cast<std::size_t>(local);
    if (index >= told_.size() || told_[index]) return true;
    told_[index] = true;
    return false;
  });
  return ended_;
}

void Host::leave() noexcept {
  if (regions_.arena == nullptr) return;
  regions_.control().words().left.store(
      1, std::memory_order_seq_cst);  // pairs with Watchdog::check_left
  // Before the look at the park words: on ARM a relaxed load may be done before an earlier
  // sequential store is seen, and not all ranks may have membarrier.
  os::full_fence();
  for (const RegionPeer& peer : regions_.peers) {
    if (peer.rank != rank_) wake_if_parked(peer);
  }
}

}  // namespace tutti::transport::shm
