#include <tutti/launch.hpp>

#include <fmt/ranges.h>

#include <algorithm>
#include <csignal>
#include <random>

#include "base/deadline.hpp"
#include "base/fnv.hpp"
#include "base/format.hpp"
#include "group/children.hpp"
#include "group/worlds.hpp"
#include "os/address.hpp"
#include "os/handed_memory.hpp"
#include "os/socket.hpp"
#include "store/job_secret.hpp"
#include "store/secret.hpp"
#include "store/tcp_server.hpp"

namespace tutti {
inline namespace v0 {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kMostProcesses = 4096;
// A rank that fails breaks the groups of others, and their errors may arrive before its own.
constexpr auto kForTheCause = std::chrono::seconds(1);

Outcome check(const std::function<void(int)>& fn, int nprocs) {
  if (!fn) return Outcome(Errc::invalid_argument, "spawn: there is no function to run");
  if (nprocs < 1 || nprocs > kMostProcesses) {
    return Outcome(Errc::invalid_argument,
                   base::format("spawn: {} processes; it must be 1 to {}", nprocs, kMostProcesses));
  }
  if (group::worlds_alive() > 0) {
    return Outcome(Errc::invalid_argument,
                   "spawn: this process has a process group already, and a fork cannot use its "
                   "parent's; call spawn before init_process_group or after the group's end, or "
                   "start the program with tuttirun");
  }
  return {};
}

Result<std::unique_ptr<store::TcpServer>> serve(const SecretBytes& secret, const Config& config,
                                                const std::string& job) {
  auto loopback = os::Address::parse("127.0.0.1", 0);
  if (!loopback) return loopback.status();
  store::TcpServerOptions options;
  options.address = *loopback;
  options.identity.secret = secret;
  options.secret_source = store::kGivenSecret;
  options.encrypt = config.tls;
  options.link_timeout = options.hello_timeout = config.link_timeout;
  options.identity.job = base::fnv_of(job);
  return store::TcpServer::start(std::move(options));
}

/// Waits until no child runs or the deadline has passed.
Outcome wait_all(group::Children& children, std::optional<Clock::time_point> deadline) {
  while (!children.running().empty() && (!deadline || Clock::now() < *deadline)) {
    if (Outcome status = children.wait_one(deadline); !status) return status;
  }
  return {};
}

/// Sends SIGTERM to the remaining children, then SIGKILL.
Outcome end_rest(group::Children& children, std::chrono::milliseconds grace) {
  children.signal(SIGTERM);
  // A stopped process sees the signal only when it is continued.
  children.signal(SIGCONT);
  if (Outcome status = wait_all(children, base::deadline_after(Clock::now(), grace)); !status)
    return status;
  children.signal(SIGKILL);
  return wait_all(children, Clock::now() + std::chrono::seconds(10));
}

/// The failure to report: the first that does not only follow from another.
const group::ChildFailure* cause(const group::Children& children) {
  const auto& failures = children.failures();
  const auto found =
      std::ranges::find_if(failures, [](const auto& one) { return !one.is_consequence(); });
  return found == failures.end() ? nullptr : &*found;
}

[[noreturn]] void raise_failure(const group::ChildFailure& failure, bool alone) {
  Outcome status(
      failure.code.value_or(Errc::peer_lost),
      base::format("spawn: {}{}", failure.describe(), alone ? "" : "; the other ranks were ended"));
  status.with_culprit(failure.rank);
  throw SpawnError(status, failure.end);
}

}  // namespace

void spawn(const std::function<void(int rank)>& fn, int nprocs, const SpawnOptions& options) {
  raise_if(check(fn, nprocs));
  std::optional<Clock::time_point> deadline;
  if (options.timeout) deadline = base::deadline_after(Clock::now(), *options.timeout);
  // The children read the same environment.
  const auto config = Config::from_environment();
  raise_if(config.status());
  auto secret = store::make_secret();
  raise_if(secret.status());
  group::ChildSettings settings;
  settings.size = nprocs;
  settings.secret_fd = secret->fd.get();
  auto name = os::name_handed(secret->fd);
  raise_if(name.status());
  settings.secret = std::move(*name);
  std::random_device random;
  settings.job = base::format("{:08x}{:08x}", random(), random());

  std::unique_ptr<store::TcpServer> server;
  group::Children children;  // ended before the server
  raise_if(children.fork(fn, settings));
  // Only after the fork, which must not copy a half-started server thread.
  auto started = serve(secret->secret, config.value(), settings.job);
  raise_if(started.status());
  server = std::move(*started);
  auto reserved = os::reserve_port(0);
  raise_if(reserved.status());
  auto master = os::local_address(reserved->get());
  raise_if(master.status());
  raise_if(children.go({server->address().port(), master->port()}));

  while (!children.running().empty() && children.failures().empty() &&
         (!deadline || Clock::now() < *deadline)) {
    raise_if(children.wait_one(deadline));
  }
  if (children.failures().empty()) {
    const std::vector<int> late = children.running();
    if (late.empty()) return;
    raise_if(end_rest(children, options.grace));
    raise(Outcome(Errc::timeout,
                  base::format("spawn: after {:.3f} s rank{} {} still ran; they were ended",
                               std::chrono::duration<double>(*options.timeout).count(),
                               late.size() > 1 ? "s" : "", fmt::join(late, ", "))));
  }
  const auto until = Clock::now() + kForTheCause;
  while (cause(children) == nullptr && !children.running().empty() && Clock::now() < until)
    raise_if(children.wait_one(until));
  const group::ChildFailure* found = cause(children);
  // The children that are ended now are no cause.
  const group::ChildFailure first = found != nullptr ? *found : children.failures().front();
  raise_if(end_rest(children, options.grace));
  raise_failure(first, nprocs == 1);
}

}  // namespace v0
}  // namespace tutti
