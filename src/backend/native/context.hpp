#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include <tutti/backend/registry.hpp>
#include <tutti/config.hpp>
#include <tutti/error.hpp>

#include "backend/native/driver.hpp"
#include "base/forks.hpp"
#include "engine/engine.hpp"
#include "record/flight_recorder.hpp"
#include "transport/first_lost.hpp"
#include "transport/shm/host.hpp"
#include "transport/tcp/tcp_transport.hpp"
#include "transport/transport.hpp"

namespace tutti::native {

/// Everything that one rank has of a world: host, transports, engine, driver. All groups of the
/// world share it; it ends with the last of them.
class Context {
 public:
  [[nodiscard]] static Result<std::shared_ptr<Context>> create(const WorldOptions& options,
                                                               transport::FirstLost first_lost);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  [[nodiscard]] Driver& driver() noexcept { return *driver_; }
  [[nodiscard]] engine::Engine& engine() noexcept { return *engine_; }
  [[nodiscard]] transport::shm::Host& host() noexcept { return *host_; }
  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int size() const noexcept { return size_; }
  [[nodiscard]] const Config& config() const noexcept { return config_; }
  /// "node-7, pid 123".
  [[nodiscard]] const std::string& whereabouts(int global) const {
    return engine_->world().whereabouts[static_cast<std::size_t>(global)];
  }
  /// We are a child of the process that made this context: nothing here may be used.
  [[nodiscard]] bool forked() const noexcept { return forks_ != base::fork_generation(); }
  /// Contexts of this process.
  [[nodiscard]] static int alive() noexcept;
  /// Sends what is queued and publishes that we end gracefully, until the deadline at most. If
  /// another thread holds the driver lock until then, nothing is published: peers see a death.
  /// Calling it again has no effect.
  void leave(engine::TimePoint deadline) noexcept;

 private:
  Context() = default;
  [[nodiscard]] Outcome build(const WorldOptions& options, transport::FirstLost first_lost);

  int rank_ = 0;
  int size_ = 1;
  const std::uint64_t forks_ = base::fork_generation();
  Config config_;
  std::atomic<bool> left_{false};
  std::function<void()> tell_left_;
  std::shared_ptr<void> kept_;  ///< WorldOptions::store
  std::unique_ptr<transport::shm::Host> host_;
  std::unique_ptr<transport::Transport> tcp_;
  std::unique_ptr<transport::Transport> ring_;  ///< to the ranks of our host
  std::unique_ptr<record::FlightRecorder> recorder_;
  std::unique_ptr<engine::Engine> engine_;
  std::unique_ptr<Driver> driver_;
};

}  // namespace tutti::native
