#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <tutti/backend/job_identity.hpp>
#include <tutti/error.hpp>

#include "base/log.hpp"
#include "os/address.hpp"
#include "os/fd.hpp"
#include "secure/handshake.hpp"
#include "secure/pending_places.hpp"
#include "secure/stream.hpp"
#include "transport/first_lost.hpp"
#include "transport/tcp/connection.hpp"
#include "transport/transport.hpp"

namespace tutti::transport {

struct TcpOptions {
  JobIdentity identity;
  bool encrypt = false;  ///< TLS on every connection; needs a secret
  os::Address bind;      ///< where to listen (os::listen_tcp); port 0 picks one
  /// The address that the others are told; port 0: that of the listener. Absent: where it listens.
  std::optional<os::Address> told = {};
  /// Address of each rank of the world ("10.0.0.1:4567"); empty where TCP is not used. May be given
  /// later: set_addresses.
  std::vector<std::string> addresses;
  /// How long a peer's host may be silent before the peer is lost (Config::link_timeout), and how
  /// long connecting may fail. If the host has accepted the connection and the process says
  /// nothing (it is stopped), no limit applies here: the deadline of the operation decides.
  std::chrono::milliseconds link_timeout{15'000};
  /// How long a pending connection may take to prove its rank.
  std::chrono::milliseconds handshake_timeout{2'000};
  /// PendingPlaces::Limits::timeout_when_full.
  std::chrono::milliseconds timeout_when_full = secure::PendingPlaces::kTimeoutWhenFull;
  /// Is asked before an unreachable peer is blamed. The peer may have ended because of another
  /// rank, to which we have no connection, or gracefully. Empty: there is nobody to ask.
  FirstLost first_lost = {};
};

/// Frames over one TCP connection per pair of ranks, made on first use by either side.
///
/// Like every Transport it belongs to the holder of the driver lock. Call poll() until it returns
/// false before sleeping on wait_fd(): send() leaves its results for the next poll() to report.
class TcpTransport final : public Transport {
 public:
  static Result<std::unique_ptr<TcpTransport>> listen(TcpOptions options);
  /// Closes at once: to the peers we have died, unless close() was called.
  ~TcpTransport() override;

  /// The address that other ranks connect to.
  [[nodiscard]] std::string address() const;
  Outcome set_addresses(std::vector<std::string> addresses);
  /// Not after the first poll().
  void set_job(std::uint64_t job) noexcept { options_.identity.job = job; }

  [[nodiscard]] const char* name() const noexcept override { return "tcp"; }
  void set_sink(Sink* sink) noexcept override { sink_ = sink; }
  [[nodiscard]] bool can_send(int peer) noexcept override;
  bool send(int peer, const FrameHeader& header, const std::byte* payload,
            std::uint64_t token) noexcept override;
  void keep_payloads(int peer) noexcept override;
  void drop_arriving(int peer) noexcept override;
  bool poll() noexcept override;
  [[nodiscard]] int wait_fd() const noexcept override { return epoll_.get(); }
  [[nodiscard]] bool is_unanswered(int peer) const noexcept override;
  void close(std::uint64_t drain_ns) noexcept override;

  struct Counters {
    std::uint64_t accepted = 0;   ///< connections taken from the listener
    std::uint64_t dropped = 0;    ///< of these, dropped without proof
    std::uint64_t crossings = 0;  ///< simultaneous dialling, seen by the lower rank
    std::uint64_t redials = 0;
    std::uint64_t rests = 0;  ///< times that the listener rested: no descriptor, or no place
  };
  [[nodiscard]] const Counters& counters() const noexcept { return counters_; }
  /// True if there is an open connection with this peer.
  [[nodiscard]] bool connected(int peer) const noexcept;

 private:
  using Clock = std::chrono::steady_clock;
  using TimePoint = Clock::time_point;

  explicit TcpTransport(TcpOptions options) noexcept
      : options_(std::move(options)),
        places_({kSparePending + static_cast<std::size_t>(options_.identity.size),
                 options_.handshake_timeout, options_.timeout_when_full}) {}
  Outcome start();

  struct PendingConnection;

  // tcp_transport.cpp: frames of open connections.
  bool poll_ready();
  bool handle(std::uint64_t tag, std::uint32_t events);
  Connection* connection(int peer) noexcept;
  [[nodiscard]] Outcome reason_of_end(const Connection& from, int error) const;
  bool flush(Connection& to) noexcept;
  void watch_writable(Connection& to, bool on) noexcept;
  void ended(Connection& from, int error) noexcept;
  [[nodiscard]] Outcome silent(const Connection& from, std::string_view more,
                               std::chrono::milliseconds silence) const;
  bool report();
  void lose(Connection& whom, Outcome why) noexcept;
  void note_used(Connection& one) noexcept;
  /// The next report() calls the sink for this peer, or dials it.
  void note_for_report(int peer) noexcept;
  void tick();
  void arm_timer(bool on) noexcept;
  void watch_stall(Connection& to) noexcept;
  [[nodiscard]] bool on_the_way(Connection& to, TimePoint now);
  [[nodiscard]] std::string who(int peer) const;
  [[nodiscard]] std::string lost_connection_to(int peer) const;
  [[nodiscard]] static bool lingers(Connection& with) noexcept;

  // tcp_reading.cpp: frames that arrive.
  bool read(Connection& from) noexcept;
  void note_unread(Connection& from) noexcept;
  bool read_unread() noexcept;
  bool read_and_forget(Connection& from) noexcept;
  void judge(Connection& from, FrameReader::Verdict outcome) noexcept;
  [[nodiscard]] Outcome reason_of(const Connection& from, FrameReader::Verdict outcome) const;

  // tcp_dialling.cpp: connections that we dial, until they are open.
  void dial(Connection& to);
  void dial_again(Connection& to, const Outcome& why);
  void on_dial(Connection& to);
  void await_handshake(Connection& to, TimePoint now);
  void give_up_silent(Connection& to, std::string text);
  void watch_dial(Connection& to) noexcept;
  Outcome take_socket(Connection& to, os::Fd fd);
  void hang_up(Connection& to) noexcept;
  void give_up_dial(Connection& to, const Outcome& why);
  void ask_first_lost(Connection& about);
  [[nodiscard]] bool judge_unreachable(Connection& to);
  void note_that_it_runs(Connection& to, const Outcome& store) const;
  [[nodiscard]] bool matters_who_was_lost(const Connection& to) const noexcept;
  void lose_the_first(const Connection& unreachable, const Outcome& first);
  void open(Connection& with, secure::Stream stream, const os::Address& address);
  void check_deadlines(TimePoint now);
  [[nodiscard]] secure::Party party() const;
  Outcome add_to_epoll(int fd, std::uint32_t events, std::uint64_t tag) noexcept;
  [[nodiscard]] static bool talk(secure::Stream& stream, secure::Handshake& handshake,
                                 secure::Tls::Role role, Outcome& trouble);

  // tcp_pending.cpp: connections that others have dialled.
  void accept_pending();
  void rest_listener() noexcept;
  void listen_again() noexcept;
  void on_pending(std::size_t index);
  void drop_late_pending(TimePoint now);
  void drop_pending(std::size_t index, std::string_view why,
                    base::Level level = base::Level::warning);
  void forget_pending(std::size_t index) noexcept;
  /// Takes the connection out; its place is free then.
  [[nodiscard]] std::unique_ptr<PendingConnection> take_pending(std::size_t index) noexcept;
  [[nodiscard]] secure::Refusal judge_proven(const Connection& with) const noexcept;
  void conclude(std::size_t index);

  struct PendingConnection {
    secure::Stream stream;
    secure::Handshake handshake;
    os::Address address;
    secure::PendingPlaces::Times times;
    std::uint32_t generation = 0;
  };

  /// Places for connections that nobody expects, in addition to one for each rank of the world.
  static constexpr std::size_t kSparePending = 256;
  static constexpr std::size_t kScratch = 64 * 1024;

  TcpOptions options_;
  os::Address told_;  ///< TcpOptions::told with the port of the listener
  Sink* sink_ = nullptr;
  os::Fd epoll_;
  os::Fd timer_;
  os::Fd listener_;
  bool listening_ = false;  ///< the listener is in epoll
  long timer_ns_ = 0;       ///< between two ticks; 0: it rests
  bool closing_ = false;
  Outcome no_memory_;    ///< the reason of a loss if there is no memory for its text
  Outcome left_;         ///< the reason of a loss if the rank has left
  int first_lost_ = -1;  ///< the first rank that we have lost, or TcpOptions::first_lost has named
  std::vector<std::unique_ptr<Connection>> connections_;     ///< by rank; made on first use
  std::vector<std::unique_ptr<PendingConnection>> pending_;  ///< has places that are empty
  std::vector<std::size_t> free_pending_;                    ///< the empty places of pending_
  secure::PendingPlaces places_;
  std::uint32_t next_generation_ = 1;
  std::vector<int> to_report_;  ///< peers with something to tell the sink
  std::vector<int> reporting_;
  std::vector<int> watched_;  ///< peers with data on the way
  std::vector<int> dials_;    ///< peers that we dial, or that have promised to dial us
  std::vector<int> unread_;   ///< peers whose bytes epoll may not report, as TLS has read them
  std::vector<int> rereading_;
  std::vector<std::byte> scratch_;
  Connection* hot_ = nullptr;  ///< the last one that was used
  unsigned hot_polls_ = 0;     ///< in which it was read without asking epoll
  unsigned several_ = 0;       ///< polls for which several connections count as used
  Counters counters_;
};

}  // namespace tutti::transport
