#include <tutti/config.hpp>

#include <fmt/format.h>

#include <cstdlib>
#include <string_view>

namespace tutti {
namespace {

Status bad(const char* name, std::string_view value, const char* allowed) {
  return Status(Errc::invalid_argument,
                fmt::format("{}='{}' is not understood; allowed: {}", name, value, allowed));
}

/// The position of `value` in the list, or -1.
int position(std::string_view value, std::initializer_list<std::string_view> list) {
  int at = 0;
  for (const std::string_view one : list) {
    if (one == value) return at;
    ++at;
  }
  return -1;
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
    char* end = nullptr;
    const double seconds = std::strtod(value->c_str(), &end);
    if (*end != '\0' || !(seconds >= 1e-9) || seconds > 1e9) {
      return bad("TUTTI_TIMEOUT", *value, "seconds, more than 0");
    }
    config.timeout = std::chrono::nanoseconds(static_cast<std::int64_t>(seconds * 1e9));
  }
  if (const auto value = get("TUTTI_LINK_TIMEOUT")) {
    char* end = nullptr;
    const double seconds = std::strtod(value->c_str(), &end);
    if (*end != '\0' || !(seconds >= 1) || seconds > 32767)
      return bad("TUTTI_LINK_TIMEOUT", *value, "seconds, 1 to 32767");
    config.link_timeout = std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1e3));
  }
  if (const auto value = get("TUTTI_STALL_WARNING")) {
    char* end = nullptr;
    const double seconds = std::strtod(value->c_str(), &end);
    if (*end != '\0' || !(seconds >= 0) || seconds > 1e9)
      return bad("TUTTI_STALL_WARNING", *value, "seconds, 0 for never");
    config.stall_warning = std::chrono::nanoseconds(static_cast<std::int64_t>(seconds * 1e9));
  }
  if (const auto value = get("TUTTI_FLIGHT_RECORDER")) {
    const int at = position(*value, {"off", "on"});
    if (at < 0) return bad("TUTTI_FLIGHT_RECORDER", *value, "on, off");
    config.flight_recorder = at == 1;
  }
  if (const auto value = get("TUTTI_BACKEND")) config.backend = *value;
  if (const auto value = get("TUTTI_AGREE")) {
    const int at = position(*value, {"normal", "strict", "off"});
    if (at < 0) return bad("TUTTI_AGREE", *value, "normal, strict, off");
    config.agree = static_cast<Agree>(at);
  }
  if (const auto value = get("TUTTI_TRANSPORT")) {
    const int at = position(*value, {"auto", "shm", "tcp"});
    if (at < 0) return bad("TUTTI_TRANSPORT", *value, "auto, shm, tcp");
    config.transport = static_cast<TransportChoice>(at);
  }
  if (const auto value = get("TUTTI_TLS")) {
    const int at = position(*value, {"0", "1"});
    if (at < 0) return bad("TUTTI_TLS", *value, "0, 1");
    config.tls = at == 1;
  }
  if (const auto value = get("TUTTI_CUDA_IPC")) {
    const int at = position(*value, {"off", "on"});
    if (at < 0) return bad("TUTTI_CUDA_IPC", *value, "on, off");
    config.cuda_ipc = at == 1;
  }
  if (const auto value = get("TUTTI_CPUS")) {
    char* end = nullptr;
    const long cpus = std::strtol(value->c_str(), &end, 10);
    if (*end != '\0' || cpus < 1 || cpus > 65536) return bad("TUTTI_CPUS", *value, "1 to 65536");
    config.cpus = static_cast<int>(cpus);
  }
  if (const auto value = get("TUTTI_PORT")) {
    char* end = nullptr;
    const long port = std::strtol(value->c_str(), &end, 10);
    if (*end != '\0' || port < 1 || port > 65535) return bad("TUTTI_PORT", *value, "1 to 65535");
    config.port = static_cast<int>(port);
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

}  // namespace tutti
