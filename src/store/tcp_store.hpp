#pragma once

#include <memory>

#include <tutti/store.hpp>

#include "store/request.hpp"

namespace tutti::store {

struct JoinedStore {
  std::shared_ptr<TcpStore> store;
  Response answer;  ///< of the first request
};

/// As `make_tcp_store`, with a first request (may be null; must have passed `check_request`) that
/// the server has carried out by the time it knows us at all: a will that is left by then covers
/// the whole time. Throws as `make_tcp_store`, also if the first request fails.
JoinedStore join_tcp_store(const TcpStoreOptions& options, const Request* first);

}  // namespace tutti::store
