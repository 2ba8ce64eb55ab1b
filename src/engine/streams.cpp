#include "engine/streams.hpp"

namespace tutti::engine {

void Stream::clear() noexcept {
  sends.clear();
  send_at = 0;
  sent = 0;
  credit = 0;
  wanted = false;
  receives.clear();
  receive_at = 0;
  received = 0;
  received_before = 0;
  kept = 0;
  heard = false;
  compared = false;
  granted = 0;
}

const Stream::Post* Stream::post_for(std::uint64_t offset, std::uint64_t bytes) const noexcept {
  if (bytes == 0) return !receives.empty() && receive_end() == 0 ? &receives.front() : nullptr;
  for (std::size_t i = receive_at; i < receives.size(); ++i) {
    const Post& post = receives[i];
    if (offset >= post.begin && offset < post.end)
      return offset + bytes <= post.end ? &post : nullptr;
  }
  return nullptr;
}

MovedBytes StreamState::moved() const noexcept {
  MovedBytes moved;
  for (const Stream& stream : streams_) {
    moved.sent += stream.sent;
    moved.received += stream.received;
  }
  return moved;
}

bool StreamState::all_sent() const noexcept {
  return frames_out_ == 0 && std::all_of(streams_.begin(), streams_.end(),
                                         [](const Stream& stream) { return stream.all_sent(); });
}

void StreamState::on_frame_sent(std::uint64_t id) noexcept {
  if (id == call_.seq && frames_out_ > 0) --frames_out_;
}

}  // namespace tutti::engine
