#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>

#include <tutti/error.hpp>
#include <tutti/export.hpp>
#include <tutti/log.hpp>

namespace tutti {
inline namespace TUTTI_EXPORT v0 {

/// Every setting that an environment variable can give, in one place. Read when a world is made,
/// not when the library is loaded. docs/reference/configuration.md lists them.
struct Config {
  /// TUTTI_TIMEOUT, seconds. How long an operation and init may take where the call does not say.
  /// Default 1800 (torch.distributed's 30 minutes).
  std::chrono::nanoseconds timeout = std::chrono::minutes(30);

  /// TUTTI_BACKEND. The engine of the operations: a name of available_backends(), or one for each
  /// device of tensors, "cpu:native,cuda:nccl". "auto": native, but collectives on GPUs go to NCCL
  /// in each group whose ranks can use it (docs/reference/backends.md). Must be equal on
  /// all ranks. init_process_group and run_threads refuse one that there is not.
  std::string backend = "auto";

  enum class Agree { normal, strict, off };
  /// TUTTI_AGREE = normal | strict | off. strict: nobody returns before the calls of all ranks were
  /// compared; costs broadcast a few microseconds with more ranks than cores. off: calls are not
  /// compared where that costs anything, which is on mpi; native compares always. Must be equal on
  /// all.
  Agree agree = Agree::normal;

  enum class TransportChoice { automatic, shm, tcp };
  /// TUTTI_TRANSPORT = auto | shm | tcp. auto takes shared memory between processes that share a
  /// host, TCP otherwise. shm refuses to start where it is not possible. Must be equal on all.
  TransportChoice transport = TransportChoice::automatic;

  /// TUTTI_ALGO, e.g. "all_reduce:ring,broadcast:binomial_broadcast". Must be equal on all ranks.
  std::string algorithms;

  /// TUTTI_TLS = 0 | 1. 1: every TCP connection, to the store and between ranks, is encrypted
  /// (TLS 1.3) with keys that come from the job's secret, so there must be one. Must be equal on
  /// all ranks and where the store is served.
  bool tls = false;

  /// TUTTI_CUDA_IPC = on | off. on: collectives of a group whose ranks are all on one host, and
  /// messages of more than 64 KiB between two ranks of one host, move tensors of GPUs from GPU to
  /// GPU, by memory that the processes share; large collectives that cannot do so are copied
  /// through memory of the host in parts (docs/reference/backends.md). Must be equal on all ranks.
  bool cuda_ipc = false;

  /// TUTTI_LINK_TIMEOUT, seconds, 1 to 32767. How long a rank's host, or the store's, may answer
  /// nothing before it counts as lost. Of 15 s a gap of up to 8 s is survived
  /// (docs/reference/errors.md).
  std::chrono::milliseconds link_timeout = std::chrono::seconds(15);

  /// TUTTI_STALL_WARNING, seconds; 0: never. An operation that has waited so long is told in the
  /// log, as a warning, by one rank of its group, and again at growing intervals.
  std::chrono::nanoseconds stall_warning = std::chrono::seconds(30);

  /// TUTTI_FLIGHT_RECORDER = on | off. on: the last 1,024 operations of each rank are noted in
  /// memory that tuttirun, or another process of the same user, can read
  /// (docs/reference/flight-recorder.md).
  bool flight_recorder = true;

  /// TUTTI_CPUS. CPUs that the ranks of this host have together; default: the union of the
  /// ranks' affinities, capped by cgroup quotas. Decides between spinning and yielding, and between
  /// algorithms. The least of all ranks counts.
  std::optional<int> cpus;

  /// TUTTI_HOST_ID. Ranks with different ids never share memory, as if on different hosts. For
  /// tests.
  std::string host_id;

  /// TUTTI_SOCKET_IFNAME, e.g. "eth0,ib", "=eth0" or "^docker,lo". The network interface at whose
  /// address this rank listens; docs/reference/configuration.md tells how a list is read. Empty:
  /// the variables TUTTI_SOCKET_IFNAME, GLOO_SOCKET_IFNAME, NCCL_SOCKET_IFNAME are looked at, and
  /// without them it is the address by which this rank reaches the master.
  std::string interfaces;

  /// TUTTI_ADVERTISE, "HOST" or "HOST:PORT". By which address the other ranks reach this one, where
  /// that is none of its own (NAT, published ports); it then listens on all addresses. The port is
  /// that of local rank 0: each rank adds its own number. Empty: an address of this host.
  std::string advertise;

  /// TUTTI_PORT, 1 to 65535. The port on which local rank 0 of this host listens; each rank adds
  /// its own number. Absent: any.
  std::optional<int> port;

  /// TUTTI_LOG_LEVEL = debug | info | warning | error | off. Least level that reaches the log sink.
  LogLevel log_level = LogLevel::warning;

  /// Reads the environment through `lookup` (nullptr = getenv). InvalidArgument names the variable,
  /// its value and what is allowed.
  using Lookup = std::function<const char*(const char* name)>;
  [[nodiscard]] static Result<Config> from_environment(const Lookup& lookup = {});
};

}  // namespace v0
}  // namespace tutti
