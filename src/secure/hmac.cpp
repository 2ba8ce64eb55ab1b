#include "secure/hmac.hpp"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <string_view>

#include "os/system_error.hpp"
#include "secure/openssl.hpp"

namespace tutti::secure {
namespace {

struct Crypto {
  decltype(&EVP_sha256) sha256 = nullptr;
  decltype(&HMAC) hmac = nullptr;
  Outcome status;
};

const Crypto& crypto() {
  static const Crypto kCrypto = [] {
    Crypto crypto;
    Library library("libcrypto.so.3", "proves that connections belong to the job");
    library.find(crypto.sha256, "EVP_sha256");
    library.find(crypto.hmac, "HMAC");
    crypto.status = library.status();
    return crypto;
  }();
  return kCrypto;
}

}  // namespace

Result<Digest> hmac_sha256(std::span<const std::byte> key, std::span<const std::byte> data) {
  const Crypto& library = crypto();
  if (!library.status) return library.status;
  if (key.size() > INT_MAX)
    return Outcome(Errc::invalid_argument, "a secret of more than 2 GiB cannot be used");
  // libcrypto takes a null key for "the key of before".
  static constexpr std::byte kNothing{};
  Digest digest{};
  unsigned int length = 0;
  const void* key_data = key.empty() ? &kNothing : key.data();
  const auto* bytes =
      reinterpret_cast<const unsigned char*>(data.empty() ? &kNothing : data.data());
  auto* out = reinterpret_cast<unsigned char*>(digest.data());
  if (library.hmac(library.sha256(), key_data, static_cast<int>(key.size()), bytes, data.size(),
                   out, &length) == nullptr ||
      length != kDigestBytes)
    return Outcome(Errc::unsupported,
                   "libcrypto refuses HMAC-SHA256; its configuration may forbid it (FIPS mode?)");
  return digest;
}

Result<KeyId> key_id(std::span<const std::byte> secret) {
  KeyId id{};
  if (secret.empty()) return id;
  constexpr std::string_view kLabel = "tutti key id";
  auto digest = hmac_sha256(secret, std::as_bytes(std::span(kLabel)));
  if (!digest) return digest.status();
  std::copy_n(digest->begin(), id.size(), id.begin());
  return id;
}

bool equal_constant_time(std::span<const std::byte> a, std::span<const std::byte> b) noexcept {
  if (a.size() != b.size()) return false;
  // volatile: the compiler must not leave the loop at the first difference.
  volatile unsigned char difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    difference =
        static_cast<unsigned char>(difference | std::to_integer<unsigned char>(a[i] ^ b[i]));
  return difference == 0;
}

Outcome random_bytes(std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t got = getrandom(bytes.data(), bytes.size(), 0);
    if (got < 0) {
      if (errno == EINTR) continue;
      return os::system_error("cannot get random bytes from the kernel", errno);
    }
    bytes = bytes.subspan(static_cast<std::size_t>(got));
  }
  return {};
}

}  // namespace tutti::secure
