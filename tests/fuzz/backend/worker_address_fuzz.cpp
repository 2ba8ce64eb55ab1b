// Any bytes may stand for a worker's address: each field of the result is in its range, or the text
// is refused with a message of bounded length. Half of the inputs are an address with some bytes
// changed.

#include <algorithm>
#include <string>

#include "backend/native/worker_address.hpp"
#include "base/agreed_settings.hpp"
#include "fuzz/fuzzer.hpp"
#include "fuzz/input.hpp"
#include "os/address.hpp"

using namespace tutti::native;

namespace tutti::fuzz::worker_address_parser {

std::string an_address() {
  WorkerAddress one;
  one.host.boot = "b";
  one.host.host_key = "k";
  one.host.host_name = "n";
  one.host.listener = "l";
  one.host.folder = "1a:7";
  one.host.pid = 1;
  one.host.cpus = os::CpuSet::of({0, 1});
  one.host.quota = os::CpuQuota{1, 1};
  one.address = "10.0.0.1:1";
  one.store_host = "10.0.0.1";
  one.settings = "TUTTI_TLS=1";
  return encode(one);
}

TUTTI_FUZZER(worker_address_fuzz)(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  std::string text;
  if (input.number<std::uint8_t>() % 2 == 0) {
    text = input.rest();
  } else {
    text = an_address();
    const std::size_t at = input.number<std::uint16_t>() % text.size();
    const std::string_view put = input.rest();
    text.replace(at, std::min(put.size(), text.size() - at), put);
  }
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
