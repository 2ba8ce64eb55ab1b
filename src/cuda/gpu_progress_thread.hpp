#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/due.hpp"

namespace tutti::cuda {

using base::Due;

/// A group whose operations must be polled, because a GPU wakes no thread.
class Progressable {
 public:
  Progressable() = default;
  virtual ~Progressable() = default;
  Progressable(const Progressable&) = delete;
  Progressable& operator=(const Progressable&) = delete;

  enum class Progress : std::uint8_t {
    idle,     ///< nothing runs
    waiting,  ///< operations run, and none has advanced
    moved,    ///< an operation has advanced, and may advance again soon
  };
  /// Advances all operations once; adds callbacks to `due`.
  virtual Progress make_progress(std::vector<Due>& due) = 0;
};

/// A thread that advances the operations of one world's groups that no caller waits for, and calls
/// their callbacks. It pauses between rounds: shortly after an operation has advanced, longer while
/// none does.
class GpuProgressThread {
 public:
  GpuProgressThread();  ///< throws std::system_error if no thread can be made
  ~GpuProgressThread();
  GpuProgressThread(const GpuProgressThread&) = delete;
  GpuProgressThread& operator=(const GpuProgressThread&) = delete;

  /// Adds a group; it is forgotten when it is destroyed.
  void add(const std::shared_ptr<Progressable>& one);
  /// Calls the callbacks of a destroyed group on the thread.
  void deliver(std::vector<Due> due);
  /// An operation has begun: the thread must make progress.
  void wake() noexcept;

 private:
  struct Shared {
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<std::weak_ptr<Progressable>> all;
    std::vector<Due> late;  ///< callbacks of destroyed groups
    bool needed = false;
    bool ends = false;
  };
  static void run(const std::shared_ptr<Shared>& shared) noexcept;

  std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
  std::thread thread_;
};

}  // namespace tutti::cuda
