#include "secure/handshake.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include "base/format.hpp"
#include "base/little_endian.hpp"
#include "base/shown.hpp"
#include "os/host.hpp"
#include "secure/relay.hpp"

namespace tutti::secure {
namespace {

constexpr std::size_t kMagicBytes = 8;
// The last byte of a frame's magic; the others say what the connection is for.
constexpr int kHelloFrame = 1;
constexpr int kReplyFrame = 2;
constexpr int kProofFrame = 3;
constexpr int kVerdictFrame = 4;
constexpr int kOriginFrame = 5;

struct Words {
  std::string_view magic;  // all but the last byte
  std::string_view label;  // what proofs begin with
  std::uint16_t version;
};
constexpr Words kRanks = {"tuttitr", "tutti transport ", kWireVersion};
constexpr Words kStore = {"tuttist", "tutti store ", kStoreVersion};

const Words& words_of(const Party& party) noexcept {
  return party.purpose == Purpose::store ? kStore : kRanks;
}

// Hello and the head of the reply have the same fields.
constexpr std::size_t kVersionAt = 8;
constexpr std::size_t kFlagsAt = 10;
constexpr std::size_t kRefusalAt = 12;      // of a reply
constexpr std::size_t kDialledPortAt = 12;  // of a hello
constexpr std::size_t kJobAt = 16;
constexpr std::size_t kGenerationAt = 24;
constexpr std::size_t kFromAt = 32;
constexpr std::size_t kToAt = 36;
constexpr std::size_t kNonceAt = 40;
constexpr std::size_t kKeyAt = 56;
constexpr std::size_t kDialledHostAt = 64;  // of a hello
// Of a reply that refuses with `relayed`.
constexpr std::size_t kArrivedHostAt = kNonceAt;
constexpr std::size_t kArrivedPortAt = kKeyAt;
constexpr std::size_t kPortBytes = 2;
constexpr std::uint64_t kHasSecret = 1;
constexpr std::uint64_t kEncrypts = 2;
constexpr std::size_t kVerdictAt = 8;

constexpr std::size_t kLabelBytes = 24;  // zeros at its end
constexpr std::string_view kAcceptor = "acceptor";
constexpr std::string_view kDialler = "dialler";
constexpr std::string_view kTlsKey = "tls key";

constexpr std::array<std::byte, kDigestBytes> kNoSecret{};

using base::put_number;
using base::take_number;

void put_address(std::span<std::byte> frame, std::size_t host_at, std::size_t port_at,
                 const os::Address& address) noexcept {
  std::ranges::copy(address.host_bytes(), frame.subspan(host_at).begin());
  put_number(frame.subspan(port_at, kPortBytes), address.port());
}

os::Address take_address(std::span<const std::byte> frame, std::size_t host_at,
                         std::size_t port_at) noexcept {
  return os::Address::from_host_bytes(
      frame.subspan(host_at).first<os::Address::kHostBytes>(),
      static_cast<std::uint16_t>(take_number(frame.subspan(port_at, kPortBytes))));
}

Outcome refused(std::string why) { return Outcome(Errc::refused, std::move(why)); }

}  // namespace

Handshake Handshake::dialler(Party mine, int peer, const Nonce& nonce, const os::Address& dialled) {
  Handshake handshake(std::move(mine), peer, nonce, dialled, Step::reply);
  auto key = key_id(handshake.mine_.identity.secret);
  if (!key) {
    handshake.fail(key.status());
    return handshake;
  }
  const auto hello = handshake.append(kHelloBytes);
  handshake.put_head(hello, kHelloFrame);
  handshake.put_rest(hello, *key);
  put_address(hello, kDialledHostAt, kDialledPortAt, dialled);
  std::ranges::copy(hello, handshake.hello_.begin());
  return handshake;
}

Handshake Handshake::acceptor(Party mine, const Nonce& nonce, const os::Address& arrived) {
  return Handshake(std::move(mine), -1, nonce, arrived, Step::hello);
}

std::size_t Handshake::wanted() const noexcept {
  if (state_ != State::running) return 0;
  constexpr std::array<std::size_t, 7> kBytes = {kHelloBytes,   kReplyBytes,  kProofBytes,
                                                 kVerdictBytes, kOriginBytes, kProofBytes};
  const bool is_over = step_ == Step::none || (step_ == Step::repetition && !repeats_);
  return is_over ? 0 : kBytes[static_cast<std::size_t>(step_)] - in_bytes_;
}

void Handshake::feed(std::span<const std::byte> bytes) {
  const std::size_t count = std::min(bytes.size(), wanted());
  if (count == 0) return;
  std::memcpy(in_.data() + in_bytes_, bytes.data(), count);
  in_bytes_ += count;
  constexpr std::array kFrames = {kHelloFrame,   kReplyFrame,  kProofFrame,
                                  kVerdictFrame, kOriginFrame, kProofFrame};
  std::array<std::byte, kMagicBytes> magic;
  put_magic(magic, kFrames[static_cast<std::size_t>(step_)]);
  if (std::memcmp(in_.data(), magic.data(), std::min(in_bytes_, kMagicBytes)) != 0) {
    foreign_ = true;
    fail(refused("it does not speak tutti's protocol; does another program use the port?"));
    return;
  }
  // A hello of an earlier version may be shorter than ours.
  if (step_ == Step::hello && in_bytes_ >= kLeastHelloBytes &&
      take_number(std::span(in_).subspan(kVersionAt, 2)) != words_of(mine_).version)
    return on_hello();
  // The rest of a reply of another version is not needed, and may not come.
  if (step_ == Step::reply && in_bytes_ >= kFixedBytes &&
      take_number(std::span(in_).subspan(kVersionAt, 2)) != words_of(mine_).version)
    return fail(to_status(Refusal::version));
  if (wanted() > 0) return;
  in_bytes_ = 0;
  switch (step_) {
    case Step::hello: return on_hello();
    case Step::reply: return on_reply();
    case Step::proof: return on_proof();
    case Step::verdict: return on_verdict();
    case Step::origin: return on_origin();
    case Step::repetition: return on_proof();
    case Step::none: return;
  }
}

std::span<std::byte> Handshake::append(std::size_t bytes) noexcept {
  if (out_begin_ == out_end_) out_begin_ = out_end_ = 0;
  const auto space = std::span(out_).subspan(out_end_, bytes);
  out_end_ += bytes;
  return space;
}

void Handshake::fail(Outcome why) {
  failure_ = std::move(why);
  state_ = State::failed;
  step_ = Step::none;
}

void Handshake::put_magic(std::span<std::byte> to, int frame) const noexcept {
  const std::string_view magic = words_of(mine_).magic;
  std::memcpy(to.data(), magic.data(), magic.size());
  to[magic.size()] = static_cast<std::byte>(frame);
}

void Handshake::put_head(std::span<std::byte> to, int frame) const noexcept {
  put_magic(to, frame);
  put_number(to.subspan(kVersionAt, 2), words_of(mine_).version);
  put_number(to.subspan(kFlagsAt, 2),
             (mine_.identity.secret.empty() ? 0 : kHasSecret) | (mine_.encrypts ? kEncrypts : 0));
}

void Handshake::put_rest(std::span<std::byte> to, const KeyId& key) const noexcept {
  put_number(to.subspan(kJobAt, 8), mine_.identity.job);
  put_number(to.subspan(kGenerationAt, 8), mine_.identity.generation);
  put_number(to.subspan(kFromAt, 4), static_cast<std::uint32_t>(mine_.identity.rank));
  put_number(to.subspan(kToAt, 4), static_cast<std::uint32_t>(peer_));
  std::memcpy(to.data() + kNonceAt, nonce_.data(), kNonceBytes);
  std::ranges::copy(key, to.subspan(kKeyAt).begin());
}

Result<Digest> Handshake::proof_of(std::string_view who) const {
  std::array<std::byte, kLabelBytes + kHelloBytes + kReplyHeadBytes> text{};
  const std::string_view label = words_of(mine_).label;
  std::memcpy(text.data(), label.data(), label.size());
  std::memcpy(text.data() + label.size(), who.data(), who.size());
  std::memcpy(text.data() + kLabelBytes, hello_.data(), kHelloBytes);
  std::memcpy(text.data() + kLabelBytes + kHelloBytes, reply_.data(), kReplyHeadBytes);
  return hmac_sha256(
      mine_.identity.secret.empty() ? std::span<const std::byte>(kNoSecret) : mine_.identity.secret,
      text);
}

Result<Digest> Handshake::key_of_encryption() const { return proof_of(kTlsKey); }

Refusal Handshake::judge_generation(std::uint64_t theirs) const noexcept {
  if (theirs == mine_.identity.generation) return Refusal::none;
  if (mine_.purpose == Purpose::ranks) return Refusal::other_generation;
  if (mine_.identity.generation == 0) return Refusal::none;
  const bool comes_next =
      theirs > mine_.identity.generation || mine_.identity.generation >= kUnorderedGeneration;
  return comes_next ? Refusal::earlier_generation : Refusal::later_generation;
}

Refusal Handshake::judge_hello(const KeyId& key) const {
  const std::span<const std::byte> bytes(hello_);
  if (take_number(bytes.subspan(kVersionAt, 2)) != words_of(mine_).version) return Refusal::version;
  if (take_number(bytes.subspan(kJobAt, 8)) != mine_.identity.job) return Refusal::other_job;
  const std::uint64_t flags = take_number(bytes.subspan(kFlagsAt, 2));
  const bool theirs = (flags & kHasSecret) != 0;
  if (theirs && mine_.identity.secret.empty()) return Refusal::no_secret;
  if (!theirs && !mine_.identity.secret.empty()) return Refusal::secret_needed;
  if (!std::ranges::equal(bytes.subspan(kKeyAt, key.size()), key)) return Refusal::other_key;
  const bool encrypts = (flags & kEncrypts) != 0;
  if (encrypts != mine_.encrypts)
    return encrypts ? Refusal::no_encryption : Refusal::encryption_needed;
  const os::Address dialled = take_address(bytes, kDialledHostAt, kDialledPortAt);
  if (is_relayed(dialled, end_, mine_.told, mine_.purpose == Purpose::ranks))
    return Refusal::relayed;
  const Refusal generation = judge_generation(take_number(bytes.subspan(kGenerationAt, 8)));
  if (generation != Refusal::none || mine_.purpose == Purpose::store) return generation;
  if (take_number(bytes.subspan(kToAt, 4)) != static_cast<std::uint64_t>(mine_.identity.rank))
    return Refusal::wrong_rank;
  const std::uint64_t from = take_number(bytes.subspan(kFromAt, 4));
  if (from >= static_cast<std::uint64_t>(mine_.identity.size) ||
      from == static_cast<std::uint64_t>(mine_.identity.rank))
    return Refusal::bad_rank;
  return Refusal::none;
}

void Handshake::on_hello() {
  std::copy_n(in_.begin(), kHelloBytes, hello_.begin());
  auto key = key_id(mine_.identity.secret);
  if (!key) return fail(key.status());
  const Refusal refusal = refusal_ = judge_hello(*key);
  const auto reply = append(kReplyBytes);
  std::ranges::fill(reply, std::byte{0});
  put_head(reply, kReplyFrame);
  put_number(reply.subspan(kRefusalAt, 4), static_cast<std::uint32_t>(refusal));
  if (refusal != Refusal::none) {
    std::string why = to_string(refusal);
    if (refusal == Refusal::other_key) tell_origin();
    if (refusal == Refusal::relayed) {
      put_address(reply, kArrivedHostAt, kArrivedPortAt, end_);
      why = relayed_text(take_address(hello_, kDialledHostAt, kDialledPortAt), end_);
    }
    fail(refused("it was refused: " + why));
    return;
  }
  peer_ = static_cast<int>(take_number(std::span(hello_).subspan(kFromAt, 4)));
  put_rest(reply, *key);
  std::copy_n(reply.begin(), kReplyHeadBytes, reply_.begin());
  auto proof = proof_of(kAcceptor);
  if (!proof) {
    out_begin_ = out_end_ = 0;
    return fail(proof.status());
  }
  std::ranges::copy(*proof, reply.subspan(kReplyHeadBytes).begin());
  step_ = Step::proof;
}

void Handshake::tell_origin() noexcept {
  const auto origin = append(kOriginBytes);
  std::ranges::fill(origin, std::byte{0});
  put_magic(origin, kOriginFrame);
  std::span<std::byte> rest = origin.subspan(kMagicBytes);
  try {
    for (const std::string& text : {os::host_name() + "\n", std::string(mine_.source)}) {
      const std::size_t count = std::min(text.size(), rest.size());
      std::memcpy(rest.data(), text.data(), count);
      rest = rest.subspan(count);
    }
  } catch (const std::exception&) {  // no memory: then the dialler is told less
    rest = {};
  }
}

void Handshake::on_origin() {
  const std::string_view text(reinterpret_cast<const char*>(in_.data()) + kMagicBytes,
                              kOriginBytes - kMagicBytes);
  const std::string_view told = text.substr(0, text.find('\0'));
  const std::size_t end = std::min(told.find('\n'), told.size());
  fail(refused(base::format(
      "it has another secret: on its host {} it is {}, and on this host {} it is {}; copy the file "
      "of one host to the other, or give all processes the same secret (--secret-file or "
      "TUTTI_SECRET_FILE), or set TUTTI_INSECURE=1 for all (then anybody who reaches that port can "
      "join, read and change data)",
      base::shown_on_line(told.substr(0, end)),
      base::shown_on_line(told.substr(std::min(end + 1, told.size()))), os::host_name(),
      mine_.source)));
}

Refusal Handshake::judge_reply() const noexcept {
  const std::span<const std::byte> bytes(reply_);
  if (const auto refusal = take_number(bytes.subspan(kRefusalAt, 4)); refusal != 0)
    return static_cast<Refusal>(refusal);
  // The reply's word about its own secret does not matter: the proof tells.
  if (take_number(bytes.subspan(kJobAt, 8)) != mine_.identity.job) return Refusal::other_job;
  const bool store = mine_.purpose == Purpose::store;  // of generation 0 it takes all
  if (!store && take_number(bytes.subspan(kGenerationAt, 8)) != mine_.identity.generation)
    return Refusal::other_generation;
  if (take_number(bytes.subspan(kFromAt, 4)) != static_cast<std::uint64_t>(peer_) ||
      take_number(bytes.subspan(kToAt, 4)) != static_cast<std::uint64_t>(mine_.identity.rank))
    return Refusal::wrong_rank;
  // Signed by the proof: nobody on the way can talk both sides into doing without.
  const bool encrypts = (take_number(bytes.subspan(kFlagsAt, 2)) & kEncrypts) != 0;
  if (encrypts != mine_.encrypts)
    return encrypts ? Refusal::encryption_needed : Refusal::no_encryption;
  return Refusal::none;
}

void Handshake::on_reply() {
  std::copy_n(in_.begin(), kReplyHeadBytes, reply_.begin());
  if (const Refusal refusal = refusal_ = judge_reply(); refusal != Refusal::none) {
    if (refusal == Refusal::other_key) {
      step_ = Step::origin;
      return;
    }
    Outcome why = to_status(refusal);
    if (refusal == Refusal::relayed)
      why = refused(relayed_text(end_, take_address(reply_, kArrivedHostAt, kArrivedPortAt)));
    // That the peer leaves, or has given us up, only the peer can say, and it has not proven
    // itself.
    if (why.code() != Errc::refused && refusal != Refusal::earlier_generation)
      why = refused("it refused without proving who it is");
    return fail(std::move(why));
  }
  auto expected = proof_of(kAcceptor);
  if (!expected) return fail(expected.status());
  if (!equal_constant_time(*expected, std::span(in_).subspan(kReplyHeadBytes, kDigestBytes)))
    return fail(refused(
        "it does not prove that it knows the job's secret; does a program pass the connection on, "
        "and change it?"));
  auto proof = proof_of(kDialler);
  if (!proof) return fail(proof.status());
  std::ranges::copy(*proof, proof_.begin());
  say_proof();
  step_ = Step::verdict;
}

void Handshake::say_proof() noexcept {
  const auto out = append(kProofBytes);
  put_magic(out, kProofFrame);
  std::ranges::copy(proof_, out.subspan(kMagicBytes).begin());
}

void Handshake::repeat() noexcept {
  repeats_ = true;
  if (step_ == Step::verdict) say_proof();
}

void Handshake::on_proof() {
  auto expected = proof_of(kDialler);
  if (!expected) return fail(expected.status());
  if (!equal_constant_time(*expected, std::span(in_).subspan(kMagicBytes, kDigestBytes))) {
    conclude(Refusal::wrong_secret);
    return;
  }
  const bool once_more = mine_.encrypts && mine_.purpose == Purpose::store && step_ == Step::proof;
  step_ = once_more ? Step::repetition : Step::none;
  if (!once_more) state_ = State::proven;
}

void Handshake::conclude(Refusal refusal) noexcept {
  const auto verdict = append(kVerdictBytes);
  std::ranges::fill(verdict, std::byte{0});
  put_magic(verdict, kVerdictFrame);
  put_number(verdict.subspan(kVerdictAt, 4), static_cast<std::uint32_t>(refusal));
  step_ = Step::none;
  refusal_ = refusal;
  state_ = refusal == Refusal::none ? State::accepted : State::failed;
  if (refusal == Refusal::wrong_secret) failure_ = refused("it does not know the job's secret");
}

void Handshake::on_verdict() {
  const auto refusal = static_cast<Refusal>(take_number(std::span(in_).subspan(kVerdictAt, 4)));
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
