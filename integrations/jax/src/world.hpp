#pragma once

#include <chrono>
#include <map>
#include <mutex>
#include <string>

#include "abi.hpp"
#include "communicator.hpp"

namespace tutti::jax {

/// How long a split and any other operation may take.
struct Limits {
  std::chrono::duration<double> split{0};
  std::chrono::nanoseconds operation{0};
};

/// The world of the JAX job and its communicators.
///
/// Lifetime: of the process, since jaxlib frees communicators after MPI_Finalize, while the process
///           exits.
/// Threads:  any.
class World {
 public:
  static World& get();

  /// MPI_Init_thread: makes a world for the new client of JAX; communicators of an earlier one keep
  /// theirs. Never throws: without a world every communicator fails with the reason.
  void begin();
  /// Leaves the job, so that no other process waits for this one: all communicators fail from now
  /// on. MPI_Finalize is too early for it, since computations may still run.
  void leave();
  [[nodiscard]] bool begun() const;
  [[nodiscard]] bool ended() const;

  /// MPI_Comm_split of the world, collective over all processes of the job. Never throws.
  [[nodiscard]] Handle split(int color, int key);
  void free(Handle communicator);
  /// Throws InvalidArgument if there is no such communicator.
  [[nodiscard]] SharedCommunicator find(Handle communicator) const;

 private:
  [[nodiscard]] SharedCommunicator make(int color, int key);

  mutable std::mutex mutex_;
  /// Fails until the first begin.
  SharedCommunicator world_ = std::make_shared<Communicator>("MPI was not initialized", 0, 1);
  bool begun_ = false;
  bool ended_ = false;
  bool splitting_ = false;
  bool several_at_once_ = false;  ///< two splits ran at the same time
  Limits limits_;
  Handle next_ = first_made;
  std::map<Handle, SharedCommunicator> communicators_;
};

}  // namespace tutti::jax
