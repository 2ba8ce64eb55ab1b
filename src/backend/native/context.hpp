#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <tutti/config.hpp>
#include <tutti/error.hpp>

#include "backend/native/driver.hpp"
#include "engine/engine.hpp"
#include "transport/shm/host.hpp"
#include "transport/transport.hpp"

namespace tutti::native {

/// What a rank needs to find the others.
struct ContextOptions {
  int rank = 0;
  int size = 1;
  std::uint64_t job = 0;          ///< tells jobs apart
  std::uint64_t generation = 0;   ///< tells worlds of one job apart
  std::vector<std::byte> secret;  ///< of the job; may be empty
  std::string bind_host;          ///< the address by which we reach the master
  Config config;
  std::chrono::steady_clock::time_point deadline;
  /// Gives each rank everybody's text, in the order of ranks.
  std::function<Result<std::vector<std::string>>(const std::string& name, const std::string& mine)>
      exchange;
  /// As TcpOptions::first_lost; may be empty.
  std::function<Status()> first_lost;
};

/// Everything of one rank: mesh, arena, doorbell, liveness, engine (decision D1). Shared by all
/// groups of a world; ends with the last of them.
class Context {
 public:
  [[nodiscard]] static Result<std::shared_ptr<Context>> create(const ContextOptions& options);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  [[nodiscard]] Driver& driver() noexcept { return *driver_; }
  [[nodiscard]] engine::Engine& engine() noexcept { return *engine_; }
  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int size() const noexcept { return size_; }
  [[nodiscard]] const Config& config() const noexcept { return config_; }
  /// "node-7, pid 123".
  [[nodiscard]] const std::string& whereabouts(int global) const {
    return engine_->world().whereabouts[static_cast<std::size_t>(global)];
  }
  /// We are a child of the process that made this context: nothing here may be used (D8).
  [[nodiscard]] bool forked() const noexcept;
  /// Keeps something alive as long as the context (the store, so that rank 0 serves it to the end).
  void keep(std::shared_ptr<void> thing) { kept_ = std::move(thing); }
  /// Contexts of this process.
  [[nodiscard]] static int alive() noexcept;
  /// Says that we end in peace and sends what is queued, for at most `drain`. Repeating is
  /// harmless.
  void leave(std::chrono::nanoseconds drain) noexcept;

 private:
  Context() = default;
  [[nodiscard]] Status build(const ContextOptions& options);

  int rank_ = 0;
  int size_ = 1;
  std::uint64_t fork_generation_ = 0;
  Config config_;
  std::atomic<bool> left_{false};
  std::shared_ptr<void> kept_;
  std::unique_ptr<transport::shm::Host> host_;
  std::unique_ptr<transport::Transport> tcp_;
  std::unique_ptr<transport::Transport> outbox_;  ///< to the ranks of our host
  std::unique_ptr<engine::Engine> engine_;
  std::unique_ptr<Driver> driver_;
};

}  // namespace tutti::native
