#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <tutti/backend/backend.hpp>
#include <tutti/backend/collective.hpp>
#include <tutti/error.hpp>

#include "call/gpu_calls.hpp"
#include "engine/credit_account.hpp"
#include "engine/fifo.hpp"
#include "engine/group.hpp"
#include "engine/match_queues.hpp"
#include "engine/message_channel.hpp"
#include "engine/p2p_shared.hpp"
#include "transport/frames.hpp"

namespace tutti::engine {

/// One send, recv or probe of this rank: a slot, used again with another ticket.
struct P2PRequest {
  enum class State : std::uint8_t { free, running, done };
  State state = State::free;
  Kind kind = Kind::send;
  bool failed = false;
  bool released = false;  ///< nobody asks for its ticket any more
  bool matched = false;  ///< recv, probe: its message is known; send: the receiver has asked for it
  bool lands = false;    ///< recv: the bytes of its message come, before it is matched
  std::uint64_t ticket = 0;
  int rank = 0;            ///< the other one; recv, probe: any_source, until it is matched
  bool any = false;        ///< recv or probe from anybody
  int tag = 0;             ///< recv, probe: any_tag, until it is matched
  bool every_tag = false;  ///< recv or probe with any_tag
  TensorView view;         ///< probe: dtype and count of its message, without memory
  call::GpuMessage* gpu =
      nullptr;  ///< its tensor is on a GPU; `view` has no memory until it is given
  std::uint64_t bytes = 0;
  std::uint64_t moved = 0;    ///< handed over, or arrived
  std::uint64_t unasked = 0;  ///< of its message: these bytes are sent before the CTS
  std::uint64_t number = 0;   ///< of the message from its sender to its receiver; 0: not announced
  std::uint64_t theirs = 0;   ///< ticket at the other end, once known
  std::uint64_t stamp = 0;    ///< recv, probe: the order of the calls
  std::uint32_t frames_out = 0;
  std::chrono::nanoseconds timeout{};
  TimePoint started{};
  TimePoint deadline{};      ///< unset until a clock is read for the first time
  std::uint64_t record = 0;  ///< number in the flight recorder
  Pace pace;
  TimePoint asked_ahead{};  ///< when the other end was asked, before the deadline, what it is doing
  TimePoint asked{};        ///< when the deadline had passed and the other end was pinged
  std::uint64_t moved_before = 0;  ///< `moved` at that time
  bool spared = false;  ///< the deadline was extended once, so that the other end can time out
                        ///< first and name a third rank
  std::vector<Callback> callbacks;
  std::vector<std::byte> early;  ///< recv: what has come before its caller has given memory
};

/// A message that has come, or was announced by an RTS.
struct ArrivedMessage {
  int source = 0;
  int tag = 0;
  DType dtype = DType::uint8;
  bool on_gpu = false;  ///< its bytes are on a GPU of its sender
  std::uint64_t bytes = 0;
  std::uint64_t unasked = 0;  ///< of these, those that come without a CTS
  std::uint64_t here = 0;     ///< of those, the ones that have come
  std::uint64_t number = 0;
  std::uint64_t theirs = 0;  ///< ticket of its send
};

/// One that came before its recv; `number` is 0 where the place is free.
struct UnexpectedMessage : ArrivedMessage {
  std::uint64_t stamp = 0;  ///< the order in which messages came
  std::array<std::byte, 64> few{};
  std::vector<std::byte> data;  ///< its bytes, if `few` is too small
};

/// Point to point in one group on one rank: sends and recvs of this rank, and messages that have
/// come before their recv. docs/design/wire.md has the rules.
///
/// Threads: under the driver lock.
class P2PMatcher final : public FrameOwner {
 public:
  P2PMatcher(P2PShared& shared, Group& group);

  /// `record`: its number in the flight recorder, if it has one already.
  std::uint64_t submit(const Collective& call, std::optional<std::uint64_t> record = std::nullopt);
  /// Sends a message without a frame, and without a request of its own. False: it needs them.
  [[nodiscard]] bool send_short(const Collective& call);
  /// True if no other message can go to this recv than the next one of its sender, and if that may
  /// be a short one.
  [[nodiscard]] bool may_take_short(const Collective& call) const noexcept;
  /// Only after may_take_short, until something else happens: receives the next message of the
  /// sender without a request, if it is a short one that fits.
  [[nodiscard]] transport::ShortLook take_short(const Collective& call) noexcept;
  [[nodiscard]] bool is_done(std::uint64_t ticket) const noexcept {
    const P2PRequest* const request = find(ticket);
    return request == nullptr || request->state == P2PRequest::State::done;
  }
  /// False: if it is done, it has succeeded. True: see `outcome`.
  [[nodiscard]] bool may_have_failed(std::uint64_t ticket) const noexcept {
    const P2PRequest* const request = find(ticket);
    return request == nullptr || request->failed;
  }
  [[nodiscard]] std::optional<Outcome> outcome(std::uint64_t ticket) const noexcept;
  /// The rank of the world from which the message of a recv or probe that runs comes; -1: it is not
  /// known yet, or it is no such operation.
  [[nodiscard]] int sender_of(std::uint64_t ticket) const noexcept {
    const P2PRequest* const request = find(ticket);
    const bool receives = request != nullptr && request->state == P2PRequest::State::running &&
                          request->kind != Kind::send && request->gpu == nullptr;
    return receives && request->rank >= 0 ? global(request->rank) : -1;
  }
  /// Notes a callback for a request that runs.
  void on_done(std::uint64_t ticket, Callback callback);
  /// recv: which message it was, once done.
  [[nodiscard]] Received received(std::uint64_t ticket) const noexcept;
  /// A probe that is done: its message; absent: it has found none.
  [[nodiscard]] std::optional<ProbedMessage> probed(std::uint64_t ticket) const noexcept;
  /// True for a probe whose message no recv has taken.
  [[nodiscard]] bool holds_message(std::uint64_t ticket) const noexcept;
  /// Gives the ticket up: its slot may be used by another. The message of a probe that no recv has
  /// taken is put back. Returns what `received` returns.
  Received release(std::uint64_t ticket);

  /// Cancels a recv that no message has matched. False: it is too late, or it is no such recv.
  bool cancel(std::uint64_t ticket);
  /// The request for a log line.
  [[nodiscard]] std::string describe(std::uint64_t ticket) const;

  /// Frames wait until a transport has room, or a caller may have given what a request waits for.
  [[nodiscard]] bool wants_to_push() const noexcept {
    return !pushing_.empty() || !waiting_for_caller_.empty();
  }
  bool push();
  /// Checks deadlines, and whether ranks have left.
  void tick(TimePoint now);
  [[nodiscard]] TimePoint next_deadline() const noexcept { return next_deadline_; }
  /// The group is broken: everything ends; no memory of callers is touched any more.
  void fail() noexcept;
  /// Describes the first request that runs, for error texts; empty: none runs.
  [[nodiscard]] std::string running_text();

  // Frames from ranks of this group.
  /// True if this frame is allowed now. `into`: set to the caller's buffer if the payload is to go
  /// directly there; then on_envelope gets nullptr.
  [[nodiscard]] bool expects(int rank, const transport::FrameHeader& header,
                             std::span<std::byte>& into);
  /// `here`: bytes of the message that have come with it, or after it while the group was unknown.
  void on_envelope(int rank, const transport::FrameHeader& header, const std::byte* payload,
                   std::uint64_t here);
  /// True if the next message of this rank has such a number.
  [[nodiscard]] bool is_next(int rank, std::uint16_t number) const noexcept {
    return number == static_cast<std::uint16_t>(pairs_[static_cast<std::size_t>(rank)].in + 1);
  }
  /// Only after is_next.
  void on_short(int rank, const transport::ShortHead& head, const std::byte* payload);
  void on_cts(int rank, const transport::CtsFrame& cts);
  void on_data(int rank, const transport::P2PDataFrame& data, const std::byte* payload);
  /// A frame of this send has left the caller's memory.
  void on_frame_sent(std::uint64_t ticket) noexcept override;
  /// Nothing to do: the send ends when the loss of its receiver breaks the group.
  void on_frame_lost(std::uint64_t /*ticket*/) noexcept override {}

 private:
  static constexpr std::uint32_t kNoSlot = ~std::uint32_t{0};
  struct Ahead {                   ///< bytes that come ahead of a CTS
    std::uint64_t left = 0;        ///< are still to come
    std::uint32_t recv = kNoSlot;  ///< which has the message; else it is at `place`
    std::uint32_t place = 0;
    bool lands = false;  ///< the piece that arrives goes directly to the recv's buffer
  };
  struct Pair {                         ///< the messages to and from one rank
    std::uint64_t out = 0;              ///< number of the last message to it
    std::uint64_t in = 0;               ///< number of the last message from it
    Fifo<std::uint32_t> waiting;        ///< sends that are neither sent nor announced
    Fifo<std::uint32_t> streams;        ///< sends whose CTS has come
    Fifo<std::uint32_t> grants;         ///< recvs whose CTS is to be sent
    Ahead ahead;                        ///< of the last message from it
    std::uint32_t ahead_out = kNoSlot;  ///< a send of which bytes are still to be sent ahead
    std::uint64_t gpu_out = 0;          ///< number of the last message from GPU to GPU to it
    std::uint64_t gpu_in = 0;           ///< and from it
    bool announced_last = false;        ///< push_to: the last turn was for `waiting`
    bool listed = false;                ///< in pushing_
    [[nodiscard]] bool idle() const noexcept {
      return waiting.empty() && streams.empty() && grants.empty() && ahead_out == kNoSlot;
    }
  };

  // p2p_matcher.cpp
  static constexpr int kHeld = any_source - 1;
  // A ticket: bit 63 | generation of the slot | index in requests_ (kSlotBits).
  static constexpr int kSlotBits = 24;
  static constexpr std::uint64_t kRequests = std::uint64_t{1} << kSlotBits;
  static_assert(kDoneTicket ==
                (std::uint64_t{1} << 63 | (kRequests - 1)));  // no slot has that index
  [[nodiscard]] static std::uint64_t index_of(std::uint64_t ticket) noexcept {
    return ticket & (kRequests - 1);
  }
  /// nullptr: the ticket was given back, or never given out.
  [[nodiscard]] P2PRequest* find(std::uint64_t ticket) const noexcept {
    const std::uint64_t index = index_of(ticket);
    if (index >= requests_.size()) return nullptr;
    P2PRequest& request = *requests_[index];
    return request.ticket == ticket && request.state != P2PRequest::State::free ? &request
                                                                                : nullptr;
  }
  [[nodiscard]] P2PRequest& take_slot();
  void finish(P2PRequest& request) noexcept;
  void free_slot(P2PRequest& request) noexcept;
  void post_send(P2PRequest& send);
  void post_recv(P2PRequest& recv, std::uint64_t probed);
  void post_probe(P2PRequest& probe);
  void send_to_self(P2PRequest& send);
  void post(P2PRequest& taker);
  [[nodiscard]] P2PRequest* next_for(int source, int tag);
  [[nodiscard]] P2PRequest* posted_for(int source, int tag);
  [[nodiscard]] std::uint32_t unexpected_for(const P2PRequest& recv);
  void take(P2PRequest& recv, std::uint32_t place);
  void free_bytes(UnexpectedMessage& message) noexcept;
  // The key in unexpected_ for the message that a probe holds. The message keeps a node of
  // unexpected_ there, so putting it back needs no memory.
  [[nodiscard]] static MatchQueues::Key held_key(const P2PRequest& probe) noexcept {
    return {kHeld, static_cast<int>(index_of(probe.ticket))};
  }
  void hold(P2PRequest& probe, std::uint32_t place);
  [[nodiscard]] std::uint32_t take_held(std::uint64_t probe);
  void put_back(const P2PRequest& probe);
  [[nodiscard]] bool fits(const P2PRequest& recv, const ArrivedMessage& message);
  void match(P2PRequest& recv, const ArrivedMessage& message, const std::byte* payload);
  void move_to_self(P2PRequest& recv);
  void arrive(const ArrivedMessage& message, const std::byte* payload);
  std::uint32_t keep_unexpected(const ArrivedMessage& message, const std::byte* payload,
                                P2PRequest* probe);
  // p2p_frames.cpp
  void list(int rank) noexcept;
  bool push_to(int rank);
  [[nodiscard]] bool may_push(int rank);
  [[nodiscard]] bool announce(P2PRequest& send);
  void grant(int rank);
  void stream(int rank);
  void request_from_caller(P2PRequest& request, call::GpuMessage::State for_what);
  [[nodiscard]] static bool waits_for_caller(const P2PRequest& request) noexcept;
  bool resume_given();
  void has_matched_gpus(P2PRequest& request, std::uint64_t number);
  [[nodiscard]] MessageChannel::OutFrame prepare(const P2PRequest& send, std::uint64_t bytes);
  void transmit(P2PRequest& send, const transport::FrameHeader& header,
                MessageChannel::OutFrame&& frame);
  [[nodiscard]] int global(int rank) const noexcept { return group_.member(rank).global; }
  // p2p_ahead.cpp
  void send_ahead(int rank);
  [[nodiscard]] bool expects_ahead(int rank, const transport::P2PDataFrame& data) const noexcept;
  void on_ahead(int rank, const transport::P2PDataFrame& data, const std::byte* payload);
  static void place_piece(const P2PRequest& recv, std::uint64_t offset, const std::byte* from,
                          std::uint64_t bytes) noexcept;
  // p2p_deadlines.cpp
  [[nodiscard]] std::string text_of(const P2PRequest& request) const;
  [[nodiscard]] bool has_left(int rank) const noexcept;
  void find_given_up();
  [[nodiscard]] bool check_left(const P2PRequest& request);
  void ping(int rank);
  void note_waited(const P2PRequest& request) noexcept;
  void ask_ahead(P2PRequest& request, TimePoint now);
  void time_out(P2PRequest& request, TimePoint now);
  [[nodiscard]] std::string missing_text(const P2PRequest& request, bool anybody,
                                         const std::string& doing) const;
  void look_for_stall(const P2PRequest& request, std::size_t behind, TimePoint now);

  P2PShared& shared_;
  MessageChannel& channel_;
  Group& group_;
  std::vector<std::unique_ptr<P2PRequest>> requests_;
  std::vector<std::uint32_t> free_;
  std::vector<UnexpectedMessage> unexpected_messages_;
  std::vector<std::uint32_t> free_unexpected_;
  MatchQueues posted_;          ///< recvs and probes, by (source or any_source, tag or any_tag)
  std::size_t every_tags_ = 0;  ///< those of them with any_tag
  std::size_t anys_ = 0;        ///< those of them with any_source
  MatchQueues unexpected_;      ///< messages, by (source, tag), or held_key
  std::vector<Pair> pairs_;
  std::vector<int> pushing_;  ///< ranks whose Pair is not idle
  std::vector<std::uint32_t>
      waiting_for_caller_;  ///< matched requests that wait for their callers (GpuMessage)
  std::uint64_t stamp_ = 0;
  std::uint64_t running_ = 0;
  std::uint64_t held_ = 0;        ///< messages that belong to probes
  std::uint64_t self_bytes_ = 0;  ///< of messages to ourselves that wait for their recv
  TimePoint next_deadline_ = TimePoint::max();
  TimePoint pinged_blocking_{};
  StallTimer stall_;               ///< of the first send or recv that runs
  std::uint64_t stall_moved_ = 0;  ///< bytes of it, when the other rank was asked for `stall_`
  std::vector<bool> waited_;       ///< used by `tick` only: ranks that requests wait for
};

}  // namespace tutti::engine
