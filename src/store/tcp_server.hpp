#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include <tutti/backend/job_identity.hpp>
#include <tutti/error.hpp>

#include "os/address.hpp"
#include "secure/pending_places.hpp"
#include "store/credentials.hpp"
#include "store/request.hpp"

namespace tutti::store {

/// A key of the store, and what its value begins with.
struct KeyAndText {
  std::string key;  ///< empty: none
  std::string begin = {};
};

struct TcpServerOptions {
  /// Listened on, as os::listen_tcp does; port 0 picks a free one.
  os::Address address;
  JobIdentity identity = {.job = kUnnamedJob};
  std::string secret_source = {};  ///< JobSecret::source
  /// As secure::Party::told.
  os::Address told = {};
  /// TLS on every connection; needs a secret.
  bool encrypt = false;
  /// How many users will come; see `TcpServer::close`.
  std::optional<int> users = {};
  /// A user that has not come by then is not waited for.
  std::optional<std::chrono::steady_clock::time_point> come_by = {};
  /// Is set, unless it is there, when a process is refused for which others may wait; the value
  /// ends with the reason. Such a process has proven nothing: a reader must not end a job for it,
  /// unless that process could end the job anyway.
  KeyAndText when_refused = {};
  Limits limits = {};
  /// How long a user's host may be silent before the user is lost (Config::link_timeout).
  std::chrono::milliseconds link_timeout = std::chrono::seconds(15);
  /// A pending connection has this long to prove that it belongs to the job.
  std::chrono::milliseconds hello_timeout = std::chrono::seconds(5);
  /// PendingPlaces::Limits::timeout_when_full.
  std::chrono::milliseconds timeout_when_full = secure::PendingPlaces::kTimeoutWhenFull;
  /// The most pending connections at a time; each of `users` adds one. At most half of the files
  /// that this process may open; further ones wait in the listener's queue.
  std::size_t max_pending = 2048;
  /// The most bytes of unread answers of a user; its next requests are executed when it has read
  /// some.
  std::size_t max_unread_bytes = std::size_t{64} << 20;
  /// A user that is stopped or cut off does not delay the server's end for longer than this.
  std::chrono::milliseconds shutdown_timeout = std::chrono::milliseconds(500);
  /// The most requests of one user that may wait at a time.
  std::size_t max_waiting = 4096;
};

/// Serves a store to all users of a job: one thread, one event loop, nothing ever waits for a
/// single user.
class TcpServer {
 public:
  static Result<std::unique_ptr<TcpServer>> start(TcpServerOptions options);
  /// As `close` without lingering.
  ~TcpServer();
  TcpServer(const TcpServer&) = delete;
  TcpServer& operator=(const TcpServer&) = delete;

  /// With the port that was picked.
  [[nodiscard]] const os::Address& address() const noexcept;

  /// Continues to serve until every user has left, at most for `linger`, then ends. These are all
  /// `users`, if that was given and it is not later than `come_by`; else those that are connected.
  /// So an early close disturbs no user that still needs the store.
  void close(std::chrono::milliseconds linger);

 private:
  class Loop;
  explicit TcpServer(std::unique_ptr<Loop> loop);
  Outcome start_thread();

  std::unique_ptr<Loop> loop_;
  std::thread thread_;
};

}  // namespace tutti::store
