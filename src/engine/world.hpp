#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <tutti/error.hpp>

#include "engine/clock.hpp"
#include "record/flight_recorder.hpp"
#include "transport/region.hpp"
#include "transport/transport.hpp"

namespace tutti::engine {

/// The surroundings of an engine: memory, transports, clock. It is not the world group, although
/// "rank of the world" is a rank among `size`. All of it may be simulated.
struct World {
  int rank = 0;
  int size = 1;
  int cpus = 1;                                   ///< per host, agreed by all
  std::size_t core_cache = std::size_t{1} << 20;  ///< os::core_cache_bytes
  std::uint64_t settings = 0;                     ///< digest of what must be equal on all ranks
  transport::Regions* regions = nullptr;          ///< our host's shared memory
  std::vector<int> host_of;                       ///< by global rank
  std::vector<int> local_of;  ///< by global rank: index among the ranks of our host, or -1
  std::vector<transport::Transport*> transports;  ///< by global rank; nullptr for ourselves
  std::vector<std::string> whereabouts;           ///< by global rank: "node-7, pid 123"
  /// "stopped", ... for error texts; may be nullptr.
  std::string (*process_state)(int pid) = nullptr;
  /// By global rank; 0: its state cannot be seen from here. Empty: use the pids in the arenas.
  std::vector<int> pids;
  TimePoint (*now)() noexcept = nullptr;  ///< the clock, virtual where simulated
  std::function<Outcome(std::byte* data, std::size_t size)> populate;
  /// An operation that has waited for this time is logged; 0: none is.
  std::chrono::nanoseconds stall_warning{};
  record::FlightRecorder* recorder = nullptr;  ///< notes each operation; may be nullptr
  /// Without membarrier a rank that sleeps cannot fence for us: we fence after each publication.
  bool publish_fence = false;
  std::string algorithms;  ///< override of the selection
};

}  // namespace tutti::engine
