#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include <tutti/config.hpp>
#include <tutti/error.hpp>
#include <tutti/export.hpp>
#include <tutti/process_group.hpp>

namespace tutti {
inline namespace TUTTI_EXPORT v0 {

/// Runs `body` as `size` ranks that are threads of this process, over real shared memory: for tests
/// and small jobs. Each gets its own world. Returns when all have ended. Without a config that of
/// the environment holds.
///
/// Errors: the first exception of a rank (by time) is thrown again; the other ranks then end with
///         errors of their own, because the group of a rank that throws is broken: such a one
///         (`aborted`, `peer_left`, `peer_lost`) is only thrown if there is no other.
///         InvalidArgument for a variable that is not understood.
void run_threads(int size, const std::function<void(ProcessGroup&)>& body,
                 const std::optional<Config>& config = std::nullopt);

/// Options of `spawn`.
struct SpawnOptions {
  /// After a failure: between asking the others to end (SIGTERM) and ending them (SIGKILL).
  std::chrono::milliseconds grace = std::chrono::seconds(5);
  /// For all of it; absent: as long as it takes. Processes that still run then are ended.
  Timeout timeout = {};
};

/// How a process of `spawn` failed. `culprit()` is its rank; `code()` that of the tutti::Error that
/// left the function, else peer_lost.
class SpawnError : public Error {
 public:
  /// How it ended, for `spawn` to tell; `status` holds the text for people.
  struct End {
    int process = 0;                       ///< its number
    int exit_code = 0;                     ///< if no signal ended it
    int signal = 0;                        ///< that ended it, or 0
    std::optional<std::string> exception;  ///< the text of the exception that left the function
  };
  SpawnError(Outcome status, End end) : Error(std::move(status)), end_(std::move(end)) {}
  [[nodiscard]] const End& end() const noexcept { return end_; }

 private:
  End end_;
};

/// Runs `fn(rank)` in `nprocs` new processes of this host and returns when all have ended well.
/// `fn` calls init_process_group() without arguments: the processes are told who they are, as by
/// tuttirun, and have a store and a secret of their own.
///
/// The processes are forks: `fn` finds what this process had in memory, but none of its threads, so
/// call it before threads hold locks that `fn` needs. When `fn` returns the process ends, without
/// handlers of atexit and destructors of statics; a world it has made must have ended by then. A
/// process that exits before has failed, whatever its exit code; but a program that it has become
/// by exec ends in its place. The processes die with the thread that called.
///
/// Threads: once at a time per process.
/// Errors:  InvalidArgument if this process has a world (or ranks as threads) of its own: a fork
///          could not use it. SpawnError for the first process that failed; the others are ended
///          before it is thrown. TimeoutError names who was still running. BackendError if the
///          system refuses processes.
void spawn(const std::function<void(int rank)>& fn, int nprocs, const SpawnOptions& options = {});

}  // namespace v0
}  // namespace tutti
