#include "store/handshake.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "base/shown.hpp"
#include "os/host.hpp"

namespace tutti::store {
namespace {

// Hello: magic 8, version u16, flags u16, generation u32, job 16, nonce 24, key id 8.
// Reply: magic 8, version u16, flags u16, refusal u32, nonce 24, key id 8, proof 32.
constexpr std::string_view kClientMagic = "tuttist\x01";
constexpr std::string_view kServerMagic = "tuttist\x02";
constexpr std::size_t kMagicBytes = 8;
constexpr std::size_t kVersionAt = 8;
constexpr std::size_t kFlagsAt = 10;
constexpr std::size_t kRefusalAt = 12;
constexpr std::size_t kGenerationAt = 12;
constexpr std::size_t kJobAt = 16;
constexpr std::size_t kJobBytes = 16;
constexpr std::size_t kHelloNonceAt = 32;
constexpr std::size_t kHelloKeyAt = 56;
constexpr std::size_t kReplyNonceAt = 16;
constexpr std::size_t kReplyKeyAt = 40;
constexpr std::size_t kReplyProofAt = 48;
constexpr std::uint16_t kHasSecret = 1;
constexpr std::uint16_t kEncrypts = 2;
constexpr std::uint32_t kVerdictMagic = 0x6f6b6179;

void put(std::span<std::byte> to, std::uint64_t value) {
  for (std::size_t i = 0; i < to.size(); ++i)
    to[i] = static_cast<std::byte>((value >> (8 * i)) & 0xff);
}

std::uint64_t take(std::span<const std::byte> from) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < from.size(); ++i)
    value |= std::to_integer<std::uint64_t>(from[i]) << (8 * i);
  return value;
}

void put_magic(std::span<std::byte> to, std::string_view magic) {
  std::memcpy(to.data(), magic.data(), kMagicBytes);
}

bool has_magic(std::span<const std::byte> from, std::string_view magic) noexcept {
  return std::memcmp(from.data(), magic.data(), std::min(from.size(), kMagicBytes)) == 0;
}

// Tells jobs apart that meet by mistake; the secret, not this, keeps strangers out.
std::array<std::byte, kJobBytes> job_digest(std::string_view job) {
  std::array<std::byte, kJobBytes> digest{};
  for (std::size_t half = 0; half < 2; ++half) {
    std::uint64_t hash = 0xcbf29ce484222325ULL + half;  // FNV-1a
    for (const char c : job) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
    put(std::span(digest).subspan(half * 8, 8), hash);
  }
  return digest;
}

Result<Proof> proof_of(std::string_view role, const Hello& hello, const Reply& reply,
                       const Credentials& mine) {
  if (mine.secret.empty()) return Proof{};
  std::vector<std::byte> text;
  const auto* label = reinterpret_cast<const std::byte*>(role.data());
  text.insert(text.end(), label, label + role.size());
  text.insert(text.end(), hello.begin(), hello.end());
  text.insert(text.end(), reply.begin(), reply.begin() + kReplyProofAt);
  return secure::hmac_sha256(mine.secret, text);
}

constexpr std::string_view kServerRole = "tutti store 3 server";
constexpr std::string_view kClientRole = "tutti store 3 client";
constexpr std::string_view kTlsRole = "tutti store 3 tls key";

std::uint16_t flags_of(const Credentials& mine) noexcept {
  return static_cast<std::uint16_t>((mine.secret.empty() ? 0 : kHasSecret) |
                                    (mine.encrypts ? kEncrypts : 0));
}

Refusal judge_encryption(std::uint64_t flags, bool mine, bool server) noexcept {
  const bool theirs = (flags & kEncrypts) != 0;
  if (theirs == mine) return Refusal::none;
  return server == theirs ? Refusal::no_encryption : Refusal::encryption_needed;
}

Refusal refusal_of(const Hello& hello, const Credentials& mine, const secure::KeyId& key) {
  const std::span<const std::byte> bytes(hello);
  if (take(bytes.subspan(kVersionAt, 2)) != kStoreVersion) return Refusal::version;
  const bool theirs = (take(bytes.subspan(kFlagsAt, 2)) & kHasSecret) != 0;
  if (theirs && mine.secret.empty()) return Refusal::no_secret;
  if (!theirs && !mine.secret.empty()) return Refusal::secret_needed;
  if (!std::ranges::equal(bytes.subspan(kHelloKeyAt, key.size()), key)) return Refusal::other_key;
  const auto job = job_digest(mine.job);
  if (!std::ranges::equal(bytes.subspan(kJobAt, kJobBytes), job)) return Refusal::other_job;
  if (const Refusal refusal =
          judge_encryption(take(bytes.subspan(kFlagsAt, 2)), mine.encrypts, /*server=*/true);
      refusal != Refusal::none)
    return refusal;
  const std::uint64_t generation = take(bytes.subspan(kGenerationAt, 4));
  if (mine.generation == 0 || generation == mine.generation) return Refusal::none;
  const bool comes_next = generation > mine.generation || mine.generation >= kUnorderedGeneration;
  return comes_next ? Refusal::earlier_generation : Refusal::later_generation;
}

Status refused(std::string_view why) { return Status(Errc::refused, std::string(why)); }

Status to_status(std::uint64_t refusal) {
  switch (static_cast<Refusal>(refusal)) {
    case Refusal::none: return {};
    case Refusal::version:
      return refused("it runs another version of tutti; use one version in a job");
    case Refusal::secret_needed:
      return refused(
          "it asks for the job's secret and this process has none, as TUTTI_INSECURE is 1 here; "
          "unset it, or set it for all processes");
    case Refusal::no_secret:
      return refused(
          "it has no secret, as TUTTI_INSECURE is 1 there, but this process has one; unset it "
          "there, or set it for all processes");
    case Refusal::other_job:
      return refused("it belongs to another job; give this job another port");
    case Refusal::other_key:
    case Refusal::wrong_secret:
      return refused("it has another secret; give all processes the same TUTTI_SECRET_FILE");
    case Refusal::earlier_generation:
      return Status(Errc::peer_left, "it still serves another group of the job");
    case Refusal::later_generation:
      return refused("it already serves a later group of this job; do all ranks make as many?");
    case Refusal::encryption_needed:
      return refused(
          "it encrypts its connections and this process does not; give all processes (tuttirun "
          "included) the same TUTTI_TLS");
    case Refusal::no_encryption:
      return refused(
          "it does not encrypt its connections, but this process does; give all processes "
          "(tuttirun "
          "included) the same TUTTI_TLS");
  }
  return refused("it refused for a reason that this version does not know");
}

}  // namespace

Result<Hello> make_hello(const Credentials& mine) {
  Hello hello{};
  const std::span<std::byte> bytes(hello);
  put_magic(bytes, kClientMagic);
  put(bytes.subspan(kVersionAt, 2), kStoreVersion);
  put(bytes.subspan(kFlagsAt, 2), flags_of(mine));
  put(bytes.subspan(kGenerationAt, 4), mine.generation);
  std::ranges::copy(job_digest(mine.job), bytes.subspan(kJobAt).begin());
  auto key = secure::key_id(mine.secret);
  if (!key) return key.status();
  std::ranges::copy(*key, bytes.subspan(kHelloKeyAt).begin());
  if (Status s = secure::random_bytes(bytes.subspan(kHelloNonceAt, kNonceBytes)); !s) return s;
  return hello;
}

bool may_be_hello(std::span<const std::byte> bytes) noexcept {
  return has_magic(bytes, kClientMagic);
}

Result<HelloAnswer> answer_hello(const Hello& hello, const Credentials& mine) {
  HelloAnswer answer{};
  auto key = secure::key_id(mine.secret);
  if (!key) return key.status();
  answer.refusal = refusal_of(hello, mine, *key);
  const std::span<std::byte> bytes(answer.reply);
  put_magic(bytes, kServerMagic);
  put(bytes.subspan(kVersionAt, 2), kStoreVersion);
  put(bytes.subspan(kFlagsAt, 2), flags_of(mine));
  put(bytes.subspan(kRefusalAt, 4), static_cast<std::uint32_t>(answer.refusal));
  if (answer.refusal != Refusal::none) return answer;
  if (Status s = secure::random_bytes(bytes.subspan(kReplyNonceAt, kNonceBytes)); !s) return s;
  std::ranges::copy(*key, bytes.subspan(kReplyKeyAt).begin());
  auto proof = proof_of(kServerRole, hello, answer.reply, mine);
  if (!proof) return proof.status();
  std::ranges::copy(*proof, bytes.subspan(kReplyProofAt).begin());
  return answer;
}

Status check_reply(const Hello& hello, const Reply& reply, const Credentials& mine) {
  const std::span<const std::byte> bytes(reply);
  if (!has_magic(bytes, kServerMagic))
    return refused("what listens there is not a tutti store; is the port used by something else?");
  if (Status status = to_status(take(bytes.subspan(kRefusalAt, 4))); !status) return status;
  if (take(bytes.subspan(kVersionAt, 2)) != kStoreVersion)
    return to_status(static_cast<std::uint64_t>(Refusal::version));
  // Signed by the proof below: nobody on the way can talk both sides into doing without.
  const Refusal refusal =
      judge_encryption(take(bytes.subspan(kFlagsAt, 2)), mine.encrypts, /*server=*/false);
  if (refusal != Refusal::none) return to_status(static_cast<std::uint64_t>(refusal));
  if (mine.secret.empty()) return {};
  auto expected = proof_of(kServerRole, hello, reply, mine);
  if (!expected) return expected.status();
  // Also where the server claims to have no secret: it must not talk us into doing without.
  if (!secure::equal_constant_time(*expected, bytes.subspan(kReplyProofAt, kProofBytes)))
    return to_status(static_cast<std::uint64_t>(Refusal::wrong_secret));
  return {};
}

bool tells_origin(const Reply& reply) noexcept {
  const std::span<const std::byte> bytes(reply);
  return has_magic(bytes, kServerMagic) &&
         take(bytes.subspan(kRefusalAt, 4)) == static_cast<std::uint64_t>(Refusal::other_key);
}

Origin make_origin(const Credentials& mine) {
  const std::string text =
      fmt::format("{}\n{}", os::host_name(), mine.source).substr(0, kOriginBytes);
  Origin origin{};
  std::ranges::copy(std::as_bytes(std::span(text)), origin.begin());
  return origin;
}

Status describe_other_key(const Origin& theirs, const Credentials& mine) {
  const std::string_view text(reinterpret_cast<const char*>(theirs.data()), theirs.size());
  const std::string_view told = text.substr(0, text.find('\0'));
  const std::size_t end = std::min(told.find('\n'), told.size());
  return refused(fmt::format(
      "it has another secret: on its host {} it is {}, and on this host {} it is {}; copy the file "
      "of one host to the other, or give all processes the same secret (--secret-file or "
      "TUTTI_SECRET_FILE), or set TUTTI_INSECURE=1 for all (then anybody who reaches that port can "
      "join, read and change data)",
      base::shown_on_line(told.substr(0, end)),
      base::shown_on_line(told.substr(std::min(end + 1, told.size()))), os::host_name(),
      mine.source));
}

Result<Proof> make_client_proof(const Hello& hello, const Reply& reply, const Credentials& mine) {
  return proof_of(kClientRole, hello, reply, mine);
}

Result<bool> check_client_proof(const Hello& hello, const Reply& reply, const Proof& proof,
                                const Credentials& mine) {
  auto expected = proof_of(kClientRole, hello, reply, mine);
  if (!expected) return expected.status();
  return secure::equal_constant_time(*expected, proof);
}

Result<secure::Digest> key_of_encryption(const Hello& hello, const Reply& reply,
                                         const Credentials& mine) {
  return proof_of(kTlsRole, hello, reply, mine);
}

Verdict make_verdict(Refusal refusal) {
  Verdict verdict{};
  put(std::span(verdict).first(4), kVerdictMagic);
  put(std::span(verdict).subspan(4), static_cast<std::uint32_t>(refusal));
  return verdict;
}

Status check_verdict(const Verdict& verdict) {
  const std::span<const std::byte> bytes(verdict);
  if (take(bytes.first(4)) != kVerdictMagic)
    return refused("its answer is not that of a tutti store");
  return to_status(take(bytes.subspan(4)));
}

}  // namespace tutti::store
