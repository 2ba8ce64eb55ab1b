#pragma once

#include <memory>
#include <utility>

#include "os/address.hpp"
#include "transport/tcp/tcp_transport.hpp"

namespace tutti::bench {

/// A rank that listens on loopback.
inline std::unique_ptr<transport::TcpTransport> listen(int rank, int size, transport::Sink& sink,
                                                       transport::TcpOptions options = {}) {
  options.identity.rank = rank;
  options.identity.size = size;
  options.bind = os::Address::parse("127.0.0.1", 0).value();
  auto made = std::move(transport::TcpTransport::listen(std::move(options))).value();
  made->set_sink(&sink);
  return made;
}

}  // namespace tutti::bench
