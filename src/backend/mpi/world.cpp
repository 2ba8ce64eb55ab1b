#include "backend/mpi/world.hpp"

#include <algorithm>

namespace tutti::mpi {
namespace {

/// Notes of groups that are not made yet; strangers cannot send any, so few are enough.
constexpr std::size_t kMostEarly = 256;
/// What is sent when a world ends has so many passes to leave.
constexpr int kLastPasses = 10000;

}  // namespace

World::World(Driver& driver, Config config, int rank, std::vector<std::string> whereabouts,
             Comm control)
    : driver_(driver),
      config_(std::move(config)),
      rank_(rank),
      whereabouts_(std::move(whereabouts)),
      control_(control),
      notes_(driver.api(), control) {
  driver_.add(*this);
}

World::~World() {
  driver_.remove(*this);
  bool sent = false;
  for (int pass = 0; pass < kLastPasses && !sent; ++pass) sent = notes_.poll();
  notes_.end();
  if (sent) (void)driver_.api().free(control_);
}

Group* World::add(Group::Spec spec) {
  const std::uint64_t id = spec.id;
  Group* const group = (groups_[id] = std::make_unique<Group>(*this, std::move(spec))).get();
  for (std::size_t i = 0; i < early_.size();) {
    if (early_[i].note.group != id) {
      ++i;
      continue;
    }
    group->on_note(early_[i].note, early_[i].from);
    early_.erase(early_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return group;
}

void World::remove(Group& group) { groups_.erase(group.id()); }

void World::progress(bool look) {
  if (look) {
    (void)notes_.poll();
    take_notes();
  }
  for (const auto& [id, group] : groups_) group->progress(look);
}

void World::take_notes() {
  Note note;
  int from = 0;
  while (notes_.receive(note, from)) {
    const auto group = groups_.find(note.group);
    if (group != groups_.end()) {
      group->second->on_note(note, from);
    } else if (note.kind == Note::Kind::asks) {
      Note answer;  // it has begun nothing there
      answer.kind = Note::Kind::answer;
      answer.group = note.group;
      notes_.send(from, answer);
    } else if (note.kind != Note::Kind::answer && early_.size() < kMostEarly) {
      early_.push_back({note, from});
    }
  }
}

bool World::idle() const noexcept {
  return std::all_of(groups_.begin(), groups_.end(),
                     [](const auto& one) { return one.second->idle(); });
}

}  // namespace tutti::mpi
