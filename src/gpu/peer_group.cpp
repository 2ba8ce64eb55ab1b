#include "gpu/peer_group.hpp"

#include <algorithm>
#include <ranges>
#include <utility>

#include "gpu/operation.hpp"

namespace tutti::gpu {

PeerGroup::PeerGroup(GpuSet& set, Backend* host_group, std::string its_name, bool for_messages)
    : gpus(set),
      host(host_group),
      name(std::move(its_name)),
      peers(host->rank(), host->size(), set.direct(), for_messages) {}

void PeerGroup::enter(GpuOperation& op, int lane) {
  op.ranks = this;
  op.lane = lane;
  op.unsubmitted = true;
  order_.push_back(&op);
  ++waiting_;
}

void PeerGroup::all_submitted(GpuOperation& op) noexcept {
  if (!std::exchange(op.unsubmitted, false)) return;
  waiting_.fetch_sub(1, std::memory_order_release);  // pairs with the acquire in `has_waiting`
}

void PeerGroup::remove(GpuOperation& op) noexcept {
  all_submitted(op);
  std::erase(order_, &op);
}

bool PeerGroup::is_next(const GpuOperation& op) const noexcept {
  const auto before = [&](const GpuOperation* one) {
    if (one == &op || one->lane != op.lane) return false;
    // Until all ranks have entered the last rendezvous, some may still read a slot.
    const bool meets = op.path->uses_slots() && one->path->uses_slots() &&
                       one->state == GpuOperation::State::running;
    return one->unsubmitted || meets;
  };
  const auto self = std::ranges::find(order_, &op);
  return std::find_if(order_.begin(), self, before) == self;
}

const GpuOperation* PeerGroup::last_returning() const noexcept {
  const auto last = std::ranges::find_if(std::views::reverse(order_), [](const GpuOperation* one) {
    return one->path->uses_slots() && one->state == GpuOperation::State::returning;
  });
  return last == order_.rend() ? nullptr : *last;
}

std::string PeerGroup::this_rank() const {
  return "rank " + std::to_string(host->rank()) + " on " + host->location(host->rank());
}

Outcome PeerGroup::error_of(const GpuOperation& /*op*/, Outcome outcome) const { return outcome; }

void PeerGroup::leave() noexcept {
  if (host != nullptr) std::exchange(host, nullptr)->drop_reference();
}

void PeerGroup::release() noexcept {
  if (peers.gpu() != nullptr) peers.release(gpus.cuda());
}

}  // namespace tutti::gpu
