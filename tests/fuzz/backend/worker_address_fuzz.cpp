// Any bytes may stand for a worker's address: each field of the result is in its range, or the text
// is refused with a message of bounded length. Half of the inputs are addresses with one new field.

#include <array>
#include <string>
#include <utility>

#include "backend/native/worker_address.hpp"
#include "base/agreed_settings.hpp"
#include "fuzz/fuzzer.hpp"
#include "fuzz/input.hpp"
#include "os/address.hpp"

using namespace tutti::native;

namespace tutti::fuzz::worker_address_parser {

constexpr std::array<std::pair<std::string_view, std::string_view>, 17> kFields = {{
    {"boot", "\"b\""},
    {"host_key", "\"k\""},
    {"host_name", "\"n\""},
    {"listener", "\"l\""},
    {"nonce", "1"},
    {"pid", "1"},
    {"cpus", "\"3\""},
    {"fence", "true"},
    {"address", "\"10.0.0.1:1\""},
    {"settings", "\"TUTTI_TLS=1\""},
    {"given_cpus", "1"},
    {"quota", "1"},
    {"quota_group", "1"},
    {"pid_namespace", "1"},
    {"network", "1"},
    {"store_host", "\"10.0.0.1\""},
    {"folder", "\"1a:7\""},
}};

std::string address_with(std::size_t changed, std::string_view value) {
  std::string text = "{";
  for (std::size_t i = 0; i < kFields.size(); ++i) {
    if (i > 0) text += ',';
    text.append("\"").append(kFields[i].first).append("\":");
    text += i == changed ? value : kFields[i].second;
  }
  return text + "}";
}

TUTTI_FUZZER(worker_address_fuzz)(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  const std::size_t changed = input.number<std::uint8_t>() % (2 * kFields.size());
  const std::string text =
      changed < kFields.size() ? address_with(changed, input.rest()) : std::string(input.rest());
  auto worker_address = decode(text);
  if (!worker_address) {
    require(worker_address.status().code() == tutti::Errc::store);
    require(worker_address.status().message().size() < 500);
    return 0;
  }
  require(text.size() <= kMostWorkerAddressBytes);
  require(worker_address->host.pid > 0 && worker_address->host.given_cpus.value_or(1) > 0);
  require(!worker_address->host.quota || worker_address->host.quota->cpus > 0);
  require(!worker_address->host.cpus.has(tutti::os::CpuSet::kMostCpus));
  for (const std::string* one :
       {&worker_address->host.boot, &worker_address->host.host_key, &worker_address->host.host_name,
        &worker_address->host.listener, &worker_address->host.folder})
    require(one->size() <= kMostWorkerAddressText);
  require(worker_address->address.empty() ||
          tutti::os::Address::parse_endpoint(worker_address->address));
  require(worker_address->host.host_name.find('\n') == std::string::npos);
  require(worker_address->host.listener.find('/') == std::string::npos);
  require(decode(encode(*worker_address)).ok());
  const std::string differ =
      base::settings_that_differ(base::agreed_settings_of({}), 0, worker_address->settings, 1);
  require(differ.find('\n') == std::string::npos && differ.size() < 4000);
  return 0;
}

}  // namespace tutti::fuzz::worker_address_parser
