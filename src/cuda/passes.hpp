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

/// A group whose operations have to be looked at, because a GPU wakes nobody.
class Passing {
 public:
  Passing() = default;
  virtual ~Passing() = default;
  Passing(const Passing&) = delete;
  Passing& operator=(const Passing&) = delete;

  enum class Progress : std::uint8_t {
    idle,     ///< nothing runs
    waiting,  ///< something runs, and the pass has changed nothing
    moved,    ///< an operation has gone on: it may have its next step soon
  };
  /// One pass over all that runs; adds callbacks to `due`.
  virtual Progress pass(std::vector<Due>& due) = 0;
};

/// A thread that makes passes over the groups of one world on this rank, while something runs in
/// them: progress for operations that nobody waits for. It calls their callbacks. Its pauses are
/// short after an operation has gone on, and grow while none does.
class Passes {
 public:
  Passes();  ///< may throw, having no thread
  ~Passes();
  Passes(const Passes&) = delete;
  Passes& operator=(const Passes&) = delete;

  /// Until the group is gone.
  void add(const std::shared_ptr<Passing>& one);
  /// Calls callbacks of a group that is gone, on the thread.
  void deliver(std::vector<Due> due);
  /// There is something to make progress with.
  void wake() noexcept;

 private:
  struct Shared {
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<std::weak_ptr<Passing>> all;
    std::vector<Due> late;  ///< of groups that are gone
    bool needed = false;
    bool ends = false;
  };
  static void run(const std::shared_ptr<Shared>& shared) noexcept;

  std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
  std::thread thread_;
};

}  // namespace tutti::cuda
