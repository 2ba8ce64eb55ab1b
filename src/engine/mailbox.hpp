#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <tutti/backend.hpp>
#include <tutti/collective.hpp>
#include <tutti/error.hpp>

#include "engine/fifo.hpp"
#include "engine/group.hpp"
#include "engine/shelves.hpp"
#include "transport/transport.hpp"

namespace tutti::engine {

class Engine;

/// Largest message that goes to its receiver before that has called recv (decisions A8).
inline constexpr std::uint64_t kUnasked = 64 * 1024;
/// What two processes may have outstanding so, one way, over all groups. More than one message, as
/// the receiver reports what it has taken only now and then.
inline constexpr std::uint64_t kUnaskedPool = 128 * 1024;
inline constexpr std::uint64_t kUnaskedReport = 32 * 1024;
/// Messages that may be announced to a process and wait there for their recv.
inline constexpr std::uint64_t kLetters = 65536;
inline constexpr std::uint64_t kLettersReport = kLetters / 4;

/// What a message that goes unasked counts: what is held costs memory, however small it is.
[[nodiscard]] constexpr std::uint64_t letter_cost(std::uint64_t bytes) noexcept {
  return bytes == 0 ? 0 : bytes < 64 ? 64 : bytes;
}

/// The ticket of an operation that a broken group has refused.
inline constexpr std::uint64_t kRefusedTicket = ~std::uint64_t{0};

/// One send or recv of this rank: a slot, used again with another ticket.
struct Transfer {
  enum class State : std::uint8_t { free, running, done };
  State state = State::free;
  Kind kind = Kind::send;
  bool failed = false;
  bool released = false;  ///< nobody asks for its ticket any more
  bool matched = false;   ///< recv: its message is known; send: the receiver has asked for it
  std::uint64_t ticket = 0;
  int rank = 0;      ///< the other one; recv: kAnySource, until it is matched
  bool any = false;  ///< recv from anybody
  int tag = 0;
  TensorView view;
  std::uint64_t bytes = 0;
  std::uint64_t moved = 0;   ///< handed over, or arrived
  std::uint64_t number = 0;  ///< of the message from its sender to its receiver; 0: not announced
  std::uint64_t theirs = 0;  ///< ticket at the other end, once known
  std::uint64_t stamp = 0;   ///< recv: the order of the calls
  std::uint32_t frames_out = 0;
  std::chrono::nanoseconds timeout{};
  TimePoint started{};
  TimePoint deadline{};  ///< unset until a clock is read for the first time
  TimePoint asked{};     ///< when the deadline had passed and the other end was asked
  std::vector<Callback> callbacks;
};

/// A message that has come, or is announced, before its recv.
struct Arrival {
  int source = 0;
  int tag = 0;
  DType dtype = DType::uint8;
  bool whole = false;  ///< its bytes are here
  std::uint64_t bytes = 0;
  std::uint64_t number = 0;  ///< 0: this place is free
  std::uint64_t theirs = 0;  ///< ticket of its send
  std::uint64_t stamp = 0;   ///< the order of arrival
  std::array<std::byte, 64> few{};
  std::vector<std::byte> data;  ///< where `few` is too small
};

/// Point to point in one group on one rank: what this rank sends and receives, and what has come
/// for which it has not called yet. docs/wire.md tells the rules.
///
/// Threads: under the driver token.
class Mailbox {
 public:
  Mailbox(Engine& engine, Group& group);

  std::uint64_t submit(const Collective& call);
  [[nodiscard]] bool is_done(std::uint64_t ticket) noexcept;
  [[nodiscard]] std::optional<Status> outcome(std::uint64_t ticket) noexcept;
  /// Of one that runs.
  void on_done(std::uint64_t ticket, Callback callback);
  /// recv: the rank that sent, once done; else -1.
  [[nodiscard]] int source(std::uint64_t ticket) noexcept;
  /// Nobody will ask for this ticket again: its slot may be used by another.
  void release(std::uint64_t ticket) noexcept;

  /// Something waits until a transport has room.
  [[nodiscard]] bool wants_to_push() const noexcept { return !pushing_.empty(); }
  bool push();
  /// Deadlines, ranks that have left.
  void tick(TimePoint now);
  [[nodiscard]] TimePoint next_deadline() const noexcept { return next_deadline_; }
  /// The group is broken: everything ends; no memory of callers is touched any more.
  void fail() noexcept;
  /// The first operation that runs, for messages; empty: none.
  [[nodiscard]] std::string running_text();

  // Frames, of ranks of this group. `expects`: is this frame in order? Where its payload belongs,
  // if right into a caller's memory; a letter that went there has no payload.
  [[nodiscard]] bool expects(int rank, const transport::FrameHeader& header,
                             std::span<std::byte>& into);
  void on_letter(int rank, const transport::FrameHeader& header, const std::byte* payload);
  void on_credit(int rank, const transport::FrameHeader& header);
  void on_data(int rank, const transport::FrameHeader& header, const std::byte* payload);
  /// A frame of this send has left the caller's memory.
  void on_sent(std::uint64_t ticket) noexcept;

 private:
  struct Pair {                   ///< with one rank
    std::uint64_t out = 0;        ///< number of the last message to it
    std::uint64_t in = 0;         ///< ... from it
    Fifo<std::uint32_t> waiting;  ///< sends that are not announced
    Fifo<std::uint32_t> streams;  ///< sends that the receiver has asked for
    Fifo<std::uint32_t> grants;   ///< recvs whose sender is to be told
    bool announced_last = false;
    bool listed = false;  ///< in pushing_
    [[nodiscard]] bool idle() const noexcept {
      return waiting.empty() && streams.empty() && grants.empty();
    }
  };

  // mailbox.cpp
  [[nodiscard]] Transfer* find(std::uint64_t ticket) noexcept;
  [[nodiscard]] Transfer& take_slot();
  void finish(Transfer& transfer) noexcept;
  void post_send(Transfer& send);
  void post_recv(Transfer& recv);
  void send_to_self(Transfer& send);
  [[nodiscard]] Transfer* next_for(int source, int tag);
  [[nodiscard]] Transfer* posted_for(int source, int tag);
  [[nodiscard]] std::uint32_t arrival_for(const Transfer& recv);
  [[nodiscard]] bool fits(const Transfer& recv, const Arrival& arrival);
  void match(Transfer& recv, const Arrival& arrival, const std::byte* payload);
  void shelve(const Arrival& arrival, const std::byte* payload);
  [[nodiscard]] static std::uint64_t index_of(std::uint64_t ticket) noexcept;
  // mailbox_frames.cpp
  void list(int rank) noexcept;
  bool push_to(int rank);
  [[nodiscard]] bool announce(int rank);
  void grant(int rank);
  void stream(int rank);
  void transmit(int rank, transport::FrameHeader header, Transfer* send);
  // mailbox_watch.cpp
  [[nodiscard]] std::string text_of(const Transfer& transfer) const;
  [[nodiscard]] bool has_left(int rank) const noexcept;
  void find_given_up();
  [[nodiscard]] bool check_left(const Transfer& transfer);
  void ping(int rank);
  void note_waited(const Transfer& transfer) noexcept;
  void time_out(Transfer& transfer, TimePoint now);

  Engine& engine_;
  Group& group_;
  std::deque<Transfer> transfers_;  ///< stay where they are
  std::vector<std::uint32_t> free_;
  std::vector<Arrival> arrivals_;
  std::vector<std::uint32_t> free_arrivals_;
  Shelves posted_;      ///< recvs, by (source or kAnySource, tag)
  Shelves unexpected_;  ///< arrivals, by (source, tag)
  std::vector<Pair> pairs_;
  std::vector<int> pushing_;
  std::uint64_t stamp_ = 0;
  std::uint64_t running_ = 0;
  std::uint64_t self_bytes_ = 0;  ///< of messages to ourselves that wait for their recv
  TimePoint next_deadline_ = TimePoint::max();
  TimePoint inquired_{};
  std::vector<bool> waited_;  ///< of `tick` only
};

}  // namespace tutti::engine
