#include "secure/pending_places.hpp"

#include <algorithm>

#include "os/descriptors.hpp"

namespace tutti::secure {

void PendingPlaces::Times::look(const Handshake& handshake, TimePoint now) noexcept {
  if (!replied_ && handshake.peer() >= 0) {
    replied_ = true;
    since_ = now;
  }
  if (handshake.state() == Handshake::State::proven || handshake.wants_encryption()) proven_ = true;
}

PendingPlaces::Room PendingPlaces::room() noexcept {
  if (count_ >= limits_.most) return Room::no_place;
  no_descriptor_ = count_ > 0 && os::descriptors_run_out(kSpareDescriptors);
  return no_descriptor_ ? Room::no_descriptor : Room::free;
}

PendingPlaces::TimePoint PendingPlaces::deadline(const Times& times) const noexcept {
  const TimePoint last = times.accepted_ + limits_.timeout;
  if (!full() || times.proven_) return last;
  return std::min(last, times.since_ + limits_.timeout_when_full);
}

}  // namespace tutti::secure
