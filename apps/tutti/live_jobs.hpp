#pragma once

#include <string>
#include <vector>

#include <tutti/error.hpp>

#include "os/shared_memory.hpp"
#include "record/record.hpp"

// The jobs that run on this host, by the flight recorders that processes hold. All is read through
// /proc, which lets the same user do so; the processes notice nothing.
namespace tutti::cli {

/// The memory of one rank's flight recorder. Keeps it after the rank has ended.
class LiveRecorder {
 public:
  explicit LiveRecorder(os::Mapping mapping) noexcept : mapping_(std::move(mapping)) {}
  /// As it is now. Errors: those of record::read_record.
  [[nodiscard]] Result<record::Record> read() const {
    return record::read_record(record::copy_record({mapping_.data(), mapping_.size()}));
  }

 private:
  os::Mapping mapping_;
};

struct LiveJob {
  /// `--rdzv-id` or tuttirun's random name, else that of Slurm or Open MPI; empty: it has none.
  std::string name;
  int process = 0;      ///< its launcher, if that holds the recorders, else one of its ranks
  std::string command;  ///< of that process, on one line, cut
  std::vector<LiveRecorder> recorders;  ///< in use, of this host
  int ranks = 0;                        ///< the recorders but for those of launchers that begin
};

/// The recorders in use that a process holds: its own, or, of tuttirun, those of its workers.
/// Errors: invalid_argument where the process cannot be looked at.
[[nodiscard]] Result<std::vector<LiveRecorder>> recorders_of(int pid);

/// The jobs of this user, by name. Processes that cannot be looked at are left out.
[[nodiscard]] std::vector<LiveJob> live_jobs();

}  // namespace tutti::cli
