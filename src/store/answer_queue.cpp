#include "store/answer_queue.hpp"

#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "store/wire.hpp"

namespace tutti::store {
namespace {

constexpr std::size_t kPiecesAtOnce = 16;
// The bytes that a piece counts in addition to its content: its place in the queue, and the object
// that its owners share.
constexpr std::size_t kPieceCost = 128;

}  // namespace

void AnswerQueue::append(Piece piece) {
  const std::size_t unsent = piece.bytes->size() - piece.begin;
  const std::size_t own = own_bytes_of(piece);
  pieces_.push_back(std::move(piece));
  bytes_ += unsent;
  own_bytes_ += own;
}

std::size_t AnswerQueue::own_bytes_of(const Piece& piece) noexcept {
  return kPieceCost + (piece.shared ? 0 : piece.bytes->capacity());
}

void AnswerQueue::push(std::vector<std::byte> bytes) {
  append({std::make_shared<const std::vector<std::byte>>(std::move(bytes))});
}

void AnswerQueue::push_shared(const Bytes& frame, std::uint64_t request_id) {
  push(header_for(*frame, request_id));
  append({frame, kHeaderBytes, true});
}

secure::Moved AnswerQueue::flush(secure::Stream& stream) noexcept {
  secure::Moved moved;
  if (pieces_.empty() && stream.unsent() > 0) return stream.write({});
  while (!pieces_.empty()) {
    std::array<iovec, kPiecesAtOnce> vectors{};
    const std::size_t count = std::min(pieces_.size(), vectors.size());
    for (std::size_t i = 0; i < count; ++i) {
      const auto left = std::span(*pieces_[i].bytes).subspan(pieces_[i].begin);
      vectors[i] = {const_cast<std::byte*>(left.data()), left.size()};
    }
    const secure::Moved sent = stream.write(std::span(vectors).first(count));
    if (sent.error != 0) return sent;
    if (sent.bytes == 0) break;
    moved.bytes += sent.bytes;
    advance(sent.bytes);
  }
  return moved;
}

void AnswerQueue::advance(std::size_t bytes) noexcept {
  bytes_ -= bytes;
  while (!pieces_.empty()) {
    Piece& first = pieces_.front();
    const std::size_t left = first.bytes->size() - first.begin;
    if (bytes < left) {
      first.begin += bytes;
      return;
    }
    bytes -= left;
    own_bytes_ -= own_bytes_of(first);
    pieces_.pop_front();
  }
}

}  // namespace tutti::store
