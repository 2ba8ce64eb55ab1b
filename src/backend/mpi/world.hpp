#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <tutti/config.hpp>

#include "backend/mpi/driver.hpp"
#include "backend/mpi/group.hpp"
#include "backend/mpi/notes.hpp"

namespace tutti::mpi {

/// What the groups of one world on this rank share. Ends with the last of them.
///
/// Threads: every method under the lock of the driver, but for the constant ones.
class World {
 public:
  World(Driver& driver, Config config, int rank, std::vector<std::string> whereabouts,
        Comm control);
  World(const World&) = delete;
  World& operator=(const World&) = delete;
  ~World();

  [[nodiscard]] Driver& driver() const noexcept { return driver_; }
  [[nodiscard]] const Config& config() const noexcept { return config_; }
  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int size() const noexcept { return static_cast<int>(whereabouts_.size()); }
  /// "node-7, pid 123"; of a rank of the world.
  [[nodiscard]] const std::string& whereabouts(int rank) const {
    return whereabouts_[static_cast<std::size_t>(rank)];
  }

  [[nodiscard]] Group* add(Group::Spec spec);
  /// The group has left.
  void remove(Group& group);
  void send(int to, const Note& note) noexcept { notes_.send(to, note); }
  /// One pass over everything. `look`: also at the clock, and for notes.
  void progress(bool look);
  /// Nothing of it runs.
  [[nodiscard]] bool idle() const noexcept;

 private:
  struct Early {
    Note note;
    int from = 0;
  };
  void take_notes();

  Driver& driver_;
  const Config config_;
  const int rank_;
  const std::vector<std::string> whereabouts_;
  Comm control_;
  Notes notes_;
  std::map<std::uint64_t, std::unique_ptr<Group>> groups_;
  std::vector<Early> early_;  ///< of groups that this rank has not made yet
};

}  // namespace tutti::mpi
