#include "backend/native/card.hpp"

#include <fmt/format.h>

#include <limits>
#include <optional>

#include <nlohmann/json.hpp>

#include "base/shown.hpp"
#include "os/address.hpp"

namespace tutti::native {
namespace {

using nlohmann::json;

constexpr std::size_t kMostHostName = 255;
constexpr int kNoQuota = 0;
constexpr auto kMostInt = static_cast<std::uint64_t>(std::numeric_limits<int>::max());

/// Takes the fields of a card one after the other; the first that is wrong is told.
class Fields {
 public:
  explicit Fields(const json& card) : card_(card) {}

  std::string text(const char* name) {
    const json* const value = find(name);
    if (value == nullptr || !value->is_string() ||
        value->get_ref<const std::string&>().size() > kMostCardText) {
      fail(name, fmt::format("no text of at most {} bytes", kMostCardText));
      return {};
    }
    return value->get<std::string>();
  }
  std::uint64_t number(const char* name, std::uint64_t least, std::uint64_t most) {
    const json* const value = find(name);
    const bool number = value != nullptr && value->is_number_unsigned();
    const std::uint64_t found = number ? value->get<std::uint64_t>() : 0;
    if (!number || found < least || found > most) {
      fail(name, fmt::format("no number from {} to {}", least, most));
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
      fail(name, fmt::format("no set of CPUs below {}, in hexadecimal", os::CpuSet::kMostCpus));
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
    if (trouble_.empty()) trouble_ = fmt::format("its '{}' is {}", name, what);
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

Status refusal(const std::string& why) {
  return Status(Errc::store, "the address card is not understood: " + why);
}

}  // namespace

std::string encode(const Card& card) {
  const os::CpuQuota quota = card.host.quota.value_or(os::CpuQuota{kNoQuota, 0});
  return json{{"boot", card.host.boot},
              {"host_key", card.host.host_key},
              {"host_name", card.host.host_name},
              {"listener", card.host.listener},
              {"network", card.host.network},
              {"nonce", card.host.nonce},
              {"pid", card.host.pid},
              {"pid_namespace", card.host.pid_namespace},
              {"cpus", card.host.cpus.to_text()},
              {"given_cpus", card.host.given_cpus.value_or(0)},
              {"quota", quota.cpus},
              {"quota_group", quota.group},
              {"fence", card.host.fence},
              {"address", card.address},
              {"store_host", card.store_host},
              {"settings", card.settings}}
      .dump(-1, ' ', false, json::error_handler_t::replace);  // host names may hold any bytes
}

Result<Card> decode(std::string_view text) {
  constexpr auto kAny = std::numeric_limits<std::uint64_t>::max();
  if (text.size() > kMostCardBytes)
    return refusal(
        fmt::format("it has {} bytes, at most {} are allowed", text.size(), kMostCardBytes));
  const json value = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!value.is_object()) return refusal("it is no JSON object");
  Fields fields(value);
  Card card;
  card.host.boot = fields.text("boot");
  card.host.host_key = fields.text("host_key");
  card.host.host_name = base::shown_on_line(fields.text("host_name"), kMostHostName);
  card.host.listener = fields.text("listener");
  card.host.network = fields.number("network", 0, kAny);
  card.host.nonce = fields.number("nonce", 0, kAny);
  card.host.pid = fields.integer("pid");
  card.host.pid_namespace = fields.number("pid_namespace", 0, kAny);
  card.host.cpus = fields.cpus("cpus");
  if (const auto given = static_cast<int>(fields.number("given_cpus", 0, kMostInt)); given > 0)
    card.host.given_cpus = given;
  const auto quota = static_cast<int>(fields.number("quota", kNoQuota, kMostInt));
  const std::uint64_t quota_group = fields.number("quota_group", 0, kAny);
  if (quota != kNoQuota) card.host.quota = os::CpuQuota{quota, quota_group};
  card.host.fence = fields.yes_or_no("fence");
  card.address = fields.text("address");
  card.store_host = fields.text("store_host");
  card.settings = fields.number("settings", 0, kAny);
  if (!card.address.empty() && !os::Address::parse_endpoint(card.address))
    fields.fail("address", "no numeric address with a port");
  // The interface that may stand behind it means something on its own host only.
  const std::string host = card.store_host.substr(0, card.store_host.find('%'));
  if (!card.store_host.empty() && !os::Address::parse(host, 0))
    fields.fail("store_host", "no numeric address");
  if (!fields.trouble().empty()) return refusal(fields.trouble());
  return card;
}

}  // namespace tutti::native
