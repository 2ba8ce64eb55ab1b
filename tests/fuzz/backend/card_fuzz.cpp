// Any bytes may stand in the store where a rank's address card should be: everything on the card is
// in its range, or it is refused with a message of bounded length. Half of the inputs are cards of
// which one field is something else.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "backend/native/card.hpp"
#include "fuzz/fuzzer.hpp"
#include "fuzz/input.hpp"
#include "fuzz/require.hpp"
#include "os/address.hpp"

using namespace tutti::native;
using tutti::fuzz::Input;
using tutti::fuzz::require;

namespace tutti::fuzz::card_parser {

constexpr std::array<std::pair<std::string_view, std::string_view>, 16> kFields = {{
    {"boot", "\"b\""},
    {"host_key", "\"k\""},
    {"host_name", "\"n\""},
    {"listener", "\"l\""},
    {"nonce", "1"},
    {"pid", "1"},
    {"cpus", "\"3\""},
    {"fence", "true"},
    {"address", "\"10.0.0.1:1\""},
    {"settings", "1"},
    {"given_cpus", "1"},
    {"quota", "1"},
    {"quota_group", "1"},
    {"pid_namespace", "1"},
    {"network", "1"},
    {"store_host", "\"10.0.0.1\""},
}};

std::string card_with(std::size_t changed, std::string_view value) {
  std::string text = "{";
  for (std::size_t i = 0; i < kFields.size(); ++i) {
    if (i > 0) text += ',';
    text.append("\"").append(kFields[i].first).append("\":");
    text += i == changed ? value : kFields[i].second;
  }
  return text + "}";
}

TUTTI_FUZZER(card_fuzz)(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  const std::size_t changed = input.number<std::uint8_t>() % (2 * kFields.size());
  const std::string text =
      changed < kFields.size() ? card_with(changed, input.rest()) : std::string(input.rest());
  auto card = decode(text);
  if (!card) {
    require(card.status().code() == tutti::Errc::store);
    require(card.status().message().size() < 500);
    return 0;
  }
  require(text.size() <= kMostCardBytes);
  require(card->host.pid > 0 && card->host.given_cpus.value_or(1) > 0);
  require(!card->host.quota || card->host.quota->cpus > 0);
  require(!card->host.cpus.has(tutti::os::CpuSet::kMostCpus));
  for (const std::string* one :
       {&card->host.boot, &card->host.host_key, &card->host.host_name, &card->host.listener})
    require(one->size() <= kMostCardText);
  require(card->address.empty() || tutti::os::Address::parse_endpoint(card->address));
  require(card->host.host_name.find('\n') == std::string::npos);
  require(decode(encode(*card)).ok());
  return 0;
}

}  // namespace tutti::fuzz::card_parser
