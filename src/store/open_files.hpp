#pragma once

#include <mutex>
#include <vector>

#include "os/fd.hpp"

namespace tutti::store {

/// The files that stores of this process have open. A forked child closes its copies at once: their
/// locks belong to the open file, and would else last as long as the child, whoever of us dies.
///
/// Threads: any. A descriptor must not be opened or closed by its owner while another thread forks.
class OpenFiles {
 public:
  static OpenFiles& all();
  /// From now on a child of ours finds it closed. It stays where it is until `remove`.
  void add(os::Fd& file);
  void remove(const os::Fd& file);

 private:
  OpenFiles();

  std::mutex mutex_;
  std::vector<os::Fd*> files_;
};

}  // namespace tutti::store
