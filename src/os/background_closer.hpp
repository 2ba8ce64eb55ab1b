#pragma once

#include <cstddef>
#include <memory>

#include "os/fd.hpp"

namespace tutti::os {

/// Closes connections of processes that have not proven anything, in a thread of its own. close()
/// of a unix socket also closes the descriptors that lie unread in its queue, and blocks as long as
/// one of them does: a TCP socket with unsent data and SO_LINGER, for example.
///
/// Threads: one at a time.
class BackgroundCloser {
 public:
  BackgroundCloser();
  /// Does not wait for the thread.
  ~BackgroundCloser() = default;
  BackgroundCloser(const BackgroundCloser&) = delete;
  BackgroundCloser& operator=(const BackgroundCloser&) = delete;

  /// Does not block. If no thread can be started, the descriptor stays open.
  void close(Fd fd);
  /// Number of descriptors that are not closed yet.
  [[nodiscard]] std::size_t waiting() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace tutti::os
