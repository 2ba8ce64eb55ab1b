#include "engine/p2p_matcher.hpp"

// Short messages (docs/design/shared-memory.md): they have no frame. A send needs no request, nor
// does a blocking recv that nothing else can interfere with.
namespace tutti::engine {

bool P2PMatcher::send_short(const Collective& call) {
  const TensorView& view = call.input;
  const std::uint64_t bytes = view.size_bytes();
  if (bytes > transport::kMaxShort || call.root == group_.rank || !view.contiguous() ||
      call.details != nullptr)
    return false;
  Pair& pair = pairs_[static_cast<std::size_t>(call.root)];
  const int peer = global(call.root);
  const std::uint64_t cost = unexpected_cost(bytes);
  if (!pair.idle() || !channel_.may_send_short(peer, cost)) return false;
  if (!channel_.send_short(
          peer,
          {group_.id, static_cast<std::uint32_t>(call.tag),
           static_cast<std::uint16_t>(pair.out + 1), static_cast<std::uint8_t>(view.dtype()),
           static_cast<std::uint16_t>(bytes)},
          static_cast<const std::byte*>(view.data())))
    return false;
  ++pair.out;
  channel_.message_sent(peer, cost);
  if (shared_.world.recorder != nullptr)
    (void)shared_.world.recorder->called(group_.record_place, kDoneTicket, call,
                                         record::EntryState::done);
  return true;
}

bool P2PMatcher::may_take_short(const Collective& call) const noexcept {
  return running_ == 0 && unexpected_.size() == 0 && call.root >= 0 && call.root != group_.rank &&
         call.tag != any_tag && call.details == nullptr && call.output.contiguous() &&
         call.output.size_bytes() <= transport::kMaxShort &&
         pairs_[static_cast<std::size_t>(call.root)].ahead.left == 0;
}

transport::ShortLook P2PMatcher::take_short(const Collective& call) noexcept {
  Pair& pair = pairs_[static_cast<std::size_t>(call.root)];
  const TensorView& view = call.output;
  const transport::ShortLook look = channel_.take_short(
      global(call.root),
      {group_.id, static_cast<std::uint32_t>(call.tag), static_cast<std::uint16_t>(pair.in + 1),
       static_cast<std::uint8_t>(view.dtype()), static_cast<std::uint16_t>(view.size_bytes())},
      static_cast<std::byte*>(view.data()));
  if (look == transport::ShortLook::taken) ++pair.in;
  return look;
}

void P2PMatcher::on_short(int rank, const transport::ShortHead& head, const std::byte* payload) {
  ArrivedMessage message;
  message.source = rank;
  message.tag = static_cast<int>(head.tag);
  message.dtype = static_cast<DType>(head.dtype);
  message.bytes = head.bytes;
  message.unasked = message.here = message.bytes;
  message.number = ++pairs_[static_cast<std::size_t>(rank)].in;
  arrive(message, payload);
}

}  // namespace tutti::engine
