#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include <tutti/error.hpp>
#include <tutti/store.hpp>

#include "options.hpp"
#include "os/fd.hpp"
#include "store/job_secret.hpp"
#include "store/tcp_server.hpp"

namespace tutti::launcher {

/// The rendezvous as all workers of this node are told it.
struct JobAddress {
  std::string master_addr;
  /// Left to the program: it may serve there what it likes.
  std::uint16_t master_port = 0;
  /// Of the store that we serve.
  std::uint16_t store_port = 0;
  std::string job;
  /// The secret as memory to inherit, or -1.
  int secret_fd = -1;
  std::string secret;  ///< the name of that memory: TUTTI_SECRET_FD
  /// ... or as a file, or empty.
  std::string secret_file;
};

/// The rendezvous of a job's workers: its secret, and the store, which one node serves.
class NodeRendezvous {
 public:
  /// The options live longer than this.
  explicit NodeRendezvous(const Options& options) : options_(options) {}

  /// Once, before anything else.
  Outcome prepare();
  /// Serves a store, if it is this node that has to. Every restart of the workers has a store and
  /// a name of its own: what is left of an earlier one can disturb nobody.
  Outcome serve(int restart);
  [[nodiscard]] bool serving() const noexcept { return server_ != nullptr; }
  /// The reason, for error texts; empty where this node does not serve.
  [[nodiscard]] std::string why_serving() const;
  /// On several nodes the launchers keep their store, and restarted workers have one of their own.
  /// Its port, on the node that serves it; absent elsewhere and at the first start.
  [[nodiscard]] std::optional<std::uint16_t> workers_port() const;
  /// The port that the serving node has announced; 0: none.
  void use_workers_port(std::uint16_t port);
  /// Goes on serving for users that are still there, at most `linger`, then ends.
  void close(std::chrono::milliseconds linger);

  [[nodiscard]] const JobAddress& address() const noexcept { return address_; }
  /// Name of the job on all restarts, as torchrun would tell it.
  [[nodiscard]] const std::string& run_id() const noexcept { return run_id_; }
  /// How to reach the store.
  [[nodiscard]] TcpStoreOptions store() const;

 private:
  Outcome prepare_secret();
  Outcome start_server();
  /// The port of the restarted workers' store: always the same, for firewalls.
  [[nodiscard]] std::uint16_t restart_port() const noexcept;
  /// Keeps a port of this host for the program until `close`; 0: any.
  Outcome reserve(std::uint16_t port);
  /// An error unless this host can serve the store at --master-addr.
  [[nodiscard]] Outcome check_address() const;
  Result<std::unique_ptr<store::TcpServer>> make_server(std::uint16_t port) const;
  /// Whether the store of another job has this port.
  [[nodiscard]] bool meets_a_job(std::uint16_t port) const;
  /// Why we cannot do `what` with this port, and what helps.
  [[nodiscard]] Outcome explain(const Outcome& why, std::string_view what,
                                std::uint16_t port) const;

  const Options& options_;
  JobAddress address_;
  std::uint16_t store_port_ = 0;
  std::string run_id_;
  std::string job_;  ///< as the store that the launchers share knows it
  store::JobSecret secret_;
  os::Fd secret_fd_;
  os::Fd reserved_;          ///< the program's port
  os::Fd reserved_restart_;  ///< that of the restarted workers' store
  std::unique_ptr<store::TcpServer> server_;
  std::unique_ptr<store::TcpServer> workers_server_;
};

}  // namespace tutti::launcher
