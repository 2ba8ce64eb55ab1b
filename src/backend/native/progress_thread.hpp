#pragma once

namespace tutti::native {

class Driver;

/// The one thread of the process that advances what nobody waits for. Starts with the
/// first driver that needs it; sleeps in epoll and never spins.
class ProgressThread {
 public:
  /// False: there is no memory for it.
  [[nodiscard]] static bool add(Driver& driver);
  /// Returns when the thread does not use the driver any more. No effect if it was never added.
  static void remove(Driver& driver);
  /// There is something to look at.
  static void kick() noexcept;
  /// A caller is about to sleep until something has come, and leaves the sockets to the thread. A
  /// caller in a callback *is* the thread: another takes its place then, and serves all who do not
  /// wait for that callback.
  static void caller_sleeps() noexcept;
};

}  // namespace tutti::native
