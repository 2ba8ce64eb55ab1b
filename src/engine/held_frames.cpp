#include "engine/held_frames.hpp"

#include <algorithm>

#include "engine/credit_account.hpp"
#include "transport/shm/layout.hpp"

namespace tutti::engine {

using transport::CreditFrame;
using transport::FrameHeader;
using transport::FrameType;
using transport::type_of;

namespace {

// Bound of the frames held of one peer, in bytes of memory with the bookkeeping of each frame: so
// much at any time, and so much more for each operation with messages that runs here. A peer that
// keeps to the rules stays below, whatever the sizes of its frames: eager frames take at most 9
// times what they count, of an operation that we have not begun there are three control frames at
// most (want, credit, token) from each of those that the peer has under way, and of one that runs
// here no more is held than comes without credit for its receives.
constexpr std::size_t kMostHeld = std::size_t{32} << 20;
constexpr std::size_t kMostHeldOfEach = std::size_t{3} << 20;
constexpr std::size_t kMostPerByte = 9;
static_assert(HeldFrames::kBookkeeping + FrameBuffers::size_for(1) <= kMostPerByte * kEagerLeast);
constexpr bool takes_at_most(std::size_t per_byte) {
  for (std::size_t i = 1; i < FrameBuffers::kSizes.size(); ++i) {
    const std::size_t least = FrameBuffers::kSizes[i - 1] + 1;  // that get a buffer of this size
    if (HeldFrames::kBookkeeping + FrameBuffers::kSizes[i] > per_byte * least) return false;
  }
  return true;
}
static_assert(takes_at_most(kMostPerByte));
static_assert(kMostPerByte * kMostEager.peer + std::size_t{3} * transport::shm::kWindow *
                                                   transport::shm::kMaxGroups *
                                                   HeldFrames::kBookkeeping <=
              kMostHeld);
static_assert(kMostPerByte * kMostEager.stream <= kMostHeldOfEach);
// Control frames of one operation come soon after each other.
constexpr std::size_t kLookBack = 64;

}  // namespace

bool HeldFrames::has_room(const FrameHeader& header, int operations) const noexcept {
  const std::size_t most = kMostHeld + static_cast<std::size_t>(operations) * kMostHeldOfEach;
  return memory_ + memory_of(header) <= most;
}

void HeldFrames::push_control(const FrameHeader& header) {
  for (std::size_t back = 1; back <= std::min(frames_.size(), kLookBack); ++back) {
    Frame& held = frames_[frames_.size() - back];
    if (!belongs_to(held.header, header.group, header.seq) || held.header.type != header.type)
      continue;
    if (type_of(header) == FrameType::credit) {  // the greater one includes the other
      CreditFrame credit = decode<CreditFrame>(held.header);
      credit.end = std::max(credit.end, decode<CreditFrame>(header).end);
      held.header = encode(credit);
    }
    return;
  }
  push(header, {});
}

HeldFrames::Iterator HeldFrames::find(FrameType type, std::uint64_t group,
                                      std::uint64_t seq) noexcept {
  return std::find_if(begin(), end(), [&](const Frame& one) {
    return belongs_to(one.header, group, seq) && type_of(one.header) == type;
  });
}

std::optional<FrameHeader> HeldFrames::take(FrameType type, std::uint64_t group,
                                            std::uint64_t seq) noexcept {
  const Iterator found = find(type, group, seq);
  if (found == end()) return std::nullopt;
  const FrameHeader header = found->header;
  erase(found);
  return header;
}

}  // namespace tutti::engine
