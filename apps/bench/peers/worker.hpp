#pragma once

#include <string>

#include "apps/bench/peers/performer.hpp"

/// The main part of a worker: a process that the harness starts as one rank of a library.
namespace tutti::bench {

/// The arguments of a worker: --socket PATH [--pin] [--gpu] [--rank R --size N --directory FOLDER
/// [--address ADDRESS]].
struct WorkerOptions {
  std::string socket;
  bool gpu = false;  ///< ours: the tensors are on GPUs
  bool pin = false;  ///< bind rank r to the r-th usable CPU; for libraries whose launcher does not
  int rank = -1;     ///< gloo: given by the harness
  int size = -1;
  std::string directory;              ///< gloo: folder of the file store
  std::string address = "127.0.0.1";  ///< gloo: of this rank
};
WorkerOptions parse_worker_options(int argc, char** argv);

/// Binds the calling thread to the `rank`-th CPU it may use.
void pin_to_cpu_of(int rank);

/// Obeys the harness until it says quit or goes away. Returns the exit code.
int serve(Library& library, const std::string& socket);

}  // namespace tutti::bench
