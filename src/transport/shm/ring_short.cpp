#include "base/format.hpp"
#include "transport/shm/doorbell.hpp"
#include "transport/shm/ring_errors.hpp"
#include "transport/shm/ring_transport.hpp"
#include "transport/shm/words.hpp"

// The short messages of RingTransport.
namespace tutti::transport::shm {

bool RingTransport::send_short(int peer, const ShortHead& head, const std::byte* payload) noexcept {
  Peer* const to = peer_at(peer);
  if (to == nullptr || to->gone || closing_) return false;
  if (!to->out_shorts.send(head, payload, to->written, options_.populate)) return false;
  fence_if_needed(options_.publish_fence);
  wake_if_parked(*to->region);
  return true;
}

ShortLook RingTransport::take_short(int peer, const ShortHead& head, std::byte* into) noexcept {
  Peer* const from = peer_at(peer);
  if (from == nullptr || from->gone || from->inside || closing_) return ShortLook::other;
  for (int i = 0; i < kLooks; ++i) {
    const std::uint64_t word = written_by(*from->theirs);
    if (const ShortMessage* const line = from->in_shorts.next(from->taken); line != nullptr) {
      if (!(head_of(*line) == head)) return ShortLook::other;
      from->in_shorts.take(head.bytes, into);
      return ShortLook::taken;
    }
    if (word != from->taken) return ShortLook::other;
  }
  return ShortLook::nothing;
}

/// Takes the short messages that come before the next frame.
void RingTransport::take_shorts(Peer& from) noexcept {
  for (std::size_t i = 0; i < kShortLines; ++i) {
    const ShortMessage* const line = from.in_shorts.next(from.taken);
    if (line == nullptr) return;
    const ShortHead head = head_of(*line);  // a copy, as in take_header
    if (head.bytes > kMaxShort) return break_rules(from, "sent a short message that is too long");
    ShortData data;
    from.in_shorts.take(head.bytes, data.data());  // before the sink, which may poll
    if (!sink_->on_short(from.rank, head, data.data())) {
      return lose(from, status_of(Errc::refused, [&] {
                    return base::format(
                        "rank {} sent a message that fits nothing, or one too many (group {:016x}, "
                        "tag {}): it is not listened to any more",
                        from.rank, head.group, head.tag);
                  }));
    }
  }
}

}  // namespace tutti::transport::shm
