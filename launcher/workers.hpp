#pragma once

#include <sys/resource.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <tutti/error.hpp>

#include "logs.hpp"
#include "node_rendezvous.hpp"
#include "options.hpp"
#include "os/fd.hpp"
#include "os/process.hpp"
#include "output.hpp"

namespace tutti::launcher {

/// One of a worker's two output streams.
struct Stream {
  os::Fd fd;  ///< invalid where the worker writes to its file itself
  LineBuffer lines{""};
  int to = 1;  ///< 1 or 2
  bool shown = true;
  bool paused = false;
  os::Fd log;            ///< gets a copy, if valid
  std::string log_path;  ///< of the file that gets it, by us or by the worker; or empty
};

struct Worker {
  int rank = 0;
  os::Process process;
  Stream out;
  Stream err;
  /// How and when it ended, if it has.
  std::optional<os::ExitStatus> end;
  std::chrono::steady_clock::time_point end_time;
  /// True if tuttirun had asked it to end by then.
  bool was_asked = false;
};

/// The arguments of one start of the job beside the options, the same for all workers.
struct Start {
  JobAddress address;
  std::string run_id;
  int restart = 0;
  bool tag = false;
  int announce_fd = -1;
  const Logs* logs = nullptr;  ///< null: no files
  rlimit descriptors{};
};

/// The program and its arguments as worker `local_rank` is started with.
std::vector<std::string> command_of(const Options& options, int local_rank);

/// Starts worker `local_rank` of this node.
Result<std::unique_ptr<Worker>> start_worker(const Options& options, const Start& start,
                                             int local_rank);

}  // namespace tutti::launcher
