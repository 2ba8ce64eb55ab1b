#include "backend/mpi/world.hpp"

#include <algorithm>
#include <utility>

namespace tutti::mpi {

MpiWorld::MpiWorld(Driver& driver, Notes& notes, Config config, int rank,
                   std::vector<std::string> locations)
    : driver_(driver),
      notes_(notes),
      config_(std::move(config)),
      rank_(rank),
      locations_(std::move(locations)) {}

MpiWorld::~MpiWorld() {
  for (const auto& group : groups_) notes_.remove(group->id());
}

MpiGroup* MpiWorld::add(MpiGroup::Spec spec) {
  groups_.push_back(std::make_unique<MpiGroup>(*this, std::move(spec)));
  MpiGroup* const group = groups_.back().get();
  notes_.add(group->id(), *group);
  return group;
}

void MpiWorld::progress(bool look) {
  for (std::size_t i = 0; i < groups_.size(); ++i) groups_[i]->progress(look);
  if (!look || keeps_groups_) return;
  std::erase_if(groups_, [this](const std::unique_ptr<MpiGroup>& group) {
    if (!group->over()) return false;
    freed_ = freed_ && group->freed();
    notes_.remove(group->id());
    return true;
  });
}

void MpiWorld::leave_all() {
  keeps_groups_ = true;
  for (const auto& group : groups_) group->leave();
}

bool MpiWorld::all_left(bool broken_too) const noexcept {
  return std::all_of(groups_.begin(), groups_.end(), [broken_too](const auto& one) {
    return one->over() || (!broken_too && one->was_broken());
  });
}

bool MpiWorld::idle() const noexcept {
  return std::all_of(groups_.begin(), groups_.end(), [](const auto& one) { return one->idle(); });
}

}  // namespace tutti::mpi
