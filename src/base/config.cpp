#include <tutti/config.hpp>

#include <algorithm>
#include <cstdlib>
#include <initializer_list>
#include <limits>
#include <span>
#include <string_view>

#include "base/config_words.hpp"
#include "base/deadline.hpp"
#include "base/format.hpp"
#include "base/number.hpp"

namespace tutti {
inline namespace v0 {
namespace {

Outcome bad(const char* name, std::string_view value, const char* allowed) {
  return Outcome(Errc::invalid_argument,
                 base::format("{}='{}' is not understood; allowed: {}", name, value, allowed));
}

constexpr double kNever = std::numeric_limits<double>::infinity();

/// Infinity becomes a time that does not end.
std::chrono::nanoseconds nanoseconds_of(double seconds) {
  if (seconds == kNever) return base::kNoLimit;
  return std::chrono::nanoseconds(static_cast<std::int64_t>(seconds * 1e9));
}

/// The position of `value` in the list, or -1.
int position(std::string_view value, std::span<const std::string_view> list) {
  const auto found = std::ranges::find(list, value);
  return found == list.end() ? -1 : static_cast<int>(found - list.begin());
}

int position(std::string_view value, std::initializer_list<std::string_view> list) {
  return position(value, std::span(list.begin(), list.size()));
}

}  // namespace

Result<Config> Config::from_environment(const Lookup& lookup) {
  Config config;
  const auto get = [&](const char* name) -> std::optional<std::string> {
    const char* const value = lookup ? lookup(name) : std::getenv(name);
    if (value == nullptr || *value == '\0') return std::nullopt;
    return std::string(value);
  };
  if (const auto value = get("TUTTI_TIMEOUT")) {
    const double seconds = base::real_number(*value).value_or(-1);
    if (!(seconds >= 1e-9) || (seconds > 1e9 && seconds != kNever))
      return bad("TUTTI_TIMEOUT", *value, "seconds, more than 0");
    config.timeout = nanoseconds_of(seconds);
  }
  if (const auto value = get("TUTTI_LINK_TIMEOUT")) {
    const double seconds = base::real_number(*value).value_or(-1);
    if (!(seconds >= 1) || seconds > 32767)
      return bad("TUTTI_LINK_TIMEOUT", *value, "seconds, 1 to 32767");
    config.link_timeout = std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1e3));
  }
  if (const auto value = get("TUTTI_STALL_WARNING")) {
    const double seconds = base::real_number(*value).value_or(-1);
    if (!(seconds >= 0) || (seconds > 1e9 && seconds != kNever))
      return bad("TUTTI_STALL_WARNING", *value, "seconds, 0 for never");
    config.stall_warning = nanoseconds_of(seconds);
  }
  if (const auto value = get("TUTTI_FLIGHT_RECORDER")) {
    const int at = position(*value, {"off", "on"});
    if (at < 0) return bad("TUTTI_FLIGHT_RECORDER", *value, "on, off");
    config.flight_recorder = at == 1;
  }
  if (const auto value = get("TUTTI_BACKEND")) config.backend = *value;
  if (const auto value = get("TUTTI_AGREE")) {
    const int at = position(*value, base::kAgreeWords);
    if (at < 0) return bad("TUTTI_AGREE", *value, "normal, strict, off");
    config.agree = static_cast<Agree>(at);
  }
  if (const auto value = get("TUTTI_TRANSPORT")) {
    const int at = position(*value, base::kTransportWords);
    if (at < 0) return bad("TUTTI_TRANSPORT", *value, "auto, shm, tcp");
    config.transport = static_cast<TransportChoice>(at);
  }
  if (const auto value = get("TUTTI_TLS")) {
    const int at = position(base::without_blanks(*value), {"0", "1"});
    if (at < 0) return bad("TUTTI_TLS", *value, "0, 1");
    config.tls = at == 1;
  }
  if (const auto value = get("TUTTI_CUDA_IPC")) {
    const int at = position(*value, {"off", "on"});
    if (at < 0) return bad("TUTTI_CUDA_IPC", *value, "on, off");
    config.cuda_ipc = at == 1;
  }
  if (const auto value = get("TUTTI_CPUS")) {
    config.cpus = base::whole_number(*value).value_or(0);
    if (config.cpus < 1 || config.cpus > 65536) return bad("TUTTI_CPUS", *value, "1 to 65536");
  }
  if (const auto value = get("TUTTI_PORT")) {
    config.port = base::whole_number(*value).value_or(0);
    if (config.port < 1 || config.port > 65535) return bad("TUTTI_PORT", *value, "1 to 65535");
  }
  if (const auto value = get("TUTTI_LOG_LEVEL")) {
    const int at = position(*value, {"debug", "info", "warning", "error", "off"});
    if (at < 0) return bad("TUTTI_LOG_LEVEL", *value, "debug, info, warning, error, off");
    config.log_level = static_cast<LogLevel>(at);
  }
  config.algorithms = get("TUTTI_ALGO").value_or("");
  config.host_id = get("TUTTI_HOST_ID").value_or("");
  config.interfaces = get("TUTTI_SOCKET_IFNAME").value_or("");
  config.advertise = get("TUTTI_ADVERTISE").value_or("");
  return config;
}

}  // namespace v0
}  // namespace tutti
