#include "os/resolver.hpp"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "base/format.hpp"
#include "base/log.hpp"
#include "base/no_signals.hpp"
#include "base/shown.hpp"
#include "os/growing_pause.hpp"
#include "os/socket.hpp"

namespace tutti::os {
namespace {

using Addresses = Result<std::vector<Address>>;

struct Answer {
  std::mutex mutex;
  std::condition_variable came;
  std::optional<Addresses> addresses;
};

/// As `lookup`, but without memory an error that needs none.
Addresses look_up(const std::string& host, std::uint16_t port, const Lookup& lookup) noexcept {
  try {
    return lookup ? lookup(host, port) : Address::resolve(host, port);
  } catch (const std::exception&) {
    return Outcome(Errc::resource, "no memory");
  }
}

// getaddrinfo has no deadline, and a request of getaddrinfo_a that runs cannot be cancelled: its
// memory would have to stay, too. So a thread of our own calls getaddrinfo. It shares only the
// answer with us. At the deadline we stop waiting for it; it ends by the resolver's own limits.
Outcome start_lookup(const std::shared_ptr<Answer>& answer, const std::string& host,
                     std::uint16_t port, const Lookup& lookup) {
  const base::NoSignals no_signals;
  try {
    std::thread([answer, host, port, lookup]() noexcept {
      Addresses found = look_up(host, port, lookup);
      const std::lock_guard lock(answer->mutex);
      answer->addresses.emplace(std::move(found));
      answer->came.notify_all();
    }).detach();
  } catch (const std::exception& error) {
    return Outcome(Errc::resource, base::format("cannot start a thread: {}", error.what()));
  }
  return {};
}

Addresses ask_once(const std::string& host, std::uint16_t port, Deadline deadline,
                   const Lookup& lookup) {
  const auto answer = std::make_shared<Answer>();
  if (Outcome s = start_lookup(answer, host, port, lookup); !s) return s;
  std::unique_lock lock(answer->mutex);
  if (!answer->came.wait_until(lock, deadline, [&] { return answer->addresses.has_value(); })) {
    return Outcome(Errc::timeout, base::format("cannot find the address of host \"{}\": the name "
                                               "server has not answered in time",
                                               base::shown_on_line(host, 256)));
  }
  return *std::move(answer->addresses);
}

}  // namespace

Addresses resolve_until(const std::string& host, std::uint16_t port, Deadline deadline,
                        const Lookup& lookup) {
  if (auto numeric = Address::parse(host, port)) return std::vector<Address>{*numeric};
  GrowingPause pause;
  Outcome last;
  while (true) {
    Addresses found = ask_once(host, port, deadline, lookup);
    if (found) return found;
    // An answer of a name server tells more than a later silence.
    if (last.ok() || found.status().code() != Errc::timeout) last = found.status();
    if (std::chrono::steady_clock::now() >= deadline)
      return Outcome(Errc::timeout, std::string(last.message()));
    base::log_limited(base::Level::warning, "os.resolve",
                      base::format("{}; it is asked for again until the timeout is over",
                                   found.status().message()));
    const auto next = std::chrono::steady_clock::now() + pause.next();
    if (auto waited = wait_ready(-1, 0, std::min(deadline, next)); !waited) return waited.status();
  }
}

}  // namespace tutti::os
