#pragma once

#include <string>

#include "os/address.hpp"

// Programs that pass a connection on, and may belong to a user who wants to read along.
namespace tutti::secure {

/// True if another process of this host passes the connection on, or the port is none of ours. An
/// address that this host does not have is forwarded by the network (NAT), whose packets we cannot
/// tell from any others. `arrived`: our end of the connection. `told`: Party::told. `by_rank`:
/// between ranks, who say where they are to be dialled.
[[nodiscard]] bool is_relayed(const os::Address& dialled, const os::Address& arrived,
                              const os::Address& told, bool by_rank);

/// For people, on either side.
[[nodiscard]] std::string relayed_text(const os::Address& dialled, const os::Address& arrived);

}  // namespace tutti::secure
