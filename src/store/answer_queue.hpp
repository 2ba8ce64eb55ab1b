#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "secure/stream.hpp"

namespace tutti::store {

/// The answers that are to be sent to one user of a server, in order.
class AnswerQueue {
 public:
  using Bytes = std::shared_ptr<const std::vector<std::byte>>;

  void push(std::vector<std::byte> bytes);
  /// Adds the frame as an answer to another request; its body is not copied.
  void push_shared(const Bytes& frame, std::uint64_t request_id);
  /// Sends as much as the stream takes. `error` is set if it takes nothing any more.
  secure::Moved flush(secure::Stream& stream) noexcept;

  [[nodiscard]] bool empty() const noexcept { return pieces_.empty(); }
  /// Not sent yet.
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  /// The memory that this queue alone holds.
  [[nodiscard]] std::size_t own_bytes() const noexcept { return own_bytes_; }

 private:
  struct Piece {
    Bytes bytes;
    std::size_t begin = 0;  ///< bytes before it are not to be sent, or are sent already
    bool shared = false;
  };
  static std::size_t own_bytes_of(const Piece& piece) noexcept;
  void append(Piece piece);
  void advance(std::size_t bytes) noexcept;

  std::deque<Piece> pieces_;
  std::size_t bytes_ = 0;
  std::size_t own_bytes_ = 0;
};

}  // namespace tutti::store
