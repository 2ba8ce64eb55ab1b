#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include <tutti/store.hpp>

#include "os/address.hpp"
#include "store/job_secret.hpp"
#include "store/request.hpp"
#include "store/tcp_client.hpp"
#include "store/tcp_server.hpp"

namespace tutti::store {

struct JoinedStore {
  std::shared_ptr<TcpStore> store;
  Response answer;                    ///< of the first request
  std::shared_ptr<TcpClient> client;  ///< that the store uses
  /// Leaves the server, as the end of the store does: for a process that ends and does not destroy
  /// it. Waits for other users as that does, if this process serves. Call it while `store` lives.
  std::function<void()> leave;
};

/// Where a store listens that the others know as `host`: there, if that is a literal loopback
/// address, else on all addresses (the unspecified one). A name may be the loopback here only.
[[nodiscard]] os::Address listening_address(std::string_view host, std::uint16_t port);

/// On which addresses a store listens.
enum class Listens : unsigned char {
  as_told,     ///< on TcpStoreOptions::host alone
  for_others,  ///< as `listening_address` says
  /// The same; users look for the store at several ports, and each must have dialled this one.
  beside_agent,
};

/// Whether the store of these options serves at its host and port now; errors as TcpClient::probe.
Outcome probe_tcp_store(const TcpStoreOptions& options, const JobSecret& secret,
                        std::chrono::milliseconds timeout);

/// As `make_tcp_store`, with this secret whatever the options say, and a first request (may be
/// null; must have passed `check_request`) that the server has carried out by the time it knows us
/// at all: a will that is left by then covers the whole time. Throws as `make_tcp_store`, also if
/// the first request fails. `when_refused`: TcpServerOptions::when_refused, where this process
/// serves.
JoinedStore join_tcp_store(const TcpStoreOptions& options, const JobSecret& secret,
                           const Request* first = nullptr, Listens listens = Listens::as_told,
                           const KeyAndText& when_refused = {}, const OnWait& on_wait = {});

/// As the public `make_tcp_store`.
std::shared_ptr<TcpStore> make_tcp_store(const TcpStoreOptions& options, const OnWait& on_wait);

}  // namespace tutti::store
