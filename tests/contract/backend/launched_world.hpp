#pragma once

#include <chrono>
#include <cstdlib>
#include <string>
#include <utility>

#include <tutti/tutti.hpp>

#include "arrangement.hpp"

// Worlds of ranks that a launcher has started.
namespace tutti::test {

/// How many ranks an mpirun has started; 0: none has.
inline int ranks_of_mpirun() {
  for (const char* const name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}) {
    if (const char* const size = std::getenv(name)) return std::atoi(size);
  }
  return 0;
}

/// The world of this process, on the backend of its launcher if none is given.
inline ProcessGroup launched_world(std::string backend = ranks_of_mpirun() > 0 ? "mpi" : "native",
                                   std::chrono::nanoseconds timeout = kForever) {
  Config config = Config::from_environment().value();
  config.timeout = timeout;
  config.backend = std::move(backend);
  return init_process_group({.config = config});
}

}  // namespace tutti::test
