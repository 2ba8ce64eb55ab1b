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
#include <tutti/promises.hpp>
#include <tutti/store.hpp>

namespace tutti {

/// The input of a backend that makes the world on one rank: identity, and how to reach the others.
/// The rendezvous fills it in.
struct WorldOptions {
  JobIdentity identity;
  std::string name = "world";  ///< of the group, for error texts
  Config config;
  /// The limit for making the world.
  std::chrono::steady_clock::time_point deadline;
  /// Gives each rank the texts of all ranks, in the order of the ranks. Blocks, until the deadline
  /// at the latest; all ranks must call it equally often. Only while the world is made.
  std::function<Result<std::vector<std::string>>(const std::string& mine)> exchange;
  /// Nobody else knows the secret: Trust::proven, if all ranks say so.
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

/// Ranks that find each other without a store: their launcher has told them who they are.
struct BackendRendezvous {
  int rank = 0;
  int size = 1;
  /// As WorldOptions::exchange.
  std::function<Result<std::vector<std::string>>(const std::string& mine)> exchange;
};

/// How ranks of a backend that has a launcher of its own are started.
struct LaunchCommand {
  std::vector<std::string> argv;         ///< the program and its arguments follow
  std::vector<std::string> environment;  ///< "NAME=value", beside what this process has
};

/// Says if one backend keeps a promise. The tests of all backends expect what stands here.
struct PromiseRow {
  Promise promise = Promise::same_bits;
  bool kept = false;
  /// For people: what else is to be said; may be empty.
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
  /// function: always.
  std::function<std::string()> missing = {};
  /// One line on what it stands on here, for people ("Open MPI 4.1.4, ..."). No function: nothing.
  std::function<std::string()> about = {};
  /// How its ranks find each other where the caller names no store, no address, no rank and no
  /// size. No function: as the ranks of every backend. It gets InitOptions::backend_options, and
  /// the deadline of init, until which it and the exchange may block.
  std::function<Result<BackendRendezvous>(const std::any& backend_options,
                                          std::chrono::steady_clock::time_point deadline)>
      rendezvous = {};
  /// The group of all ranks, as this rank has it; the caller takes over the reference. Blocks until
  /// it can be used. A failure is the caller's to tell the other ranks.
  std::function<Result<Backend*>(const WorldOptions& options)> make_world;
  /// Makes a group for tensors of GPUs, with the ranks of `host`: a group on `native` that belongs
  /// to the new group alone, for its calls between hosts. It takes over the reference of `host`. No
  /// function: the backend has no such groups.
  std::function<Result<Backend*>(Backend* host, const WorldOptions& options)> make_gpu_group = {};
  /// The version of the library that it stands on here; 0: it cannot be used. Ranks whose versions
  /// differ cannot have a group on it. Asks no driver. No function: not told.
  std::function<int()> version = {};
  /// How many worlds of this process live, be it by their groups or Works. No function: not told.
  std::function<int()> alive = {};
  /// The command that starts so many ranks on this host, where only a launcher of its own can. No
  /// function: any launcher that sets the variables of the rendezvous.
  std::function<Result<LaunchCommand>(int ranks)> launch = {};
  /// Its promises, kept and not kept, in memory that stays; a promise that is missing is not
  /// kept.
  std::span<const PromiseRow> promises = {};
};

/// Makes a backend known, so that Config::backend may name it. For the rest of the process.
///
/// Threads: any.
/// Errors:  InvalidArgument for a name that is empty or taken, or without `make_world`.
void register_backend(BackendFactory factory);

/// Looks for plug-ins in this folder, too, before those where they are looked for anyway: for a
/// module that holds this library and is installed elsewhere. The folder is not trusted for being
/// named: its files must belong to this user, to root, or to whoever owns the program.
///
/// Threads: any.
void add_backend_folder(std::string folder);

/// The command that starts so many ranks on this backend on this host (`tuttirun --backend`);
/// nothing: any launcher can.
///
/// Errors: invalid_argument if no world can be made on it here; unsupported if its own launcher is
///         missing.
[[nodiscard]] Result<std::optional<LaunchCommand>> launch_command(std::string_view backend,
                                                                  int ranks);

}  // namespace tutti
