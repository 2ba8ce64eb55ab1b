#include "secure/relay.hpp"

#include "base/format.hpp"
#include "os/route.hpp"

namespace tutti::secure {

bool is_relayed(const os::Address& dialled, const os::Address& arrived, const os::Address& told,
                bool by_rank) {
  const auto same_host = [&](const os::Address& other) {
    return dialled.host_bytes() == other.host_bytes();
  };
  if (same_host(arrived) && dialled.port() == arrived.port()) return false;
  if (told.port() != 0 && dialled.port() != told.port()) return true;
  // Where ranks meet others may have written another address.
  const bool is_told = told.port() != 0 && !told.is_unspecified();
  if (by_rank && is_told) return !same_host(told);
  return !same_host(told) && os::is_own_address(dialled);
}

std::string relayed_text(const os::Address& dialled, const os::Address& arrived) {
  return base::format(
      "{} was dialled, and the connection has arrived at {}: a program there passes it on, and may "
      "belong to a user who wants to read along; dial the address itself "
      "(docs/reference/configuration.md, behind NAT, says which ways are taken)",
      dialled.to_string(), arrived.to_string());
}

}  // namespace tutti::secure
