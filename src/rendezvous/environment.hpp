#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include <tutti/error.hpp>

// The place of a process in its job, from environment variables.
namespace tutti::rendezvous {

/// invalid_argument: "cannot join the job: <what>".
[[nodiscard]] Outcome cannot_join(std::string_view what);

/// All variables of ours that are read while processes find each other, beside the settings
/// (Config). Where one is read, it stands here; tools/check_docs.py looks.
inline constexpr std::array kRendezvousVariables = {"TUTTI_AGENT_STORE", "TUTTI_INSECURE",
                                                    "TUTTI_JOB",         "TUTTI_SECRET_FD",
                                                    "TUTTI_SECRET_FILE", "TUTTI_STORE_PORT"};

/// Those that name network interfaces; the first that is set and not empty counts. The first of all
/// is a setting, which a program may give itself.
inline constexpr std::array kInterfaceVariables = {"TUTTI_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME",
                                                   "NCCL_SOCKET_IFNAME"};

class Environment {
 public:
  using Lookup = std::function<const char*(const char* name)>;
  /// Null: the process's own environment, read at each call.
  explicit Environment(Lookup lookup) : lookup_(std::move(lookup)) {}

  [[nodiscard]] std::optional<std::string> text(const char* name) const;
  /// The same, but an empty one counts as not set.
  [[nodiscard]] std::optional<std::string> filled(const char* name) const;
  /// Nothing if it is not set.
  /// Errors: invalid_argument if it is not a whole number; names the variable.
  Result<std::optional<int>> number(const char* name) const;
  [[nodiscard]] const Lookup& lookup() const noexcept { return lookup_; }

 private:
  Lookup lookup_;
};

/// Our rank and the number of ranks. Given values stay; the rest comes from RANK, WORLD_SIZE
/// and LOCAL_RANK, and what is still missing from the variables of mpirun (Open MPI), mpiexec (PMI)
/// or srun.
struct Place {
  std::optional<int> rank;
  std::optional<int> size;
  std::optional<int> local_rank;
  /// How many of the job are on this host, if the launcher says.
  std::optional<int> local_size;
  /// Name of the launcher whose variables were used; empty: of none.
  std::string launcher;
  /// Its number or name of this job, as far as it tells.
  std::string launcher_job;
};
Outcome complete(Place& place, const Environment& environment);
/// An error unless these numbers make sense together.
Outcome check_place(const Place& place);

/// An error unless rank 0 can be reached there; `variable` has the port.
Outcome check_master(const std::string& host, int port, const char* variable);

inline constexpr std::size_t kMostJobNameBytes = 128;

Outcome check_job_name(const std::string& name);

/// TUTTI_AGENT_STORE.
Result<bool> agent_serves(const Environment& environment);

}  // namespace tutti::rendezvous
