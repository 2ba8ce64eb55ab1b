#include "node_rendezvous.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <random>

#include "base/fnv.hpp"
#include "base/format.hpp"
#include "node_meeting.hpp"
#include "os/address.hpp"
#include "os/handed_memory.hpp"
#include "os/route.hpp"
#include "os/socket.hpp"
#include "os/system_error.hpp"
#include "store/secret.hpp"
#include "store/tcp_store.hpp"

namespace tutti::launcher {
namespace {

constexpr std::uint16_t kLastPort = 65535;
constexpr std::string_view kServe = "serve the store";
// For the program that has our port to say whether it is a store.
constexpr std::chrono::seconds kProbe{2};

}  // namespace

Outcome NodeRendezvous::prepare() {
  address_.master_addr = options_.master_addr;
  run_id_ = options_.job_id;
  if (run_id_.empty() && options_.nnodes == 1) {
    // Only tells jobs apart that meet by mistake; need not be hard to guess.
    std::random_device random;
    run_id_ = base::format("{:08x}{:08x}", random(), random());
  }
  address_.job = run_id_;
  job_ = run_id_;
  if (run_id_.empty()) run_id_ = "none";
  return prepare_secret();
}

Outcome NodeRendezvous::prepare_secret() {
  if (!options_.secret_file.empty()) {
    // Workers may change their directory before they read it.
    std::array<char, PATH_MAX> path{};
    if (realpath(options_.secret_file.c_str(), path.data()) == nullptr)
      return os::system_error("cannot find the secret file " + options_.secret_file, errno);
    address_.secret_file = path.data();
    // Ours as well, so that a store that has another secret is told where this one lies.
    setenv("TUTTI_SECRET_FILE", path.data(), 1);
    unsetenv("TUTTI_SECRET_FD");
    auto secret = store::job_secret({});
    if (!secret) return secret.status();
    secret_ = std::move(*secret);
    return {};
  }
  if (options_.nnodes > 1) {  // the launchers of other nodes must find the same one
    auto secret = store::job_secret({});
    if (!secret) return secret.status();
    secret_ = std::move(*secret);
    if (options_.tls && secret_.bytes.empty()) {
      return Outcome(Errc::invalid_argument,
                     "TUTTI_TLS needs a secret, and TUTTI_INSECURE says that there is none; unset "
                     "one of them");
    }
    if (secret_.bytes.empty()) return {};
  }
  // Handed down, so that workers find it whatever their HOME is.
  auto kept = options_.nnodes > 1 ? store::keep_secret(secret_.bytes) : store::make_secret();
  if (!kept) return kept.status();
  if (options_.nnodes == 1) secret_ = {kept->secret, std::string(store::kGivenSecret)};
  secret_fd_ = std::move(kept->fd);
  address_.secret_fd = secret_fd_.get();
  auto name = os::name_handed(secret_fd_);
  if (!name) return name.status();
  address_.secret = std::move(*name);
  return {};
}

Outcome NodeRendezvous::serve(int restart) {
  if (restart > 0) address_.job = base::format("{} restart {}", run_id_, restart);
  if (restart > 0 && options_.nnodes > 1) {
    workers_server_.reset();
    if (!serving()) return {};
    auto server = make_server(restart_port());
    if (!server) server = make_server(0);
    if (!server) return explain(server.status(), kServe, 0);
    workers_server_ = std::move(*server);
    return {};
  }
  close(std::chrono::milliseconds::zero());
  const std::uint16_t given = options_.master_port.value_or(0);
  if (options_.nnodes == 1) {
    // The program knows this port from the command line; only it needs to know ours.
    if (Outcome status = reserve(given); !status)
      return explain(status, "leave MASTER_PORT to the program", given);
    store_port_ = 0;
  } else {
    store_port_ = given;
    address_.master_port = static_cast<std::uint16_t>(given == kLastPort ? given - 1 : given + 1);
  }
  address_.store_port = store_port_;
  const bool may_be_another = options_.find_node_rank && !options_.serves;
  const bool ours =
      options_.find_node_rank ? options_.serves.value_or(true) : options_.node_rank == 0;
  if (!ours) return {};
  if (Outcome status = start_server(); !status) {
    // The address is another node's, or another launcher on this host was faster.
    const bool taken = status.code() == Errc::resource || status.code() == Errc::invalid_argument;
    if (may_be_another && taken) return {};
    return explain(status, kServe, store_port_);
  }
  address_.store_port = store_port_;
  // Where it is taken the program finds out, if it needs the port at all.
  if (options_.nnodes > 1) (void)reserve(address_.master_port);
  if (options_.nnodes > 1 && options_.max_restarts > 0) {
    if (auto reserved = os::reserve_port(restart_port())) reserved_restart_ = std::move(*reserved);
  }
  return {};
}

std::uint16_t NodeRendezvous::restart_port() const noexcept {
  return static_cast<std::uint16_t>(store_port_ + 2 > kLastPort ? store_port_ - 2
                                                                : store_port_ + 2);
}

std::string NodeRendezvous::why_serving() const {
  if (!serving()) return {};
  if (!options_.find_node_rank) return "its --node-rank is 0, the default";
  if (options_.serves) return "is_host says";
  std::string own = address_.master_addr;
  if (auto addresses = os::Address::resolve(address_.master_addr, 0)) {
    const auto found = std::ranges::find_if(*addresses, os::is_own_address);
    if (found != addresses->end()) own = found->host();
  }
  const std::string is = own == address_.master_addr ? "" : base::format(" ({})", own);
  return base::format("{} is its own address there{}", address_.master_addr, is);
}

Outcome NodeRendezvous::reserve(std::uint16_t port) {
  auto reserved = os::reserve_port(port);
  if (!reserved) return reserved.status();
  auto bound = os::local_address(reserved->get());
  if (!bound) return bound.status();
  reserved_ = std::move(*reserved);
  address_.master_port = bound->port();
  return {};
}

Outcome NodeRendezvous::start_server() {
  auto server = make_server(store_port_);
  if (!server) return server.status();
  server_ = std::move(*server);
  store_port_ = server_->address().port();
  return {};
}

Outcome NodeRendezvous::check_address() const {
  auto addresses = os::Address::resolve(address_.master_addr, 0);
  if (!addresses) return Outcome(Errc::store, std::string(addresses.status().message()));
  // A name may be that of a service in front of this host, and an address may be forwarded to it.
  const bool may_be_forwarded =
      !os::Address::parse(address_.master_addr, 0).ok() || !options_.local_addr.empty();
  const bool decides_who_serves = options_.find_node_rank && !options_.serves;
  Outcome last;
  for (const os::Address& address : *addresses) {
    if (address.is_multicast() || address.is_unspecified() || address.is_broadcast()) {
      return Outcome(Errc::unsupported,
                     base::format("--master-addr {} is not the address of a host", address.host()));
    }
    if (may_be_forwarded && !decides_who_serves) continue;
    auto probe = os::listen_tcp(address);
    if (probe) return {};
    last = probe.status();
  }
  return last;
}

Result<std::unique_ptr<store::TcpServer>> NodeRendezvous::make_server(std::uint16_t port) const {
  if (Outcome status = check_address(); !status) return status;
  store::TcpServerOptions server;
  server.address = store::listening_address(address_.master_addr, port);
  server.identity.secret = secret_.bytes;
  server.secret_source = secret_.source;
  server.encrypt = options_.tls;
  server.link_timeout = server.hello_timeout = options_.link_timeout;
  server.identity.job = base::fnv_of(address_.job);
  server.when_refused.key = kRefusedKey;
  return store::TcpServer::start(std::move(server));
}

std::optional<std::uint16_t> NodeRendezvous::workers_port() const {
  if (!workers_server_) return std::nullopt;
  return workers_server_->address().port();
}

void NodeRendezvous::use_workers_port(std::uint16_t port) {
  if (port == 0) return;
  address_.store_port = port;
}

Outcome NodeRendezvous::explain(const Outcome& why, std::string_view what,
                                std::uint16_t port) const {
  const std::string problem = base::format("cannot {}: {}; ", what, why.message());
  switch (why.code()) {
    // Addresses that are senseless on every node must not be taken for those of another node.
    case Errc::unsupported: return Outcome(Errc::invalid_argument, std::string(why.message()));
    case Errc::resource:
      if (!os::is_port_in_use(why))  // a limit, which the text names
        return Outcome(why.code(), base::format("cannot {}: {}", what, why.message()));
      return Outcome(
          Errc::store,
          problem + base::format("{} has port {} "
                                 "(ss -ltnp 'sport = :{}' tells which): end it or give "
                                 "another --master-port{}",
                                 what == kServe && meets_a_job(port)
                                     ? "another job"
                                     : "another program, perhaps an earlier job,",
                                 port, port,
                                 options_.nnodes == 1 ? ", or none: then a free one is taken"
                                                      : " on all nodes"));
    case Errc::invalid_argument:
      return Outcome(Errc::store,
                     problem + base::format("{} is no address of this host: give one of its own as "
                                            "--master-addr{}",
                                            address_.master_addr,
                                            options_.nnodes > 1
                                                ? ", or another --node-rank if this is not node 0"
                                                : ""));
    case Errc::refused:
      return Outcome(Errc::store,
                     problem + "ports below 1024 are for root: give a --master-port above");
    default:
      return Outcome(Errc::store, problem +
                                      "is --master-addr an address of this host, and --master-port "
                                      "free?");
  }
}

bool NodeRendezvous::meets_a_job(std::uint16_t port) const {
  TcpStoreOptions there = store();
  there.port = port;
  const Outcome met = store::probe_tcp_store(there, secret_, kProbe);
  return met || met.code() == Errc::refused || met.code() == Errc::disagreement;
}

void NodeRendezvous::close(std::chrono::milliseconds linger) {
  if (workers_server_) workers_server_->close(linger);
  workers_server_.reset();
  if (server_) server_->close(linger);
  server_.reset();
  reserved_.reset();
  reserved_restart_.reset();
}

TcpStoreOptions NodeRendezvous::store() const {
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
