#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <tutti/error.hpp>
#include <tutti/store.hpp>

namespace tutti::rendezvous {

using Clock = std::chrono::steady_clock;
using Deadline = Clock::time_point;

/// How a process found the others.
struct Rendezvous {
  /// For this group of processes alone: an earlier group on the same server has its own part.
  std::shared_ptr<Store> store;
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  std::string master_addr;
  std::uint16_t master_port = 0;
  /// Known to all processes of the job and to nobody else; empty if there is none.
  std::vector<std::byte> secret;
  std::string job;
  /// Counts the groups this rank has made on this store, from 1; equal on all ranks.
  std::uint64_t generation = 0;
};

/// What the caller says himself goes before what the environment says.
struct Settings {
  std::optional<int> rank;
  std::optional<int> size;
  std::optional<int> local_rank;
  std::optional<std::string> master_addr;
  std::optional<int> master_port;
  /// Null: the process's own environment, read now.
  std::function<const char*(const char* name)> environment;
  /// For all of it, and the default of the store.
  std::chrono::milliseconds timeout = Store::kDefaultTimeout;
};

/// The rendezvous of torch.distributed's `env://`.
///
/// Reads RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, LOCAL_RANK (default: 0 without, else as told),
/// TUTTI_AGENT_STORE ("1": the launcher serves the store; else rank 0 does), TUTTI_JOB and the
/// secret from TUTTI_SECRET_FD or TUTTI_SECRET_FILE. Reaches the store before it returns, but does
/// not wait for the other ranks: `exchange` does.
/// Errors: invalid_argument for what is missing or senseless, timeout, refused, store.
Result<Rendezvous> from_env(const Settings& settings);

/// Gathers one blob per rank; every rank gets all of them, in order. One `name` serves once per
/// store. All ranks give the same `size`.
/// Errors, each naming who is concerned, on every rank that waits: timeout (who has not come),
/// disagreement (a rank given twice, unequal sizes), store.
Result<std::vector<std::string>> exchange(Store& store, std::string_view name, int rank, int size,
                                          std::string mine, Deadline deadline);

}  // namespace tutti::rendezvous
