#pragma once

#include <memory>
#include <string>

#include "store/tcp_client.hpp"

namespace tutti::store {

/// A connection to the server that keeps a store, and the prefix of the store's keys there.
struct Served {
  std::shared_ptr<TcpClient> client;
  std::string prefix = {};
};

}  // namespace tutti::store
