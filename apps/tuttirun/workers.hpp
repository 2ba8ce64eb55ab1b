#pragma once

#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <tutti/error.hpp>

#include "burst.hpp"
#include "error_text.hpp"
#include "line_buffer.hpp"
#include "logs.hpp"
#include "node_rendezvous.hpp"
#include "options.hpp"
#include "os/fd.hpp"
#include "os/process.hpp"
#include "output.hpp"
#include "records.hpp"
#include "terminal_input.hpp"

namespace tutti::launcher {

/// One of a worker's two output streams.
struct Stream {
  os::Fd fd;  ///< invalid where the worker writes to its file or to the terminal itself
  LineBuffer lines;
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
  Burst burst;      ///< of both
  ErrorText error;  ///< why it ends, if it has said so
  /// How and when it ended, if it has.
  std::optional<os::ExitStatus> end;
  /// If it was killed for lack of memory: what the kernel tells of it (MemoryKills).
  std::string out_of_memory;
  std::chrono::steady_clock::time_point end_time;
  /// True if tuttirun had asked it to end by then.
  bool was_asked = false;
  /// True if tuttirun had killed it by then.
  bool was_killed = false;
};

using Workers = std::vector<std::unique_ptr<Worker>>;

/// The settings of one start of the job beside the options, the same for all workers.
struct Start {
  JobAddress address;
  std::string run_id;
  int restart = 0;
  bool tag = false;
  /// By number of the stream.
  std::array<LineBuffer::Form, 3> forms{};
  /// Of the screen that the workers share, without the room for the tag; 0: there is none.
  int columns = 0;
  int rows = 0;
  int announce_fd = -1;
  /// The rank that has our standard input, of this node or another; Options::kNoRank: none.
  int stdin_rank = Options::kNoRank;
  bool on_terminal = false;        ///< our standard input is one
  TerminalInput* typed = nullptr;  ///< hands it on; null: the worker inherits it
  /// The only worker has the terminal to itself, with its output...
  bool passes_terminal = false;
  /// ... and begins in the foreground.
  bool in_foreground = false;
  const Logs* logs = nullptr;  ///< null: no files
  const Records* records = nullptr;
  rlimit descriptors{};  ///< as we were started: the workers' own limits
};

/// The time of something that is to be done; nothing: it is not.
using DueTime = std::optional<std::chrono::steady_clock::time_point>;
/// The one that comes first.
inline DueTime earlier(DueTime one, DueTime other) {
  return one && other ? std::min(one, other) : one ? one : other;
}

/// The program and its arguments as worker `local_rank` is started with.
std::vector<std::string> command_of(const Options& options, int local_rank);

/// Starts worker `local_rank` of this node.
Result<std::unique_ptr<Worker>> start_worker(const Options& options, const Start& start,
                                             int local_rank);

}  // namespace tutti::launcher
