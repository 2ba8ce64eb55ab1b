#include "secure/handshake.hpp"

#include <algorithm>
#include <cstring>
#include <string>

namespace tutti::secure {
namespace {

constexpr std::size_t kMagicBytes = 8;
using Magic = const char[kMagicBytes + 1];
constexpr Magic kHelloMagic = "tuttitr\x01";
constexpr Magic kReplyMagic = "tuttitr\x02";
constexpr Magic kProofMagic = "tuttitr\x03";
constexpr Magic kVerdictMagic = "tuttitr\x04";

// Hello and the head of the reply have the same fields.
constexpr std::size_t kVersionAt = 8;
constexpr std::size_t kFlagsAt = 10;
constexpr std::size_t kRefusalAt = 12;  // zero in a hello
constexpr std::size_t kJobAt = 16;
constexpr std::size_t kGenerationAt = 24;
constexpr std::size_t kFromAt = 32;
constexpr std::size_t kToAt = 36;
constexpr std::size_t kNonceAt = 40;
constexpr std::uint64_t kHasSecret = 1;
constexpr std::uint64_t kEncrypts = 2;
constexpr std::size_t kVerdictAt = 8;

constexpr std::size_t kLabelBytes = 24;
constexpr const char* kAcceptorLabel = "tutti transport acceptor";
constexpr const char* kDiallerLabel = "tutti transport dialler\0";
constexpr const char* kTlsLabel = "tutti transport tls key\0";

constexpr std::array<std::byte, kDigestBytes> kNoSecret{};

void put(std::span<std::byte> to, std::uint64_t value) noexcept {
  for (std::size_t i = 0; i < to.size(); ++i)
    to[i] = static_cast<std::byte>((value >> (8 * i)) & 0xff);
}

std::uint64_t take(std::span<const std::byte> from) noexcept {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < from.size(); ++i)
    value |= std::to_integer<std::uint64_t>(from[i]) << (8 * i);
  return value;
}

void put_magic(std::span<std::byte> to, const Magic& magic) noexcept {
  std::memcpy(to.data(), magic, kMagicBytes);
}

void put_head(std::span<std::byte> to, const Magic& magic, const Party& mine) noexcept {
  put_magic(to, magic);
  put(to.subspan(kVersionAt, 2), kWireVersion);
  put(to.subspan(kFlagsAt, 2),
      (mine.secret.empty() ? 0 : kHasSecret) | (mine.encrypts ? kEncrypts : 0));
}

void put_rest(std::span<std::byte> to, const Party& mine, int peer, const Nonce& nonce) noexcept {
  put(to.subspan(kJobAt, 8), mine.job);
  put(to.subspan(kGenerationAt, 8), mine.generation);
  put(to.subspan(kFromAt, 4), static_cast<std::uint32_t>(mine.rank));
  put(to.subspan(kToAt, 4), static_cast<std::uint32_t>(peer));
  std::memcpy(to.data() + kNonceAt, nonce.data(), kNonceBytes);
}

Status refused(const char* why) { return Status(Errc::refused, why); }

}  // namespace

Status to_status(Refusal refusal) {
  switch (refusal) {
    case Refusal::none: return {};
    case Refusal::version:
      return refused("it runs another version of tutti; use one version in a job");
    case Refusal::secret_needed:
      return refused(
          "it asks for the job's secret and this process has none; give all processes the same "
          "TUTTI_SECRET_FILE");
    case Refusal::no_secret:
      return refused(
          "it has no secret, but this process has one; give all processes the same "
          "TUTTI_SECRET_FILE");
    case Refusal::other_job:
      return refused("it belongs to another job; do two jobs share a master address and port?");
    case Refusal::other_generation:
      return refused("it belongs to another start of this job; has an old process survived?");
    case Refusal::wrong_rank:
      return refused("another rank listens there; is its address known under the wrong rank?");
    case Refusal::bad_rank:
      return refused("it says that our rank cannot be; do all ranks agree on the world size?");
    case Refusal::wrong_secret:
      return refused("it has another secret; give all processes the same TUTTI_SECRET_FILE");
    case Refusal::crossed: return refused("both sides dialled and the other connection stays");
    case Refusal::connected:
      return Status(Errc::peer_lost, "it takes the two to be connected, so a connection was cut");
    case Refusal::gone: return Status(Errc::peer_lost, "it has given this rank up");
    case Refusal::leaving: return Status(Errc::peer_left, "it is leaving");
    case Refusal::encryption_needed:
      return refused(
          "it encrypts its connections and this process does not; give all processes the same "
          "TUTTI_TLS");
    case Refusal::no_encryption:
      return refused(
          "it does not encrypt its connections, but this process does; give all processes the same "
          "TUTTI_TLS");
  }
  return refused("it refused for a reason that this version does not know");
}

const char* to_string(Refusal refusal) noexcept {
  switch (refusal) {
    case Refusal::none: return "none";
    case Refusal::version: return "version";
    case Refusal::secret_needed: return "secret_needed";
    case Refusal::no_secret: return "no_secret";
    case Refusal::other_job: return "other_job";
    case Refusal::other_generation: return "other_generation";
    case Refusal::wrong_rank: return "wrong_rank";
    case Refusal::bad_rank: return "bad_rank";
    case Refusal::wrong_secret: return "wrong_secret";
    case Refusal::crossed: return "crossed";
    case Refusal::connected: return "connected";
    case Refusal::gone: return "gone";
    case Refusal::encryption_needed: return "encryption_needed";
    case Refusal::no_encryption: return "no_encryption";
    case Refusal::leaving: return "leaving";
  }
  return "unknown";
}

Handshake Handshake::dialler(const Party& mine, int peer, const Nonce& nonce) {
  Handshake handshake(mine, peer, nonce, Step::reply);
  const auto hello = handshake.append(kHelloBytes);
  put_head(hello, kHelloMagic, mine);
  put_rest(hello, mine, peer, nonce);
  std::ranges::copy(hello, handshake.hello_.begin());
  return handshake;
}

Handshake Handshake::acceptor(const Party& mine, const Nonce& nonce) {
  return Handshake(mine, -1, nonce, Step::hello);
}

std::size_t Handshake::wanted() const noexcept {
  if (state_ != State::running) return 0;
  switch (step_) {
    case Step::hello: return kHelloBytes - in_bytes_;
    case Step::reply: return kReplyBytes - in_bytes_;
    case Step::proof: return kProofBytes - in_bytes_;
    case Step::verdict: return kVerdictBytes - in_bytes_;
    case Step::none: break;
  }
  return 0;
}

void Handshake::feed(std::span<const std::byte> bytes) {
  const std::size_t count = std::min(bytes.size(), wanted());
  if (count == 0) return;
  std::memcpy(in_.data() + in_bytes_, bytes.data(), count);
  in_bytes_ += count;
  constexpr std::array<const char*, 4> kMagics = {kHelloMagic, kReplyMagic, kProofMagic,
                                                  kVerdictMagic};
  const char* magic = kMagics[static_cast<std::size_t>(step_)];
  if (std::memcmp(in_.data(), magic, std::min(in_bytes_, kMagicBytes)) != 0) {
    foreign_ = true;
    fail(refused("what it says is not tutti's protocol; is the port used by something else?"));
    return;
  }
  if (wanted() > 0) return;
  in_bytes_ = 0;
  switch (step_) {
    case Step::hello: return on_hello();
    case Step::reply: return on_reply();
    case Step::proof: return on_proof();
    case Step::verdict: return on_verdict();
    case Step::none: return;
  }
}

std::span<std::byte> Handshake::append(std::size_t bytes) noexcept {
  if (out_begin_ == out_end_) out_begin_ = out_end_ = 0;
  const auto space = std::span(out_).subspan(out_end_, bytes);
  out_end_ += bytes;
  return space;
}

void Handshake::fail(Status why) {
  failure_ = std::move(why);
  state_ = State::failed;
  step_ = Step::none;
}

Result<Digest> Handshake::proof_of(const char* label) const {
  std::array<std::byte, kLabelBytes + kHelloBytes + kReplyHeadBytes> text;
  std::memcpy(text.data(), label, kLabelBytes);
  std::memcpy(text.data() + kLabelBytes, hello_.data(), kHelloBytes);
  std::memcpy(text.data() + kLabelBytes + kHelloBytes, reply_.data(), kReplyHeadBytes);
  return hmac_sha256(mine_.secret.empty() ? std::span<const std::byte>(kNoSecret) : mine_.secret,
                     text);
}

Result<Digest> Handshake::key_of_encryption() const { return proof_of(kTlsLabel); }

Refusal Handshake::judge_hello() const noexcept {
  const std::span<const std::byte> bytes(hello_);
  if (take(bytes.subspan(kVersionAt, 2)) != kWireVersion) return Refusal::version;
  const std::uint64_t flags = take(bytes.subspan(kFlagsAt, 2));
  const bool theirs = (flags & kHasSecret) != 0;
  if (theirs && mine_.secret.empty()) return Refusal::no_secret;
  if (!theirs && !mine_.secret.empty()) return Refusal::secret_needed;
  if (take(bytes.subspan(kJobAt, 8)) != mine_.job) return Refusal::other_job;
  if (take(bytes.subspan(kGenerationAt, 8)) != mine_.generation) return Refusal::other_generation;
  if (take(bytes.subspan(kToAt, 4)) != static_cast<std::uint64_t>(mine_.rank))
    return Refusal::wrong_rank;
  const std::uint64_t from = take(bytes.subspan(kFromAt, 4));
  if (from >= static_cast<std::uint64_t>(mine_.size) ||
      from == static_cast<std::uint64_t>(mine_.rank))
    return Refusal::bad_rank;
  const bool encrypts = (flags & kEncrypts) != 0;
  if (encrypts != mine_.encrypts)
    return encrypts ? Refusal::no_encryption : Refusal::encryption_needed;
  return Refusal::none;
}

void Handshake::on_hello() {
  std::copy_n(in_.begin(), kHelloBytes, hello_.begin());
  const Refusal refusal = judge_hello();
  const auto reply = append(kReplyBytes);
  std::ranges::fill(reply, std::byte{0});
  put_head(reply, kReplyMagic, mine_);
  put(reply.subspan(kRefusalAt, 4), static_cast<std::uint32_t>(refusal));
  if (refusal != Refusal::none) {
    fail(Status(Errc::refused, std::string("it was refused: ") + to_string(refusal)));
    return;
  }
  peer_ = static_cast<int>(take(std::span(hello_).subspan(kFromAt, 4)));
  put_rest(reply, mine_, peer_, nonce_);
  std::copy_n(reply.begin(), kReplyHeadBytes, reply_.begin());
  auto proof = proof_of(kAcceptorLabel);
  if (!proof) {
    out_begin_ = out_end_ = 0;
    return fail(proof.status());
  }
  std::ranges::copy(*proof, reply.subspan(kReplyHeadBytes).begin());
  step_ = Step::proof;
}

Refusal Handshake::judge_reply() const noexcept {
  const std::span<const std::byte> bytes(reply_);
  if (const auto refusal = take(bytes.subspan(kRefusalAt, 4)); refusal != 0)
    return static_cast<Refusal>(refusal);
  if (take(bytes.subspan(kVersionAt, 2)) != kWireVersion) return Refusal::version;
  // What the reply says about its own secret does not matter: the proof tells.
  if (take(bytes.subspan(kJobAt, 8)) != mine_.job) return Refusal::other_job;
  if (take(bytes.subspan(kGenerationAt, 8)) != mine_.generation) return Refusal::other_generation;
  if (take(bytes.subspan(kFromAt, 4)) != static_cast<std::uint64_t>(peer_) ||
      take(bytes.subspan(kToAt, 4)) != static_cast<std::uint64_t>(mine_.rank))
    return Refusal::wrong_rank;
  // Signed by the proof: nobody on the way can talk both sides into doing without.
  const bool encrypts = (take(bytes.subspan(kFlagsAt, 2)) & kEncrypts) != 0;
  if (encrypts != mine_.encrypts)
    return encrypts ? Refusal::encryption_needed : Refusal::no_encryption;
  return Refusal::none;
}

void Handshake::on_reply() {
  std::copy_n(in_.begin(), kReplyHeadBytes, reply_.begin());
  if (const Refusal refusal = judge_reply(); refusal != Refusal::none) {
    Status why = to_status(refusal);
    // That the peer leaves, or has given us up, only the peer can say, and it has not proven
    // itself.
    if (why.code() != Errc::refused) why = refused("it refused without proving who it is");
    return fail(std::move(why));
  }
  auto expected = proof_of(kAcceptorLabel);
  if (!expected) return fail(expected.status());
  if (!equal_constant_time(*expected, std::span(in_).subspan(kReplyHeadBytes, kDigestBytes)))
    return fail(to_status(Refusal::wrong_secret));
  auto proof = proof_of(kDiallerLabel);
  if (!proof) return fail(proof.status());
  const auto out = append(kProofBytes);
  put_magic(out, kProofMagic);
  std::ranges::copy(*proof, out.subspan(kMagicBytes).begin());
  step_ = Step::verdict;
}

void Handshake::on_proof() {
  auto expected = proof_of(kDiallerLabel);
  if (!expected) return fail(expected.status());
  if (!equal_constant_time(*expected, std::span(in_).subspan(kMagicBytes, kDigestBytes))) {
    conclude(Refusal::wrong_secret);
    return;
  }
  state_ = State::proven;
}

void Handshake::conclude(Refusal refusal) noexcept {
  const auto verdict = append(kVerdictBytes);
  std::ranges::fill(verdict, std::byte{0});
  put_magic(verdict, kVerdictMagic);
  put(verdict.subspan(kVerdictAt, 4), static_cast<std::uint32_t>(refusal));
  step_ = Step::none;
  state_ = refusal == Refusal::none ? State::accepted : State::failed;
  if (refusal == Refusal::wrong_secret) failure_ = refused("it does not know the job's secret");
}

void Handshake::on_verdict() {
  const auto refusal = static_cast<Refusal>(take(std::span(in_).subspan(kVerdictAt, 4)));
  step_ = Step::none;
  if (refusal == Refusal::none) {
    state_ = State::accepted;
  } else if (refusal == Refusal::crossed) {
    state_ = State::crossed;
  } else {
    fail(to_status(refusal));
  }
}

}  // namespace tutti::secure
