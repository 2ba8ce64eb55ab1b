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

// Ranks that are threads of one process use one mapping: a sanitizer that watches addresses would
// see nothing through two.
struct InProcess {
  std::mutex mutex;
  std::map<std::uint64_t,
           std::pair<std::shared_ptr<os::PartialMapping>, std::shared_ptr<os::Mapping>>>
      by_nonce;
};
InProcess& in_process() {
  static base::PerProcess<InProcess> ours;
  return ours.get();
}

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

/// Checks the limit of descriptors: a rank gets five from each other one, and the leader also has a
/// connection to each.
Outcome enough_descriptors(std::size_t ranks, bool collects) {
  return os::ensure_descriptors(
      (ranks - 1) * (kDescriptors + (collects ? 1 : 0)),
      "sharing memory with the " + std::to_string(ranks - 1) + " other ranks of this host");
}

constexpr std::size_t kGroupsEnd = kGroupsOffset + kMaxGroups * kGroupStride;

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
  Result<os::Fd> arena = os::make_memfd("tutti-arena", kArenaBytes);
  if (!arena) return arena.status();
  Result<os::Fd> readable = os::reopen_read_only(*arena);
  if (!readable) return readable.status();
  Result<os::Fd> page = os::make_memfd("tutti-page", kPageBytes);
  if (!page) return page.status();
  Result<os::Mapping> page_mapping = os::map_shared(*page, kPageBytes, true);
  if (!page_mapping) return page_mapping.status();
  // After it was reopened: from now on not even its owner can, without another chmod.
  for (const os::Fd* const memory : {&*arena, &*page}) {
    if (Outcome s = os::forbid_reopening(*memory); !s.ok()) return s;
  }
  Result<os::PartialMapping> arena_mapping = os::PartialMapping::map(
      std::move(*arena), kArenaBytes, true, !os::address_space_is_limited());
  if (!arena_mapping) return arena_mapping.status();
  for (const auto& [begin, bytes] :
       {std::pair(std::size_t{0}, kGroupsEnd), std::pair(kStagingOffset, kStagingBytes)}) {
    if (Outcome s = arena_mapping->add(begin, bytes); !s.ok()) return s;
  }
  host->own_.arena = std::move(*readable);
  host->own_.page = std::move(*page);
  host->arena_ = std::make_shared<os::PartialMapping>(std::move(*arena_mapping));
  host->page_ = std::make_shared<os::Mapping>(std::move(*page_mapping));
  host->own_.event = os::Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!host->own_.event.valid()) return Outcome(Errc::resource, "eventfd failed");
  Result<os::DeathPipe> death_pipe = os::open_death_pipe();
  if (!death_pipe) return death_pipe.status();
  host->own_.process = std::move(death_pipe->process);
  host->own_.pipe = std::move(death_pipe->pipe);

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

  // Without this, touching a page when memory is short would kill the process (SIGBUS).
  if (Outcome s = os::populate(host->arena_->data(), sizeof(ArenaHeader)); !s.ok()) return s;
  if (Outcome s = os::populate(host->page_->data(), sizeof(Page::park) + sizeof(Page::breaks));
      !s.ok())
    return s;
  auto* const header = new (host->arena_->data()) ArenaHeader{};
  header->magic = kMagic;
  header->version = kLayoutVersion;
  header->rank = rank;
  header->pid = worker_address.pid;
  {
    const std::lock_guard lock(in_process().mutex);
    in_process().by_nonce[worker_address.nonce] = {host->arena_, host->page_};
  }
  return host;
}

Host::~Host() {
  // A rank that was killed while it joined has left its socket.
  close_listener();
  listener_.sweep();
  const std::lock_guard lock(in_process().mutex);
  in_process().by_nonce.erase(own_address_.nonce);
}

void Host::stay_alone() {
  event_ = std::move(own_.event);
  regions_.arena = arena_->data();
  regions_.self = 0;
  regions_.peers.assign(1, RegionPeer{rank_, arena_->data(), kArenaBytes,
                                      reinterpret_cast<Page*>(page_->data()), event_.get()});
  close_listener();
  own_ = Descriptors{};
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
  Result<std::vector<Descriptors>> all = exchange->run(own_, std::move(enough));
  if (!all) return all.status();
  if (Outcome s = exchange->agree(map_all(ranks, worker_addresses, *all)); !s.ok()) return s;
  event_ = std::move(own_.event);
  if (leads) listener_.sweep();
  close_listener();
  own_ = Descriptors{};
  return Outcome();
}

Outcome Host::map_all(const std::vector<int>& ranks,
                      const std::vector<HostAddress>& worker_addresses,
                      std::vector<Descriptors>& all) {
  regions_.arena = arena_->data();
  regions_.peers.resize(ranks.size());
  if (!arena_->whole())
    regions_.map_to = [this](int local, std::size_t end) { return map_to(local, end); };
  arenas_.resize(ranks.size());
  events_.resize(ranks.size());
  death_pipes_.resize(ranks.size());
  watched_.reserve(2 * ranks.size());
  ended_.reserve(ranks.size());
  if (Outcome s = arena_->add(kRingOffset, ranks.size() * kRingStride); !s.ok()) return s;
  regions_.self = static_cast<int>(std::ranges::find(ranks, rank_) - ranks.begin());
  for (std::size_t local = 0; local < ranks.size(); ++local) {
    const int rank = ranks[local];
    regions_.peers[local].rank = rank;
    if (rank == rank_) {
      regions_.peers[local] = RegionPeer{rank, arena_->data(), kArenaBytes,
                                         reinterpret_cast<Page*>(page_->data()), own_.event.get()};
      continue;
    }
    if (Outcome s =
            map_peer(static_cast<int>(local), worker_addresses[static_cast<std::size_t>(rank)],
                     std::move(all[local]));
        !s.ok()) {
      return s;
    }
  }
  return Outcome();
}

Outcome Host::map_peer(int local, const HostAddress& worker_address, Descriptors shared) {
  const auto index = static_cast<std::size_t>(local);
  RegionPeer& peer = regions_.peers[index];
  peer.arena_bytes = kArenaBytes;
  peer.eventfd = shared.event.get();
  events_[index] = std::move(shared.event);
  if (worker_address.pid == own_address_.pid) {
    const std::lock_guard lock(in_process().mutex);
    const auto found = in_process().by_nonce.find(worker_address.nonce);
    if (found != in_process().by_nonce.end()) {
      const auto& [peer_arena, peer_page] = found->second;
      peer.arena = peer_arena->data();
      peer.page = reinterpret_cast<Page*>(peer_page->data());
      arenas_[index] = peer_arena;
      pages_.push_back(peer_page);
      return Outcome();
    }
  }
  if (Outcome s = os::check_memfd(shared.arena, kArenaBytes); !s.ok()) return s;
  if (Outcome s = os::check_memfd(shared.page, kPageBytes); !s.ok()) return s;
  Result<os::PartialMapping> arena =
      os::PartialMapping::map(std::move(shared.arena), kArenaBytes, false, arena_->whole());
  if (!arena) return arena.status();
  if (!arena->whole()) peer.arena_bytes = kHeapOffset;
  // Of its rings we read the one to us.
  const std::size_t ring = kRingOffset + static_cast<std::size_t>(regions_.self) * kRingStride;
  for (const auto& [begin, bytes] :
       {std::pair(std::size_t{0}, kGroupsEnd), std::pair(ring, kRingStride),
        std::pair(kStagingOffset, kStagingBytes)}) {
    if (Outcome s = arena->add(begin, bytes); !s.ok()) return s;
  }
  Result<os::Mapping> page = os::map_shared(shared.page, kPageBytes, true);
  if (!page) return page.status();
  peer.arena = arena->data();
  peer.page = reinterpret_cast<Page*>(page->data());
  arenas_[index] = std::make_shared<os::PartialMapping>(std::move(*arena));
  pages_.push_back(std::make_shared<os::Mapping>(std::move(*page)));
  if (peer.header().magic != kMagic || peer.header().version != kLayoutVersion) {
    return Outcome(Errc::refused, "rank " + std::to_string(peer.rank) +
                                      " on this host runs another version of tutti");
  }
  if (peer.header().rank != peer.rank || peer.header().pid != worker_address.pid) {
    return Outcome(Errc::refused, "the memory that came for rank " + std::to_string(peer.rank) +
                                      " on this host is that of rank " +
                                      std::to_string(peer.header().rank) + ", process " +
                                      std::to_string(peer.header().pid));
  }
  death_pipes_[index] = {std::move(shared.process), std::move(shared.pipe)};
  return Outcome();
}

bool Host::map_to(int local, std::size_t end) noexcept {
  const auto index = static_cast<std::size_t>(local);
  if (end > kArenaBytes) return false;
  try {
    if (!arenas_[index]->add(kHeapOffset, end - kHeapOffset).ok()) return false;
  } catch (const std::bad_alloc&) {
    return false;
  }
  regions_.peers[index].arena_bytes = end;
  return true;
}

Outcome Host::populate(std::byte* data, std::size_t size) {
  if (!arena_->whole() && data >= arena_->data() && data < arena_->data() + kArenaBytes) {
    if (Outcome s = arena_->add(static_cast<std::size_t>(data - arena_->data()), size); !s.ok())
      return s;
  }
  return os::populate(data, size);
}

const std::vector<int>& Host::ended() {
  // The vectors are kept between calls: this runs every few milliseconds and must not allocate.
  ended_.clear();
  watched_.clear();
  for (const os::DeathPipe& one : death_pipes_) {
    for (const os::Fd* const fd : {&one.process, &one.pipe})
      watched_.push_back({fd->valid() ? fd->get() : -1, POLLIN, 0});
  }
  if (watched_.empty() || ::poll(watched_.data(), watched_.size(), 0) <= 0) return ended_;
  for (std::size_t i = 0; i < death_pipes_.size(); ++i) {
    if (watched_[2 * i].revents == 0 && watched_[2 * i + 1].revents == 0) continue;
    ended_.push_back(static_cast<int>(i));
    death_pipes_[i] = {};  // reported once
  }
  return ended_;
}

void Host::leave() noexcept {
  if (regions_.arena == nullptr) return;
  regions_.header().left.store(1, std::memory_order_seq_cst);  // pairs with Watchdog::check_left
  // Before the look at the park words: on ARM a relaxed load may be done before an earlier
  // sequential store is seen, and not all ranks may have membarrier.
  os::full_fence();
  for (const RegionPeer& peer : regions_.peers) {
    if (peer.rank != rank_) wake_if_parked(peer);
  }
}

}  // namespace tutti::transport::shm
