#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <tutti/backend/backend.hpp>
#include <tutti/backend/registry.hpp>

#include "backend/mpi/driver.hpp"
#include "backend/mpi/group.hpp"
#include "backend/mpi/world.hpp"

namespace tutti::mpi {

/// The name of this backend.
inline constexpr std::string_view kName = "mpi";

/// One group on MPI.
class MpiBackend final : public Backend, public Operations {
 public:
  /// The group of all ranks of MPI_COMM_WORLD, or of the communicator that the options name.
  [[nodiscard]] static Result<Backend*> make_world(Driver& driver, const WorldOptions& options);
  ~MpiBackend() override;

  [[nodiscard]] std::string_view name() const noexcept override { return kName; }
  [[nodiscard]] int rank() const noexcept override { return group_->rank(); }
  [[nodiscard]] int size() const noexcept override { return group_->size(); }
  [[nodiscard]] std::string unsupported(const Collective& call) const override;
  [[nodiscard]] Capabilities capabilities() const noexcept override;
  Pending submit(const Collective& call, bool asynchronous) noexcept override;
  [[nodiscard]] bool wait(std::uint64_t ticket, std::optional<std::chrono::nanoseconds> limit,
                          Outcome& outcome) noexcept override;
  [[nodiscard]] std::optional<Outcome> poll(std::uint64_t ticket) noexcept override;
  void on_done(std::uint64_t ticket, Callback callback) noexcept override;
  [[nodiscard]] tutti::Received received(std::uint64_t ticket) noexcept override;
  [[nodiscard]] std::optional<ProbedMessage> probed(std::uint64_t ticket) noexcept override;
  tutti::Received release(std::uint64_t ticket) noexcept override;
  [[nodiscard]] Result<bool> cancel(std::uint64_t ticket) noexcept override;
  void abort(const Outcome& cause) noexcept override;
  [[nodiscard]] Outcome health() noexcept override;
  [[nodiscard]] Result<Backend*> make_child(std::span<const int> ranks,
                                            std::string name) noexcept override;
  [[nodiscard]] Result<Backend*> make_among(std::span<const int> /*ranks*/,
                                            std::string_view /*tag*/,
                                            std::string /*name*/) noexcept override {
    return no_group_among();
  }
  void set_owner(Backend& owner) noexcept override { set_group(owner); }
  void close(std::chrono::nanoseconds drain) noexcept override;
  [[nodiscard]] Result<std::shared_ptr<std::byte>> allocate(std::size_t bytes) noexcept override {
    return ordinary_memory(bytes);
  }
  [[nodiscard]] std::string location(int rank) const override;

 private:
  /// `world`: a reference; the last one ends it.
  MpiBackend(std::shared_ptr<MpiWorld> world, MpiGroup* group)
      : Operations(static_cast<Backend&>(*this)),
        world_(std::move(world)),
        driver_(world_->driver()),
        group_(group) {}
  /// The error if this thread must not use the group.
  [[nodiscard]] std::optional<Outcome> barred() const;

  std::shared_ptr<MpiWorld> world_;
  Driver& driver_;
  MpiGroup* group_;  ///< owned by the world; left by our destructor
};

/// For the list of backends: on the MPI of this machine.
[[nodiscard]] BackendFactory factory();

}  // namespace tutti::mpi
