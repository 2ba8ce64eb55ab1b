#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include <tutti/error.hpp>

#include "os/address.hpp"
#include "os/growing_pause.hpp"
#include "os/stall_watch.hpp"
#include "secure/handshake.hpp"
#include "secure/stream.hpp"
#include "transport/first_lost.hpp"
#include "transport/tcp/frame_reader.hpp"
#include "transport/tcp/send_queue.hpp"
#include "transport/tcp/stream_socket.hpp"

namespace tutti::transport {

/// All that is known about one peer. Plain state of TcpTransport.
struct Connection {
  enum class Link : unsigned char {
    none,      ///< nobody has dialled
    dialling,  ///< we dial, or will dial again
    promised,  ///< we dialled, too, but the lower rank's connection stays: it comes
    open,
    gone,  ///< lost, left or refused; for good
  };

  explicit Connection(int rank) noexcept : peer(rank), reader(rank) {}

  int peer;
  Link link = Link::none;
  secure::Stream stream;         ///< of the dial or of the open connection
  std::uint32_t generation = 0;  ///< of its socket in epoll
  os::Address address;
  FrameReader reader;
  SendQueue queue;

  // Dialling.
  std::optional<secure::Handshake> handshake;
  bool connecting = false;  ///< TCP itself is not through yet, since ...
  std::chrono::steady_clock::time_point connecting_since{};
  os::GrowingPause pause;  ///< before it is dialled again
  bool in_dials = false;   ///< in TcpTransport::dials_, whose deadlines each tick checks
  std::chrono::steady_clock::time_point dial_deadline{};
  bool stood_still = false;  ///< its host has acknowledged our bytes, its process has not answered
  /// The deadline of the dial was renewed after it stood still. That happens once: a peer that
  /// accepts and hangs up every time must not be dialled for ever.
  bool went_on = false;
  std::chrono::steady_clock::time_point next_dial{};
  Outcome last_trouble;
  bool refused = false;  ///< nobody listens there
  /// Until then a peer that refuses connections may be about to tell the store that it leaves.
  std::chrono::steady_clock::time_point leaves_by{};
  Question question;    ///< which rank was lost first
  Outcome unreachable;  ///< the reason for which it is given up, once the question is answered ...
  std::chrono::steady_clock::time_point verdict_by =
      std::chrono::steady_clock::time_point::max();  ///< ... or at this time without an answer

  // Open.
  bool watching_writable = false;
  bool stalled = false;  ///< the socket was full; wait for epoll
  int write_error = 0;   ///< not 0: nothing can be sent any more, but we still read
  bool shut = false;     ///< leave is sent and our half is closed
  bool watched = false;  ///< by the stall watch
  bool unread = false;   ///< in TcpTransport::unread_
  os::StallWatch stall;

  bool unanswered = false;  ///< it is given up because nothing answers us
  // Reports to the sink.
  bool noted = false;          ///< in TcpTransport::to_report_
  std::uint64_t reported = 0;  ///< the last token for which on_sent was called
  bool lost = false;           ///< on_lost is to be called with `why`
  bool told = false;           ///< on_lost was called
  Outcome why;
};

}  // namespace tutti::transport
