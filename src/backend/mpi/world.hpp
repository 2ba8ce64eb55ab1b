#pragma once

#include <memory>
#include <string>
#include <vector>

#include <tutti/config.hpp>

#include "backend/mpi/driver.hpp"
#include "backend/mpi/group.hpp"
#include "backend/mpi/notes.hpp"

namespace tutti::mpi {

/// The groups of one world on this rank, and what they share. The driver owns it. It outlives its
/// last handle until the other ranks have left its groups, too: then their communicators are freed.
///
/// Threads: every method under the lock of the driver, but for the constant ones.
class MpiWorld {
 public:
  MpiWorld(Driver& driver, Notes& notes, Config config, int rank,
           std::vector<std::string> locations);
  MpiWorld(const MpiWorld&) = delete;
  MpiWorld& operator=(const MpiWorld&) = delete;
  ~MpiWorld();

  [[nodiscard]] Driver& driver() const noexcept { return driver_; }
  [[nodiscard]] const Config& config() const noexcept { return config_; }
  [[nodiscard]] int rank() const noexcept { return rank_; }
  /// "node-7, pid 123"; of a rank of the world.
  [[nodiscard]] const std::string& location(int rank) const {
    return locations_[static_cast<std::size_t>(rank)];
  }

  [[nodiscard]] MpiGroup* add(MpiGroup::Spec spec);
  void send(int to, const Note& note) noexcept { notes_.send(to, note); }
  /// One pass over all groups. `look`: also at the clock.
  void progress(bool look);
  /// The process ends: leaves all groups. They stay, since handles and threads may hold them.
  void leave_all();
  /// Whether the other ranks have left its groups, too: `broken_too`, or only those that are whole.
  [[nodiscard]] bool all_left(bool broken_too) const noexcept;
  /// Nothing of it runs.
  [[nodiscard]] bool idle() const noexcept;
  /// Its last handle is gone. It may be deleted when it is `over`.
  void end() noexcept { ended_ = true; }
  [[nodiscard]] bool over() const noexcept { return ended_ && groups_.empty(); }
  [[nodiscard]] Notes& notes() const noexcept { return notes_; }
  /// All communicators of its groups have been freed: no rank sends a note of it any more.
  [[nodiscard]] bool freed() const noexcept { return freed_; }

 private:
  Driver& driver_;
  Notes& notes_;
  const Config config_;
  const int rank_;
  const std::vector<std::string> locations_;
  std::vector<std::unique_ptr<MpiGroup>> groups_;
  bool ended_ = false;
  bool keeps_groups_ = false;
  bool freed_ = true;
};

}  // namespace tutti::mpi
