#pragma once

#include <optional>
#include <string>
#include <vector>

#include <tutti/error.hpp>

#include "options.hpp"
#include "os/fd.hpp"
#include "os/shared_memory.hpp"

namespace tutti::launcher {

/// Makes the folder that --record names, and looks whether files can be made there: at the start of
/// a job, so that it does not end without them.
[[nodiscard]] Outcome prepare_records(const std::string& folder);

/// Removes the folders for temporary files in which jobs of this user have left records, once they
/// are seven days old.
void sweep_records();

/// The memory of the workers' flight recorders. We keep it, so it can be read after they were
/// killed.
class Records {
 public:
  /// For the workers of one start. Where TUTTI_FLIGHT_RECORDER=off they only tell there that they
  /// have joined. None without memory: then workers have their own.
  [[nodiscard]] static Records make(const Options& options);

  /// For worker `local_rank`; -1: none.
  [[nodiscard]] int fd_of(int local_rank) const noexcept;
  /// The numbers, each in its own pid namespace, of the processes of this worker that have joined
  /// as ranks, and perhaps have ended.
  [[nodiscard]] std::vector<int> joined(int local_rank) const;
  /// The name of that memory: TUTTI_RECORD_FD.
  [[nodiscard]] const std::string& name_of(int local_rank) const;
  /// Writes a file for each worker that has used its memory; the folder. Nothing: none has.
  /// `folder`: made if it is not there; empty: a new one for temporary files.
  [[nodiscard]] Result<std::optional<std::string>> write(const std::string& folder) const;

 private:
  struct Memory {
    os::Fd fd;
    std::string name;
    os::Mapping mapping;
  };
  std::vector<Memory> memories_;
};

}  // namespace tutti::launcher
