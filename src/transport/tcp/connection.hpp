#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
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
  bool in_dials = false;   ///< in the list of those whose dial is looked at now and then
  std::chrono::steady_clock::time_point dial_deadline{};
  bool stood_still = false;  ///< its host has taken what we said, and it has not answered yet
  bool went_on = false;      ///< after it had stood still; told apart from one that hangs up always
  std::chrono::steady_clock::time_point next_dial{};
  Status last_trouble;
  bool refused = false;  ///< nobody listens there
  Question question;     ///< which rank was lost first
  Status unreachable;    ///< it is given up for this, once the question is answered, ...
  std::chrono::steady_clock::time_point verdict_by =
      std::chrono::steady_clock::time_point::max();  ///< ... at the latest then

  // Open.
  bool watching_writable = false;
  bool stalled = false;  ///< the socket was full; wait for epoll
  int write_error = 0;   ///< nothing can be sent any more; what has come is still read
  bool shut = false;     ///< leave is sent and our half is closed
  bool watched = false;  ///< by the stall watch
  bool unread = false;   ///< in the list of those that may have more than epoll knows of
  os::StallWatch stall;

  // To tell the sink.
  bool noted = false;  ///< in the list of those with something to tell
  std::uint64_t reported = 0;
  bool lost = false;  ///< `why` is to be told
  bool told = false;
  Status why;
};

}  // namespace tutti::transport
