#include "rendezvous/beside_agent.hpp"

#include <poll.h>

#include <algorithm>
#include <chrono>

#include "base/deadline.hpp"
#include "base/format.hpp"
#include "base/log.hpp"
#include "os/socket.hpp"

namespace tutti::rendezvous {
namespace {

using namespace std::chrono_literals;
using base::left_until;
using Clock = Store::Clock;
using std::chrono::milliseconds;

// Other jobs of torchrun on the host have ports of their own, and stores beside them.
constexpr int kPorts = 8;
constexpr milliseconds kProbe = 2s;
constexpr milliseconds kWarnAfter = 2s;
constexpr milliseconds kPause = 50ms;

/// The port at which the store of this job serves; throws when the time is over.
std::uint16_t find_port(TcpStoreOptions options, const store::JobSecret& secret,
                        const std::vector<std::uint16_t>& ports, os::Deadline deadline,
                        const store::OnWait& on_wait) {
  const auto warn_at = Clock::now() + kWarnAfter;
  bool warned = false;
  Outcome last;
  while (true) {
    Outcome objection;   // of a store that is not ours
    Outcome difference;  // from ours
    // The last round begins at the deadline: only an answer at once tells more than those before.
    const bool has_time = last.ok() || Clock::now() < deadline;
    for (const std::uint16_t port : ports) {
      options.port = port;
      const Outcome found =
          store::probe_tcp_store(options, secret, std::min(kProbe, left_until(deadline)));
      if (found) return port;
      const bool others = found.code() == Errc::refused || found.code() == Errc::unsupported;
      if (others && objection) objection = found;
      if (found.code() == Errc::disagreement) difference = found;
      if (has_time || found.code() != Errc::timeout) last = found;
    }
    // Nothing proves that it is ours; but a stranger could as well end the job by torchrun's store.
    if (!difference) raise(Outcome(Errc::refused, std::string(difference.message())));
    // Nobody, or a server of another job: rank 0 may still come.
    const Outcome& answer = objection ? last : objection;
    if (on_wait)
      on_wait(base::format("a store of this job at {}, ports {} to {}", options.host, ports.front(),
                           ports.back()),
              base::format("is not there ({})", answer.message()));
    if (!warned && Clock::now() >= warn_at) {
      warned = true;
      base::log(base::Level::warning, base::format("{}; looking for rank 0 on", answer.message()));
    }
    if (Clock::now() >= deadline) {
      raise(Outcome(
          Errc::timeout,
          base::format("no store of this job at {}, ports {} to {}, beside that of torchrun "
                       "(the last answer: {}); is rank 0 running, and may this host reach "
                       "these ports?",
                       options.host, ports.front(), ports.back(), answer.message())));
    }
    (void)os::wait_ready(-1, 0, std::min(deadline, Clock::now() + kPause));
  }
}

}  // namespace

std::optional<std::string> job_of_agent(const Environment& environment) {
  if (environment.text("TORCHELASTIC_USE_AGENT_STORE").value_or("") != "True") return std::nullopt;
  const auto variable = [&](const char* name) { return environment.text(name).value_or(""); };
  return base::format("torchrun {} {} {}", variable("MASTER_PORT"), variable("TORCHELASTIC_RUN_ID"),
                      variable("TORCHELASTIC_RESTART_COUNT"));
}

std::vector<std::uint16_t> ports_beside(std::uint16_t master_port) {
  const int step = master_port > UINT16_MAX - kPorts ? -1 : 1;
  std::vector<std::uint16_t> ports;
  for (int i = 1; i <= kPorts; ++i)
    ports.push_back(static_cast<std::uint16_t>(master_port + step * i));
  return ports;
}

store::JoinedStore join_beside_agent(TcpStoreOptions options, const store::JobSecret& secret,
                                     const store::Request& first,
                                     const store::KeyAndText& when_refused,
                                     const store::OnWait& on_wait) {
  const auto deadline = base::deadline_after(Clock::now(), options.timeout);
  const std::vector<std::uint16_t> ports = ports_beside(options.port);
  if (!options.serve) {
    options.port = find_port(options, secret, ports, deadline, on_wait);
    options.timeout = left_until(deadline);
    return store::join_tcp_store(options, secret, &first, store::Listens::beside_agent, {},
                                 on_wait);
  }
  for (const std::uint16_t port : ports) {
    options.port = port;
    options.timeout = left_until(deadline);
    try {
      return store::join_tcp_store(options, secret, &first, store::Listens::beside_agent,
                                   when_refused);
    } catch (const StoreError&) {
      if (port == ports.back()) throw;  // else in use by another job
    }
  }
  raise(Outcome(Errc::internal, "there are no ports beside torchrun's"));
}

}  // namespace tutti::rendezvous
