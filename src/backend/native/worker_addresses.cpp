#include "backend/native/worker_addresses.hpp"

#include <map>
#include <utility>

#include "backend/native/host_cpus.hpp"
#include "base/agreed_settings.hpp"
#include "base/index.hpp"
#include "call/call_code.hpp"

namespace tutti::native {

using transport::shm::HostAddress;

Result<WorkerAddresses> WorkerAddresses::read(const std::vector<std::string>& texts,
                                              const WorkerAddress& mine,
                                              const JobIdentity& identity,
                                              Config::TransportChoice transport) {
  WorkerAddresses all;
  engine::World& world = all.world;
  world.rank = identity.rank;
  world.size = identity.size;
  world.settings = call::hash_text(mine.settings);
  std::map<std::string, int> hosts;
  WorkerAddressReader reader;
  const auto size = static_cast<std::size_t>(world.size);
  all.places.reserve(size);  // a thousand of them are not to move
  world.whereabouts.reserve(size);
  bool all_seen = true;  // all ranks of this machine are in our pid namespace
  for (int r = 0; r < world.size; ++r) {
    Result<WorkerAddress> one = reader.read(base::at(texts, r));
    if (!one) {
      return Outcome(one.status().code(),
                     "rank " + std::to_string(r) +
                         " cannot be reached: " + std::string(one.status().message()) +
                         "; does it run another version of tutti, or does somebody else write to "
                         "the store?");
    }
    if (one->settings != mine.settings) {
      return Outcome(Errc::disagreement,
                     "settings differ: " +
                         base::settings_that_differ(mine.settings, world.rank, one->settings, r) +
                         "; give all ranks the same");
    }
    HostAddress& place = one->host;
    const bool share = transport != Config::TransportChoice::tcp;
    const std::string key = share ? place.host_key : "rank " + std::to_string(r);
    world.host_of.push_back(hosts.try_emplace(key, static_cast<int>(hosts.size())).first->second);
    // The pid from another pid namespace means another process here, or none.
    const bool here = place.boot == mine.host.boot;
    const bool seen =
        here && place.pid_namespace != 0 && place.pid_namespace == mine.host.pid_namespace;
    world.pids.push_back(seen ? place.pid : 0);
    if (here) {
      all_seen = all_seen && seen;
      all.driver.processes.push_back(place.pid);
    }
    all.driver.sleepers_fence = all.driver.sleepers_fence && place.fence;
    world.whereabouts.push_back(place.host_name + ", pid " + std::to_string(place.pid));
    all.places.push_back(std::move(place));
  }
  if (transport == Config::TransportChoice::shm && hosts.size() > 1) {
    return Outcome(Errc::unsupported, "TUTTI_TRANSPORT=shm, but the ranks are on " +
                                          std::to_string(hosts.size()) + " hosts");
  }
  for (int r = 0; r < world.size; ++r) {
    const bool ours = base::at(world.host_of, r) == base::at(world.host_of, world.rank);
    world.local_of.push_back(ours ? static_cast<int>(all.local.size()) : -1);
    if (ours) all.local.push_back(r);
  }
  world.cpus = least_cpus(all.places);  // equal on all ranks, as select() depends on it
  // Also those in another network namespace.
  std::vector<const HostAddress*> machine;
  for (const HostAddress& place : all.places) {
    if (place.boot == mine.host.boot) machine.push_back(&place);
  }
  all.driver.cpus = cpus_of_host(machine);
  all.driver.ranks_on_host = static_cast<int>(machine.size());
  all.driver.remote = all.local.size() < all.places.size();
  for (int r = 0; all.driver.remote && r < world.size; ++r)
    all.told.push_back(reader.read(base::at(texts, r)).value());
  if (!all_seen) all.driver.processes.clear();
  return all;
}

}  // namespace tutti::native
