#pragma once

namespace tutti::native {

class Driver;

/// The thread that runs operations for which no caller waits. A process has usually one: another
/// one takes its place while a callback on it waits (caller_sleeps, docs/design/threads.md). It
/// starts with the first driver that needs it, sleeps in epoll and never spins.
class ProgressThread {
 public:
  /// False: there is no memory for it.
  [[nodiscard]] static bool add(Driver& driver);
  /// Returns when the thread does not use the driver any more. No effect if it was never added.
  static void remove(Driver& driver);
  /// Wakes the thread.
  static void kick() noexcept;
  /// A caller is about to sleep. `leaves`: it leaves sockets or callbacks to the thread. If the
  /// caller is itself the thread (it waits in a callback), a new thread takes its place. The old
  /// one ends when its callback returns.
  static void caller_sleeps(bool leaves) noexcept;
};

}  // namespace tutti::native
