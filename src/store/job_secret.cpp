#include "store/job_secret.hpp"

#include <strings.h>

#include <cstdlib>
#include <span>
#include <utility>

#include "base/format.hpp"
#include "base/number.hpp"
#include "base/shown.hpp"
#include "secure/hmac.hpp"
#include "store/secret.hpp"
#include "store/user_key.hpp"

namespace tutti::store {
namespace {

constexpr std::size_t kMostPath = 256;

std::string_view value_of(const Lookup& lookup, const char* name) {
  const char* const value = lookup ? lookup(name) : std::getenv(name);
  return value == nullptr ? std::string_view() : value;
}

Outcome cannot_join(const std::string& why) {
  return Outcome(Errc::invalid_argument, "cannot join the job: " + why);
}

Result<JobSecret> read_given(const Lookup& lookup) {
  JobSecret secret{{}, std::string(kGivenSecret)};
  Result<SecretBytes> bytes = SecretBytes();
  if (const std::string_view text = value_of(lookup, "TUTTI_SECRET_FD"); !text.empty()) {
    bytes = read_handed_secret(text);
    if (!bytes) return cannot_join(std::string(bytes.status().message()));
  } else if (const std::string_view path = value_of(lookup, "TUTTI_SECRET_FILE"); !path.empty()) {
    bytes = read_secret_file(std::string(path));
    secret.source = base::format("that in {}", base::shown(path, kMostPath));
  }
  if (!bytes) return bytes.status();
  secret.bytes = std::move(*bytes);
  return secret;
}

Result<secure::Digest> labelled_digest(std::span<const std::byte> secret, std::string_view label,
                                       std::string_view text) {
  const std::string labelled = base::format("{}{}", label, text);
  return secure::hmac_sha256(secret, std::as_bytes(std::span(labelled)));
}

}  // namespace

Result<Insecure> insecure(const Lookup& lookup) {
  const std::string_view text = base::without_blanks(value_of(lookup, "TUTTI_INSECURE"));
  if (text.empty() || text == "0") return Insecure::no;
  if (text == "1") return Insecure::yes;
  if (text == "pickle") return Insecure::pickle;
  return cannot_join(
      base::format("TUTTI_INSECURE is \"{}\", it must be 0, 1 or pickle", base::shown(text, 64)));
}

Result<std::optional<JobSecret>> given_secret(const Lookup& lookup,
                                              const std::optional<SecretBytes>& given,
                                              std::string_view taker) {
  Result<JobSecret> secret =
      given ? JobSecret{*given, std::string(kGivenSecret)} : read_given(lookup);
  if (!secret) return secret.status();
  if (given) {
    const std::string what = base::format("the secret given to {}", taker);
    if (Outcome s = check_secret(what, given->size()); !s) return s;
  }
  if (secret->bytes.empty()) return std::optional<JobSecret>();
  return std::optional(std::move(*secret));
}

Result<JobSecret> job_secret(const Lookup& lookup, const std::optional<SecretBytes>& given,
                             std::string_view taker) {
  auto found = given_secret(lookup, given, taker);
  if (!found) return found.status();
  if (*found) return std::move(**found);
  auto none = insecure(lookup);
  if (!none) return none.status();
  if (*none != Insecure::no)
    return JobSecret{
        {}, base::format("none (TUTTI_INSECURE={})", *none == Insecure::yes ? "1" : "pickle")};
  auto key = find_user_key();
  if (!key) return key.status();
  return JobSecret{std::move(key->bytes), std::move(key->path)};
}

Result<SecretBytes> derive_secret(const SecretBytes& secret, std::string_view text) {
  auto digest = labelled_digest(secret, "tutti secret ", text);
  if (!digest) return digest.status();
  SecretBytes derived(*digest);
  ::explicit_bzero(digest->data(), digest->size());
  return derived;
}

Result<std::string> private_name(const JobSecret& secret, std::string_view text) {
  auto digest = labelled_digest(secret.bytes, "tutti name ", text);
  if (!digest) return digest.status();
  std::string name;
  for (const std::byte byte : std::span(*digest).first(kPrivateNameCharacters / 2))
    name += base::format("{:02x}", std::to_integer<unsigned>(byte));
  return name;
}

}  // namespace tutti::store
