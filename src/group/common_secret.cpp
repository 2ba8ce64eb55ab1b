#include "group/common_secret.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

namespace tutti::group {
namespace {

constexpr std::string_view kGiven = "given ";
constexpr std::string_view kKey = "key ";
constexpr std::string_view kNone = "none";

}  // namespace

Result<SecretOffer> SecretOffer::make(const store::Lookup& lookup) {
  SecretOffer offer;
  offer.line_ = kNone;
  auto given = store::given_secret(lookup);
  if (!given) return given.status();
  auto secret = *given ? Result<store::JobSecret>(**given) : store::job_secret(lookup);
  // Without a key there is the secret that rank 0 hands out.
  if (!secret || secret->bytes.empty()) return offer;
  auto name = store::private_name(*secret, "common secret");
  if (!name) return name.status();
  offer.line_ = std::string(*given ? kGiven : kKey) + *name;
  offer.secret_ = std::move(*secret);
  return offer;
}

Result<std::optional<std::vector<std::byte>>> SecretOffer::common(
    const std::vector<std::string>& lines) const {
  const auto other = std::ranges::find_if(lines, [&](const auto& line) { return line != line_; });
  if (other == lines.end()) {
    if (line_ == kNone) return std::optional<std::vector<std::byte>>();
    return std::optional(secret_.bytes);
  }
  const auto given =
      std::ranges::find_if(lines, [](const std::string& line) { return line.starts_with(kGiven); });
  if (given == lines.end()) return std::optional<std::vector<std::byte>>();
  const auto unlike =
      std::ranges::find_if(lines, [&](const std::string& line) { return line != *given; });
  return Status(
      Errc::invalid_argument,
      fmt::format("rank {} was given a secret (TUTTI_SECRET_FILE or TUTTI_SECRET_FD), and "
                  "rank {} has another one or none; give all ranks the same",
                  given - lines.begin(), unlike - lines.begin()));
}

}  // namespace tutti::group
