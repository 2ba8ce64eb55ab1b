#pragma once

#include <memory>
#include <optional>
#include <string>

#include "store/tcp_client.hpp"

namespace tutti::store {

/// A connection to a server, which can be asked without waiting, and what stands there before the
/// keys of a store.
struct Served {
  std::shared_ptr<TcpClient> client;
  std::string prefix = {};
};

/// What stores are, too, that may lie on a server: however many prefixes are in between.
class ServedStore {
 public:
  ServedStore() = default;
  ServedStore(const ServedStore&) = delete;
  ServedStore& operator=(const ServedStore&) = delete;
  virtual ~ServedStore() = default;
  /// Nothing: it lies elsewhere.
  [[nodiscard]] virtual std::optional<Served> served() const = 0;
};

}  // namespace tutti::store
