#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "call/call_code.hpp"
#include "engine/elements.hpp"
#include "engine/frame_owner.hpp"
#include "engine/pace.hpp"

namespace tutti::engine {

/// The bytes that one operation exchanges with one peer by messages, in both directions. Offsets
/// count the bytes of this pair in this operation, so both sides know them without a message.
struct Stream {
  struct Post {
    std::byte* data = nullptr;  ///< nullptr: the elements are strided, and use a bounce buffer
    Elements elements;          ///< the elements, if `data` is nullptr
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
  };
  int peer = -1;  ///< rank of the world
  std::vector<Post> sends;
  std::size_t send_at = 0;   ///< first post that is not completely handed over
  std::uint64_t sent = 0;    ///< bytes handed over to the transport
  std::uint64_t credit = 0;  ///< the peer takes bytes up to here
  bool wanted = false;       ///< we asked for credit
  std::vector<Post> receives;
  std::size_t receive_at = 0;         ///< first post that is not complete
  std::uint64_t received = 0;         ///< bytes that have arrived in place, in order
  std::uint64_t received_before = 0;  ///< `received` at the last note_received
  std::uint64_t kept = 0;     ///< end of the bytes that are held until their receive is posted
  bool heard = false;         ///< a frame has been used, perhaps an empty one (BoundPlan::splits)
  bool compared = false;      ///< the call in a frame of this peer was compared with ours
  std::uint64_t granted = 0;  ///< credit that we gave

  [[nodiscard]] std::uint64_t send_end() const noexcept {
    return sends.empty() ? 0 : sends.back().end;
  }
  [[nodiscard]] std::uint64_t receive_end() const noexcept {
    return receives.empty() ? 0 : receives.back().end;
  }
  [[nodiscard]] bool all_sent() const noexcept { return send_at == sends.size(); }
  /// The peer has sent credit up to `end`.
  void take_credit(std::uint64_t end) noexcept {
    credit = std::max(credit, end);
    wanted = false;
  }
  /// All posted receives but the last `missing` are complete.
  [[nodiscard]] bool has_received(std::size_t missing) const noexcept {
    const std::size_t posts = receives.size();
    return posts <= missing || received >= receives[posts - 1 - missing].end;
  }
  /// The post for the bytes of a frame; nullptr: none. The bytes of a frame belong to one post. An
  /// empty frame stands for a block without elements.
  [[nodiscard]] const Post* post_for(std::uint64_t offset, std::uint64_t bytes) const noexcept;
  void clear() noexcept;
};

/// The fields of an operation that its frames carry.
struct StreamCall {
  std::uint64_t group = 0;
  std::uint64_t seq = 0;
  std::uint64_t fingerprint = 0;
  call::CallCode code{};
  std::size_t element = 1;  ///< bytes; no frame ends within one
  bool splits = false;      ///< each pair of ranks has its own number of elements
};

/// The part of an operation that the MessageChannel has: a stream for each rank of the group.
class StreamState final : public FrameOwner {
 public:
  [[nodiscard]] bool empty() const noexcept { return streams_.empty(); }
  [[nodiscard]] int size() const noexcept { return static_cast<int>(streams_.size()); }
  [[nodiscard]] Stream& operator[](int rank) noexcept {
    return streams_[static_cast<std::size_t>(rank)];
  }
  [[nodiscard]] const Stream& operator[](int rank) const noexcept {
    return streams_[static_cast<std::size_t>(rank)];
  }
  [[nodiscard]] auto begin() noexcept { return streams_.begin(); }
  [[nodiscard]] auto end() noexcept { return streams_.end(); }
  [[nodiscard]] auto begin() const noexcept { return streams_.begin(); }
  [[nodiscard]] auto end() const noexcept { return streams_.end(); }

  /// Begins an operation among `size` ranks; `peer_of(rank)` is a rank of the world. Keeps memory
  /// of earlier operations.
  template <class PeerOf>
  void open(const StreamCall& call, int size, PeerOf peer_of) {
    streams_.resize(static_cast<std::size_t>(size));
    for (int rank = 0; rank < size; ++rank) {
      (*this)[rank].clear();
      (*this)[rank].peer = peer_of(rank);
    }
    call_ = call;
    frames_out_ = 0;
    open_ = true;
  }
  /// The operation has ended: no frame concerns it any more.
  void close() noexcept { open_ = false; }
  [[nodiscard]] bool is_open() const noexcept { return open_; }
  [[nodiscard]] const StreamCall& call() const noexcept { return call_; }

  /// Call it when ranks are asked something: bytes that come later show that their sender runs.
  void note_received() noexcept {
    for (Stream& stream : streams_) stream.received_before = stream.received;
  }
  /// True if bytes of that rank have come since note_received.
  [[nodiscard]] bool received_since(int rank) const noexcept {
    return open_ && rank < size() && (*this)[rank].received > (*this)[rank].received_before;
  }
  /// The bytes of all streams, without the rate.
  [[nodiscard]] MovedBytes moved() const noexcept;
  /// Everything is handed over, and nothing is read from the caller's memory any more.
  [[nodiscard]] bool all_sent() const noexcept;
  /// Frames that the transport still reads from our memory.
  [[nodiscard]] std::uint32_t frames_out() const noexcept { return frames_out_; }
  void count_frame() noexcept { ++frames_out_; }
  void forget_frames() noexcept { frames_out_ = 0; }
  void on_frame_sent(std::uint64_t id) noexcept override;
  void on_frame_lost(std::uint64_t id) noexcept override { on_frame_sent(id); }

  /// Frames are held and no credit is given, although receives are posted, until a frame of each
  /// rank was compared (Interpreter::release_deferred).
  bool deferred = false;

 private:
  std::vector<Stream> streams_;  ///< by rank of the group; empty where it never had messages
  StreamCall call_;
  std::uint32_t frames_out_ = 0;
  bool open_ = false;
};

}  // namespace tutti::engine
