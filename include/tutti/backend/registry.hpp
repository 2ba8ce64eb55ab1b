#pragma once

#include <any>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <tutti/backend/backend.hpp>
#include <tutti/backend/job_identity.hpp>
#include <tutti/config.hpp>
#include <tutti/error.hpp>
#include <tutti/export.hpp>
#include <tutti/promises.hpp>
#include <tutti/store.hpp>

namespace tutti {
inline namespace TUTTI_EXPORT v0 {

/// The world on one rank, for the backend that makes it: who the rank is, and how it reaches the
/// others. The rendezvous fills it in.
struct WorldOptions {
  JobIdentity identity;
  std::string name = "world";  ///< of the group, for error texts
  Config config;
  /// The limit for making the world.
  std::chrono::steady_clock::time_point deadline;
  /// Gives each rank the texts of all ranks, in the order of the ranks. Blocks, at most until the
  /// deadline. All ranks call it equally often, and only while the world is made.
  std::function<Result<std::vector<std::string>>(const std::string& mine)> exchange;
  /// True if only ranks of the job know the secret. The world has Trust::proven if all say so.
  bool authenticated = false;
  /// The address on which this rank listens; "0.0.0.0" or "::": on all, of both families.
  std::string bind_host;
  /// The address that other ranks connect to (empty: `bind_host`). "0.0.0.0": this rank is on the
  /// host of the store, so a rank of another host connects to the address by which it has reached
  /// the store.
  std::string advertised_host = {};
  std::string store_host = {};  ///< the address by which this rank has reached the store, or empty
  std::uint16_t bind_port = 0;  ///< 0: any
  std::uint16_t advertised_port = 0;  ///< the port that others connect to; 0: the one it listens on
  /// The backend calls it once, when this rank has left gracefully and its peers know it. May be
  /// empty.
  std::function<void()> left = {};
  /// A part of the store of the rendezvous, for the backend of this world alone. Keep it as long as
  /// the world lives, since this rank may serve it. Null if the rendezvous had no store.
  std::shared_ptr<Store> store = nullptr;
  /// The caller's options for the backend (InitOptions::backend_options); may be empty.
  std::any backend_options = {};
};

/// The rendezvous of ranks that need no store, because their launcher tells each its number.
struct BackendRendezvous {
  int rank = 0;
  int size = 1;
  /// As WorldOptions::exchange.
  std::function<Result<std::vector<std::string>>(const std::string& mine)> exchange;
};

/// The command that starts the ranks of a backend with its own launcher.
struct LaunchCommand {
  std::vector<std::string> argv;         ///< the program and its arguments follow
  std::vector<std::string> environment;  ///< "NAME=value", beside what this process has
};

/// Says if a backend keeps a promise. The contract tests of the library read it.
struct PromiseRow {
  Promise promise = Promise::same_bits;
  bool kept = false;
  /// More about it, for people; may be empty.
  std::string_view how = {};
  /// The test that proves it: file and case, from tests/ on.
  std::string_view test = {};
};

/// Makes worlds on one backend.
///
/// Threads: its functions from any thread, also at once (ranks as threads).
/// Errors:  `make_world` may throw, which leaves init_process_group; the others must not.
struct BackendFactory {
  std::string name;  ///< what Config::backend calls it, and Backend::name() answers
  /// Why no world can be made on it here ("libmpi.so.40 is not installed"); empty: one can. No
  /// function: one always can.
  std::function<std::string()> missing = {};
  /// One line for people about the library that it uses here ("Open MPI 4.1.4, ..."). No function:
  /// no line.
  std::function<std::string()> about = {};
  /// Finds the other ranks if the caller names no store, no address, no rank and no size. It gets
  /// InitOptions::backend_options and the deadline of init: it and the exchange may block until
  /// then. No function: the ranks meet as those of `native`.
  std::function<Result<BackendRendezvous>(const std::any& backend_options,
                                          std::chrono::steady_clock::time_point deadline)>
      rendezvous = {};
  /// Makes the group of all ranks, and blocks until it can be used. The caller takes over the
  /// reference, and tells the other ranks of a failure.
  std::function<Result<Backend*>(const WorldOptions& options)> make_world;
  /// Makes a group for tensors of GPUs, with the ranks of `host`: a group on `native` that belongs
  /// to the new group alone, for its calls between hosts. It takes over the reference of `host`. No
  /// function: the backend has no such groups.
  std::function<Result<Backend*>(Backend* host, const WorldOptions& options)> make_gpu_group = {};
  /// The version of the library that it uses here; 0: that cannot be used. Ranks with different
  /// versions cannot have a group on it. Calls no driver. No function: the version is unknown.
  std::function<int()> version = {};
  /// The number of worlds of this process that have a group or a Work. No function: it is unknown.
  std::function<int()> alive = {};
  /// The command that starts so many ranks on this host, if only the backend's own launcher can. No
  /// function: any launcher that sets the variables of the rendezvous can.
  std::function<Result<LaunchCommand>(int ranks)> launch = {};
  /// One row for each promise that it keeps or does not keep, in memory that stays valid. A promise
  /// without a row is not kept.
  std::span<const PromiseRow> promises = {};
};

/// Registers a backend for the rest of the process, so that Config::backend may name it.
///
/// Threads: any.
/// Errors:  InvalidArgument for a name that is empty or taken, or without `make_world`.
void register_backend(BackendFactory factory);

/// Adds a folder in which the library looks for plug-ins first. For a module that contains this
/// library and is installed elsewhere. Files in it must belong to this user, to root, or to the
/// owner of the program.
///
/// Threads: any.
void add_backend_folder(std::string folder);

/// The command that starts so many ranks of this backend on this host (`tuttirun --backend`);
/// absent: any launcher can.
///
/// Errors: invalid_argument if no world can be made on it here; unsupported if its own launcher is
///         missing.
[[nodiscard]] Result<std::optional<LaunchCommand>> launch_command(std::string_view backend,
                                                                  int ranks);

}  // namespace v0
}  // namespace tutti
