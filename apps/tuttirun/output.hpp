#pragma once

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

namespace tutti::launcher {

/// Writes all of it, waiting where it must. False, with errno, when that is not possible.
bool append(int fd, std::string_view bytes);

/// Writes to our stdout and stderr on a thread of its own: a slow reader must not keep us from
/// noticing that a worker has failed.
class Output {
 public:
  /// `on_change` is called from that thread when there is room again or a stream has broken.
  explicit Output(std::function<void()> on_change);
  ~Output();
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  /// `fd` is 1 or 2.
  void write(int fd, std::string bytes);
  /// True if so much output waits that workers should not be read any more.
  [[nodiscard]] bool full() const noexcept;
  /// Why the stream could not be written, as errno: EPIPE where its reader is gone; 0: it could.
  [[nodiscard]] int error(int fd) const noexcept;
  /// Waits until all is written, or until the deadline.
  void flush(std::chrono::steady_clock::time_point deadline);

 private:
  // Shared with the thread, which may be stuck in a write that nobody reads when we go.
  struct State {
    struct Piece {
      int fd;
      std::string bytes;
    };
    std::function<void()> on_change;
    mutable std::mutex mutex;
    std::condition_variable changed;
    std::deque<Piece> pieces;
    std::size_t waiting_bytes = 0;
    std::array<int, 3> errors{};
    bool writing = false;
    bool stop = false;
  };
  static void run(State& state);

  std::shared_ptr<State> state_ = std::make_shared<State>();
  std::thread thread_;
};

}  // namespace tutti::launcher
