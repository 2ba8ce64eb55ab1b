#include "meeting.hpp"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <random>

#include "os/address.hpp"
#include "os/socket.hpp"
#include "os/system_error.hpp"
#include "store/secret.hpp"
#include "store/tcp_store.hpp"

namespace tutti::launcher {
Status Meeting::prepare() {
  address_.master_addr = options_.master_addr;
  run_id_ = options_.job_id;
  if (run_id_.empty() && options_.nnodes == 1) {
    // Only tells jobs apart that meet by mistake; need not be hard to guess.
    std::random_device random;
    run_id_ = fmt::format("{:08x}{:08x}", random(), random());
  }
  address_.job = run_id_;
  job_ = run_id_;
  if (run_id_.empty()) run_id_ = "none";
  return prepare_secret();
}

Status Meeting::prepare_secret() {
  if (!options_.secret_file.empty()) {
    auto secret = store::read_secret_file(options_.secret_file);
    if (!secret) return secret.status();
    secret_ = {std::move(*secret), std::string(store::kGivenSecret)};
    // Workers may change their directory before they read it.
    std::array<char, PATH_MAX> path{};
    if (realpath(options_.secret_file.c_str(), path.data()) == nullptr)
      return os::system_error("cannot find " + options_.secret_file, errno);
    address_.secret_file = path.data();
    return {};
  }
  if (options_.nnodes > 1) {  // the launchers of other nodes must find the same one
    auto secret = store::job_secret({});
    if (!secret) return secret.status();
    secret_ = std::move(*secret);
    if (options_.tls && secret_.bytes.empty()) {
      return Status(Errc::invalid_argument,
                    "TUTTI_TLS needs a secret, and TUTTI_INSECURE=1 means none; unset one of them");
    }
    if (secret_.bytes.empty()) return {};
  }
  // Handed down, so that workers find it whatever their HOME is.
  auto kept = options_.nnodes > 1 ? store::keep_secret(secret_.bytes) : store::make_secret();
  if (!kept) return kept.status();
  if (options_.nnodes == 1) secret_ = {kept->secret, std::string(store::kGivenSecret)};
  secret_fd_ = std::move(kept->fd);
  address_.secret_fd = secret_fd_.get();
  return {};
}

Status Meeting::serve(int restart) {
  if (restart > 0) address_.job = fmt::format("{} restart {}", run_id_, restart);
  if (restart > 0 && options_.nnodes > 1) {
    workers_server_.reset();
    if (!serving()) return {};
    auto server = make_server(0);
    if (!server) return explain(server.status());
    workers_server_ = std::move(*server);
    return {};
  }
  close(std::chrono::milliseconds::zero());
  address_.master_port = options_.master_port.value_or(0);
  // Programs that serve a store themselves have the port; the launchers meet at the next one.
  const bool beside = options_.own_store && options_.nnodes > 1;
  store_port_ = static_cast<std::uint16_t>(address_.master_port + (beside ? 1 : 0));
  address_.store_port = store_port_;
  const bool may_be_another = options_.find_node_rank && !options_.serves;
  const bool ours =
      options_.find_node_rank ? options_.serves.value_or(true) : options_.node_rank == 0;
  if (!ours) return {};
  if (Status status = start_server(); !status) {
    // The address is another node's, or another launcher on this host was faster.
    const bool taken = status.code() == Errc::resource || status.code() == Errc::invalid_argument;
    if (may_be_another && taken) return {};
    return explain(status);
  }
  if (!beside) address_.master_port = store_port_;
  if (options_.own_store && !beside) {
    // It has found out that the port can be had, which is the program's; we serve at any other.
    const std::unique_ptr<store::TcpServer> found = std::move(server_);
    store_port_ = 0;
    if (Status status = start_server(); !status) return explain(status);
    found->close(std::chrono::milliseconds::zero());
  }
  address_.store_port = store_port_;
  return {};
}

Status Meeting::start_server() {
  auto server = make_server(store_port_);
  if (!server) return server.status();
  server_ = std::move(*server);
  store_port_ = server_->address().port();
  return {};
}

Status Meeting::check_address() const {
  auto addresses = os::Address::resolve(address_.master_addr, 0);
  if (!addresses) return Status(Errc::store, std::string(addresses.status().message()));
  // A name may be that of a service in front of this host, and an address may be forwarded to it.
  const bool may_be_forwarded =
      !os::Address::parse(address_.master_addr, 0).ok() || !options_.local_addr.empty();
  const bool decides_who_serves = options_.find_node_rank && !options_.serves;
  Status last;
  for (const os::Address& address : *addresses) {
    if (address.is_multicast() || address.is_unspecified() || address.is_broadcast()) {
      return Status(Errc::unsupported,
                    fmt::format("--master-addr {} is not the address of a host", address.host()));
    }
    if (may_be_forwarded && !decides_who_serves) continue;
    auto probe = os::listen_tcp(address);
    if (probe) return {};
    last = probe.status();
  }
  return last;
}

Result<std::unique_ptr<store::TcpServer>> Meeting::make_server(std::uint16_t port) const {
  if (Status status = check_address(); !status) return status;
  store::TcpServerOptions server;
  server.address = store::listening_address(address_.master_addr, port);
  server.secret = secret_.bytes;
  server.secret_source = secret_.source;
  server.encrypt = options_.tls;
  server.link_timeout = server.hello_timeout = options_.link_timeout;
  server.job = address_.job;
  return store::TcpServer::start(std::move(server));
}

std::optional<std::uint16_t> Meeting::workers_port() const {
  if (!workers_server_) return std::nullopt;
  return workers_server_->address().port();
}

void Meeting::use_workers_port(std::uint16_t port) {
  if (port == 0) return;
  address_.store_port = port;
  if (!options_.own_store) address_.master_port = port;
}

Status Meeting::explain(const Status& why) const {
  const std::string problem = fmt::format("cannot serve the store: {}; ", why.message());
  switch (why.code()) {
    // What makes no sense anywhere, and must not be taken for another node's address.
    case Errc::unsupported: return Status(Errc::invalid_argument, std::string(why.message()));
    case Errc::resource:
      return Status(
          Errc::store,
          problem + fmt::format("another program, perhaps an earlier job, has port {} "
                                "(ss -ltnp 'sport = :{}' tells which): end it or give "
                                "another --master-port{}",
                                store_port_, store_port_,
                                options_.nnodes == 1 ? ", or none: then a free one is taken"
                                                     : " on all nodes"));
    case Errc::invalid_argument:
      return Status(Errc::store,
                    problem + fmt::format("{} is no address of this host: give one of its own as "
                                          "--master-addr{}",
                                          address_.master_addr,
                                          options_.nnodes > 1
                                              ? ", or another --node-rank if this is not node 0"
                                              : ""));
    case Errc::refused:
      return Status(Errc::store,
                    problem + "ports below 1024 are for root: give a --master-port above");
    default:
      return Status(Errc::store, problem +
                                     "is --master-addr an address of this host, and --master-port "
                                     "free?");
  }
}

void Meeting::close(std::chrono::milliseconds linger) {
  if (workers_server_) workers_server_->close(linger);
  workers_server_.reset();
  if (server_) server_->close(linger);
  server_.reset();
}

TcpStoreOptions Meeting::store() const {
  TcpStoreOptions store;
  store.host = address_.master_addr;
  store.port = store_port_;
  store.timeout = options_.join_timeout;
  // Else it finds the same one, and can say where.
  if (secret_.source == store::kGivenSecret) store.secret = secret_.bytes;
  store.encrypt = options_.tls;
  store.link_timeout = options_.link_timeout;
  store.job = job_;
  return store;
}

}  // namespace tutti::launcher
