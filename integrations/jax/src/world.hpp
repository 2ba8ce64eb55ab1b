#pragma once

#include <chrono>
#include <map>
#include <mutex>
#include <string>

#include "abi.hpp"
#include "communicator.hpp"

namespace tutti::jax {

/// The world of the JAX job and its communicators.
///
/// Lifetime: of the process, since jaxlib frees communicators after MPI_Finalize, while the process
///           exits.
/// Threads:  any.
class World {
 public:
  static World& get();

  /// MPI_Init_thread. Never throws: without a world every communicator fails with the reason. A
  /// second begin (JAX made a new client in this process) uses the same world, unless that is
  /// broken.
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
  [[nodiscard]] ProcessGroup split_world(ProcessGroup& world, int color, int key) const;

  mutable std::mutex mutex_;
  /// Fails until the first begin.
  SharedCommunicator world_ = std::make_shared<Communicator>("MPI was not initialized", 0, 1);
  bool begun_ = false;
  bool ended_ = false;
  bool splitting_ = false;
  bool several_at_once_ = false;  ///< two splits ran at the same time
  std::chrono::duration<double> split_timeout_{0};
  std::chrono::nanoseconds timeout_{0};
  Handle next_ = first_made;
  std::map<Handle, SharedCommunicator> communicators_;
};

}  // namespace tutti::jax
