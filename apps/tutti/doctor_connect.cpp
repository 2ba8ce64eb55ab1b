#include <chrono>
#include <string>
#include <string_view>

#include <tutti/store.hpp>

#include "apps/tutti/doctor.hpp"
#include "base/deadline.hpp"
#include "base/format.hpp"
#include "base/shown.hpp"
#include "os/address.hpp"
#include "os/resolver.hpp"
#include "os/socket.hpp"
#include "rendezvous/environment.hpp"
#include "rendezvous/url.hpp"
#include "secure/handshake.hpp"
#include "store/job_secret.hpp"
#include "store/tcp_store.hpp"

namespace tutti::cli {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr auto kPatience = 5s;

/// One line for each address of the name: whether anything listens there.
bool reach(const std::string& host, std::uint16_t port, Findings& findings) {
  const auto deadline = base::deadline_after(Clock::now(), kPatience);
  auto addresses = os::resolve_until(host, port, deadline);
  if (!addresses) {
    findings.wrong(std::string(addresses.status().message()));
    return false;
  }
  bool reached = false;
  std::string last;
  for (const os::Address& address : *addresses) {
    const auto start = Clock::now();
    auto connected = os::connect_tcp(address, base::deadline_after(start, kPatience));
    if (connected) {
      const std::chrono::duration<double, std::milli> took = Clock::now() - start;
      findings.fact("connects",
                    base::format("to {} in {:.1f} ms", address.to_string(), took.count()));
      reached = true;
      continue;
    }
    const bool dropped = connected.status().code() == Errc::timeout;
    last = base::format("{}: {}", connected.status().message(),
                        dropped ? "is the host up, or does a firewall drop packets to this port?"
                                : "does something listen there, or does a firewall refuse?");
    findings.fact("connects", "not to " + address.to_string());
  }
  if (!reached) findings.wrong(last);
  return reached;
}

}  // namespace

void look_at_port(const std::string& endpoint, const Config& config, Findings& findings) {
  const std::string shown = base::shown_on_line(endpoint);
  findings.section("Connection to " + shown);
  auto url = rendezvous::parse_url("tcp://" + endpoint);
  if (!url) {
    findings.wrong(base::format("--connect is '{}'; it takes HOST:PORT or [IPv6]:PORT", shown));
    return;
  }
  TcpStoreOptions store;
  store.host = url->host;
  store.port = url->port;
  store.encrypt = config.tls;
  store.link_timeout = config.link_timeout;
  store.job = rendezvous::Environment({}).text("TUTTI_JOB").value_or("");
  if (!reach(store.host, store.port, findings)) return;
  auto secret = store::job_secret({});
  if (!secret) return;  // told with the settings
  const Outcome status = store::probe_tcp_store(store, *secret, kPatience);
  // A store compares the name of the job first.
  const Outcome other_job = secure::to_status(secure::Refusal::other_job);
  if (status) {
    findings.fact("handshake", secret->bytes.empty() ? "a store without a secret, as this process"
                                                     : "a store with this process's secret");
  } else if (status.message().ends_with(other_job.message())) {
    findings.fact("handshake", "a store of a job with another name");
    findings.wrong(
        "the store belongs to a job with another name, so neither secrets nor encryption were "
        "compared: give that name (--rdzv-id) as TUTTI_JOB");
  } else {
    findings.fact("handshake", "refused");
    findings.wrong(std::string(status.message()));
  }
}

}  // namespace tutti::cli
