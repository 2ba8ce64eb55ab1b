#pragma once

#include <any>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <tutti/config.hpp>
#include <tutti/export.hpp>
#include <tutti/process_group.hpp>
#include <tutti/secret_bytes.hpp>
#include <tutti/store.hpp>

namespace tutti {
inline namespace TUTTI_EXPORT v0 {

/// How a process finds the others. A value that is given here takes precedence over the
/// environment.
struct InitOptions {
  /// The place of the rendezvous: "env://" (absent means that too), "tcp://host:port", which rank 0
  /// serves, or "file:///path", a file that all see; each with "?rank=..&world_size=.." if these
  /// are said nowhere else.
  std::optional<std::string> init_method = std::nullopt;
  /// A store of your own instead; kept as long as the world lives.
  std::shared_ptr<Store> store = nullptr;
  /// Only processes that give the same name find each other; empty is a name, too. The same ranks
  /// may use one name again and again. If ranks have new numbers, or processes have come or gone
  /// (the survivors of a failure), take a name that was not used before in this store. Up to 128
  /// bytes without control characters.
  std::string job_name = {};
  std::optional<int> rank = std::nullopt;  ///< absent: as the URL says; RANK; the launcher's
  std::optional<int> size = std::nullopt;  ///< absent: as the URL says; WORLD_SIZE; the launcher's
  /// True: a program that no launcher has started (neither rank nor size nor an address is given or
  /// set) makes a world of one. False: init says what is missing.
  bool or_alone = false;
  std::optional<std::string> master_addr = std::nullopt;
  std::optional<int> master_port = std::nullopt;
  /// The job's secret, 32 to 4096 bytes, the same on all ranks: nobody else can join or disturb it,
  /// and connections can be encrypted (Config::tls). Absent: job_secret(). Where a launcher serves
  /// the store, it must be the launcher's.
  std::optional<SecretBytes> secret = std::nullopt;
  /// The limit for init, and for operations that give none; absent: Config::timeout.
  Timeout timeout = {};
  /// Absent: read from the environment now.
  std::optional<Config> config = std::nullopt;
  /// The backend that runs the operations; absent: Config::backend.
  std::optional<std::string> backend = std::nullopt;
  /// Options of that backend. "native" has none. "mpi" takes a communicator, from `mpi_handle`
  /// (<tutti/mpi.hpp>), or a std::vector<int> with the ranks of MPI_COMM_WORLD that make the world;
  /// such a list needs an `exchange`.
  std::any backend_options = {};
  std::string name = "world";
  /// Gives each rank the texts of all ranks, in the order of ranks, before the deadline of init.
  using Exchange = std::function<Result<std::vector<std::string>>(const std::string& name,
                                                                  const std::string& mine)>;
  /// For callers with a store of their own (bindings): then no other is used, called only during
  /// init and from the thread that called it. `rank` and `size` must be given, equal on all ranks
  /// with or without it; `master_addr` only tells by which address the others reach us (absent on
  /// all: the ranks tell each other where they are; on one host that is the loopback).
  Exchange exchange = {};
  /// False: others may read or change what the exchange carries. Ranks without `secret` then use
  /// the job_secret(), which must be the same (names of it are compared). Where TUTTI_INSECURE says
  /// that there is none, rank 0 hands out one by the exchange: the world is not authenticated.
  bool exchange_is_private = true;
};

/// Makes the group of all processes of the job, found by `init_method`, a given store, or RANK,
/// WORLD_SIZE, MASTER_ADDR and MASTER_PORT; docs/reference/configuration.md has all ways. Blocks
/// until all have joined, in any order of starting.
///
/// Threads:  once at a time per process.
/// Errors:   InvalidArgument (a variable is missing or senseless), TimeoutError (names the
///           ranks that have not come), StoreError, NetworkError (wrong secret, another job),
///           DisagreementError (a rank given twice, unequal sizes or settings).
[[nodiscard]] ProcessGroup init_process_group(const InitOptions& options = {});

/// The job's secret as init_process_group finds it: from TUTTI_SECRET_FD or TUTTI_SECRET_FILE, else
/// the user's own key, which is made if there is none; empty only where TUTTI_INSECURE says so.
/// Errors: InvalidArgument (too short, of another user, open to others, not there), BackendError
/// (no place for a key).
[[nodiscard]] std::vector<std::byte> job_secret();

/// True if a world can be made on the backend of this name here, so that Config::backend may name
/// it. "native" is always available. ProcessGroup::backend() tells on which one a group runs.
[[nodiscard]] bool is_available(std::string_view backend) noexcept;

/// Why it cannot, and what to do ("no MPI library was found (...); install one ..."); empty: it
/// can.
[[nodiscard]] std::string why_unavailable(std::string_view backend);

/// The names of all backends on which a world can be made here, the default first. Looks for
/// plug-ins, too.
[[nodiscard]] std::vector<std::string> available_backends();

/// One line for people about the library that a backend uses here. Empty: the backend is not here,
/// or says nothing.
[[nodiscard]] std::string about_backend(std::string_view name);

/// A world of this process lives, on whatever backend.
[[nodiscard]] bool is_initialized() noexcept;

}  // namespace v0
}  // namespace tutti
