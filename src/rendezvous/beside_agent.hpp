#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/environment.hpp"
#include "store/tcp_store.hpp"

// torchrun's agent serves a store of its own at MASTER_PORT, with another protocol. Rank 0 serves
// ours at one of the ports next to it, the first that is free, and the others look there.
namespace tutti::rendezvous {

/// The name of torchrun's job, of this start of its workers, if its agent has MASTER_PORT.
[[nodiscard]] std::optional<std::string> job_of_agent(const Environment& environment);

/// The ports next to it, in the order in which they are tried.
[[nodiscard]] std::vector<std::uint16_t> ports_beside(std::uint16_t master_port);

/// As `join_tcp_store`, at one of the ports beside the one in the options. Errc::refused at once if
/// rank 0's store is found there and has another secret.
store::JoinedStore join_beside_agent(TcpStoreOptions options, const store::JobSecret& secret,
                                     const store::Request& first,
                                     const store::KeyAndText& when_refused,
                                     const store::OnWait& on_wait = {});

}  // namespace tutti::rendezvous
