#include "store/answer_queue.hpp"

#include <span>
#include <utility>

namespace tutti::store {

void AnswerQueue::push(std::vector<std::byte> bytes) {
  const std::size_t size = bytes.size();
  frames_.push_back(std::move(bytes));
  bytes_ += size;
}

secure::Moved AnswerQueue::flush(secure::Stream& stream) noexcept {
  secure::Moved moved;
  if (frames_.empty() && stream.unsent() > 0) return stream.write({});
  while (!frames_.empty()) {
    const secure::Moved sent =
        stream.write_some(std::span<const std::byte>(frames_.front()).subspan(sent_));
    if (sent.error != 0) return sent;
    if (sent.bytes == 0) break;
    moved.bytes += sent.bytes;
    sent_ += sent.bytes;
    bytes_ -= sent.bytes;
    if (sent_ == frames_.front().size()) {
      frames_.pop_front();
      sent_ = 0;
    }
  }
  return moved;
}

}  // namespace tutti::store
