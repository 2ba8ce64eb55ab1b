#include "backend/native/worker_address.hpp"

#include <limits>
#include <optional>

#include <nlohmann/json.hpp>

#include "base/format.hpp"
#include "base/shown.hpp"
#include "os/address.hpp"

namespace tutti::native {
namespace {

using nlohmann::json;

constexpr std::size_t kMostHostName = 255;
constexpr int kNoQuota = 0;
constexpr auto kMostInt = static_cast<std::uint64_t>(std::numeric_limits<int>::max());

/// Reads the fields of a worker's address in order, and reports the first that is wrong.
class Fields {
 public:
  explicit Fields(const json& worker_address) : card_(worker_address) {}

  std::string text(const char* name) {
    const json* const value = find(name);
    if (value == nullptr || !value->is_string() ||
        value->get_ref<const std::string&>().size() > kMostWorkerAddressText) {
      fail(name, base::format("no text of at most {} bytes", kMostWorkerAddressText));
      return {};
    }
    return value->get<std::string>();
  }
  std::uint64_t number(const char* name, std::uint64_t least, std::uint64_t most) {
    const json* const value = find(name);
    const bool number = value != nullptr && value->is_number_unsigned();
    const std::uint64_t found = number ? value->get<std::uint64_t>() : 0;
    if (!number || found < least || found > most) {
      fail(name, base::format("no number from {} to {}", least, most));
      return least;
    }
    return found;
  }
  os::CpuSet cpus(const char* name) {
    const json* const value = find(name);
    std::optional<os::CpuSet> set;
    if (value != nullptr && value->is_string())
      set = os::CpuSet::parse(value->get_ref<const std::string&>());
    if (!set)
      fail(name, base::format("no set of CPUs below {}, in hexadecimal", os::CpuSet::kMostCpus));
    return set.value_or(os::CpuSet{});
  }
  int integer(const char* name) { return static_cast<int>(number(name, 1, kMostInt)); }
  bool yes_or_no(const char* name) {
    const json* const value = find(name);
    if (value != nullptr && value->is_boolean()) return value->get<bool>();
    fail(name, "neither true nor false");
    return false;
  }
  void fail(const char* name, const std::string& what) {
    if (trouble_.empty()) trouble_ = base::format("its '{}' is {}", name, what);
  }
  [[nodiscard]] const std::string& trouble() const noexcept { return trouble_; }

 private:
  [[nodiscard]] const json* find(const char* name) const {
    const auto at = card_.find(name);
    return at == card_.end() ? nullptr : &*at;
  }

  const json& card_;
  std::string trouble_;
};

Outcome refusal(const std::string& why) {
  return Outcome(Errc::store, "the address worker_address is not understood: " + why);
}

}  // namespace

std::string encode(const WorkerAddress& worker_address) {
  const os::CpuQuota quota = worker_address.host.quota.value_or(os::CpuQuota{kNoQuota, 0});
  return json{{"boot", worker_address.host.boot},
              {"host_key", worker_address.host.host_key},
              {"host_name", worker_address.host.host_name},
              {"listener", worker_address.host.listener},
              {"folder", worker_address.host.folder},
              {"network", worker_address.host.network},
              {"nonce", worker_address.host.nonce},
              {"pid", worker_address.host.pid},
              {"pid_namespace", worker_address.host.pid_namespace},
              {"cpus", worker_address.host.cpus.to_text()},
              {"given_cpus", worker_address.host.given_cpus.value_or(0)},
              {"quota", quota.cpus},
              {"quota_group", quota.group},
              {"fence", worker_address.host.fence},
              {"address", worker_address.address},
              {"store_host", worker_address.store_host},
              {"settings", worker_address.settings}}
      .dump(-1, ' ', false, json::error_handler_t::replace);  // host names may hold any bytes
}

Result<WorkerAddress> decode(std::string_view text) {
  constexpr auto kAny = std::numeric_limits<std::uint64_t>::max();
  if (text.size() > kMostWorkerAddressBytes)
    return refusal(base::format("it has {} bytes, at most {} are allowed", text.size(),
                                kMostWorkerAddressBytes));
  const json value = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!value.is_object()) return refusal("it is no JSON object");
  Fields fields(value);
  WorkerAddress worker_address;
  worker_address.host.boot = fields.text("boot");
  worker_address.host.host_key = fields.text("host_key");
  worker_address.host.host_name = base::shown_on_line(fields.text("host_name"), kMostHostName);
  worker_address.host.listener = fields.text("listener");
  if (worker_address.host.listener.find('/') != std::string::npos)
    fields.fail("listener", "no name of a socket");
  worker_address.host.folder = fields.text("folder");
  worker_address.host.network = fields.number("network", 0, kAny);
  worker_address.host.nonce = fields.number("nonce", 0, kAny);
  worker_address.host.pid = fields.integer("pid");
  worker_address.host.pid_namespace = fields.number("pid_namespace", 0, kAny);
  worker_address.host.cpus = fields.cpus("cpus");
  if (const auto given = static_cast<int>(fields.number("given_cpus", 0, kMostInt)); given > 0)
    worker_address.host.given_cpus = given;
  const auto quota = static_cast<int>(fields.number("quota", kNoQuota, kMostInt));
  const std::uint64_t quota_group = fields.number("quota_group", 0, kAny);
  if (quota != kNoQuota) worker_address.host.quota = os::CpuQuota{quota, quota_group};
  worker_address.host.fence = fields.yes_or_no("fence");
  worker_address.address = fields.text("address");
  worker_address.store_host = fields.text("store_host");
  worker_address.settings = fields.text("settings");
  if (!worker_address.address.empty() && !os::Address::parse_endpoint(worker_address.address))
    fields.fail("address", "no numeric address with a port");
  // It may end with %interface, which is valid on its own host only.
  const std::string host = worker_address.store_host.substr(0, worker_address.store_host.find('%'));
  if (!worker_address.store_host.empty() && !os::Address::parse(host, 0))
    fields.fail("store_host", "no numeric address");
  if (!fields.trouble().empty()) return refusal(fields.trouble());
  return worker_address;
}

}  // namespace tutti::native
