#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <tutti/error.hpp>

#include "options.hpp"
#include "os/fd.hpp"
#include "os/process.hpp"
#include "output.hpp"

namespace tutti::launcher {

/// One of a worker's two output streams.
struct Stream {
  os::Fd fd;
  LineBuffer lines{""};
  int to = 1;  ///< 1 or 2
  bool paused = false;
};

struct Worker {
  int rank = 0;
  os::Process process;
  Stream out;
  Stream err;
  /// How and when it ended, if it has.
  std::optional<os::ExitStatus> end;
  std::chrono::steady_clock::time_point end_time;
  /// Whether we had asked it to end by then.
  bool was_asked = false;
};

/// What all workers of this node are told, beside their rank.
struct JobAddress {
  std::string master_addr;
  std::uint16_t master_port = 0;
  std::string job;
  /// The secret as memory to inherit, or -1.
  int secret_fd = -1;
  /// ... or as a file, or empty.
  std::string secret_file;
};

/// The program and its arguments as they are started: a *.py with python3 before it.
std::vector<std::string> command_of(const Options& options);

/// Starts worker `local_rank` of this node.
Result<std::unique_ptr<Worker>> start_worker(const Options& options, const JobAddress& address,
                                             int local_rank, int announce_fd, bool tag);

}  // namespace tutti::launcher
