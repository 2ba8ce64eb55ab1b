#include "os/route.hpp"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "os/fd.hpp"
#include "os/socket.hpp"

namespace tutti::os {

Result<Address> address_towards(const Address& target) {
  Address to = target;
  if (to.port() == 0)
    to.set_port(9);  // any: connecting a datagram socket only asks the routing table
  const Fd socket(::socket(to.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket.valid() || ::connect(socket.get(), to.data(), to.size()) != 0) {
    const int error = errno;
    return Status(Errc::refused, "no route to " + to.to_string() + ": " + std::strerror(error));
  }
  Result<Address> ours = local_address(socket.get());
  if (ours) ours->set_port(0);
  return ours;
}

}  // namespace tutti::os
