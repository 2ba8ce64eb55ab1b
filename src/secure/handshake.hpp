#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

#include <tutti/backend/job_identity.hpp>
#include <tutti/error.hpp>

#include "os/address.hpp"
#include "secure/hmac.hpp"
#include "secure/refusal.hpp"

// How the two ends of a connection (of two ranks, or of a store and its user) prove to each other
// that they belong to the same job. A state machine on bytes without I/O; frames of fixed size, so
// that an unproven peer can make us keep at most 80 bytes. docs/design/wire.md draws it.
//
//   dialler                                       acceptor
//   hello: version, job, generation, ranks,
//          nonce, key id, what was dialled        -->
//                                                 <-- reply: refusal or the same, nonce, proof
//   proof                                         -->
//                                                 <-- verdict: accepted, crossed, refused
//
// A proof is HMAC-SHA256(secret, role label, hello, head of the reply): each side's nonce is in
// what the other one signs, so nothing can be replayed, and the labels differ, so nothing can be
// reflected. The hello says what was dialled, and the acceptor refuses a connection that another
// process of its host passes on. Without a secret the key is all zeros: other jobs and protocols
// are still told apart. If the ids of the keys differ, an origin follows the reply: it names the
// key, for error texts.
//
// If both sides encrypt, everything after the proof of the dialler is sent in TLS, beginning with
// the verdict. So no TLS is spoken with a peer that has not proven itself.
namespace tutti::secure {

/// The use of a connection. After the verdict each has its own protocol, and so its own version.
enum class Purpose : unsigned char { ranks, store };

inline constexpr std::uint16_t kWireVersion = 8;   ///< between ranks
inline constexpr std::uint16_t kStoreVersion = 4;  ///< between a store and its users
/// Generations of a store from here on have no order: a user that looks for one of them, or finds
/// one of them and looks for another, tries again until that one is served.
inline constexpr std::uint64_t kUnorderedGeneration = std::uint64_t{1} << 31;
inline constexpr std::size_t kNonceBytes = 16;
inline constexpr std::size_t kHelloBytes = 80;
/// As many as the shortest hello of all versions has: enough to refuse another version.
inline constexpr std::size_t kLeastHelloBytes = 64;
inline constexpr std::size_t kReplyHeadBytes = 64;
inline constexpr std::size_t kReplyBytes = kReplyHeadBytes + kDigestBytes;
inline constexpr std::size_t kProofBytes = 8 + kDigestBytes;
inline constexpr std::size_t kVerdictBytes = 16;
inline constexpr std::size_t kOriginBytes = 256;
inline constexpr std::size_t kLongestFrame = kOriginBytes;
/// The first bytes of a reply, which tell its version in every version.
inline constexpr std::size_t kFixedBytes = 16;

using Nonce = std::array<std::byte, kNonceBytes>;

/// The knowledge of one side. The source must outlive the handshake.
struct Party {
  JobIdentity identity;
  bool encrypts = false;  ///< needs a secret
  Purpose purpose = Purpose::ranks;
  std::string_view source = "the job's secret";  ///< of the secret, for people
  /// The acceptor: where diallers are told to find it. Unspecified: at any address of its host;
  /// port 0: an address of another host may forward any port.
  os::Address told = {};
};

/// One side of a handshake.
class Handshake {
 public:
  enum class State : unsigned char {
    running,   ///< send outgoing(), feed what comes
    proven,    ///< acceptor only: the dialler has proven its identity; call conclude()
    accepted,  ///< the connection stands once outgoing() is sent; what follows are frames
    crossed,   ///< dialler only: the peer's own connection will come
    failed,    ///< see failure(); outgoing() may hold a last word
  };

  /// `dialled`: the address to which the connection was made.
  static Handshake dialler(Party mine, int peer, const Nonce& nonce, const os::Address& dialled);
  /// `arrived`: our end of the connection.
  static Handshake acceptor(Party mine, const Nonce& nonce, const os::Address& arrived);

  [[nodiscard]] State state() const noexcept { return state_; }
  /// Bytes that the peer still has to send before anything can happen; 0 unless running.
  [[nodiscard]] std::size_t wanted() const noexcept;
  /// At most wanted() bytes. Garbage is seen at its first wrong byte.
  void feed(std::span<const std::byte> bytes);
  /// Bytes to send.
  [[nodiscard]] std::span<const std::byte> outgoing() const noexcept {
    return std::span(out_).subspan(out_begin_, out_end_ - out_begin_);
  }
  void sent(std::size_t bytes) noexcept { out_begin_ += bytes; }
  /// Once outgoing() is sent, the connection has to be encrypted with key_of_encryption() before
  /// anything else is read or sent: the dialler as TLS client, the acceptor as server.
  [[nodiscard]] bool wants_encryption() const noexcept {
    return mine_.encrypts && !repeats_ &&
           (step_ == Step::verdict || step_ == Step::repetition || state_ == State::proven);
  }
  /// With a store, once the connection is encrypted: the dialler sends its proof once more,
  /// directly followed by its first request, and the acceptor waits for that.
  void repeat() noexcept;
  /// The key of this one connection: HMAC-SHA256(secret, "tutti transport tls key", hello, head of
  /// the reply).
  [[nodiscard]] Result<Digest> key_of_encryption() const;
  /// The acceptor's answer to a proven dialler: Refusal::none accepts it.
  void conclude(Refusal refusal) noexcept;

  /// The rank at the other end: dialled, or claimed (true from `proven` on), or -1.
  [[nodiscard]] int peer() const noexcept { return peer_; }
  [[nodiscard]] const Outcome& failure() const noexcept { return failure_; }
  /// Why the acceptor has refused the dialler. On the dialler's side the acceptor has not proven
  /// itself by then.
  [[nodiscard]] Refusal refusal() const noexcept { return refusal_; }
  /// Garbage that does not come from tutti at all.
  [[nodiscard]] bool foreign() const noexcept { return foreign_; }

 private:
  enum class Step : unsigned char { hello, reply, proof, verdict, origin, repetition, none };

  Handshake(Party mine, int peer, const Nonce& nonce, const os::Address& end, Step step) noexcept
      : mine_(std::move(mine)), peer_(peer), nonce_(nonce), end_(end), step_(step) {}
  void on_hello();
  void on_reply();
  void on_proof();
  void on_verdict();
  void on_origin();
  [[nodiscard]] Refusal judge_hello(const KeyId& key) const;
  [[nodiscard]] Refusal judge_generation(std::uint64_t theirs) const noexcept;
  [[nodiscard]] Refusal judge_reply() const noexcept;
  [[nodiscard]] Result<Digest> proof_of(std::string_view who) const;
  void put_head(std::span<std::byte> to, int frame) const noexcept;
  void put_rest(std::span<std::byte> to, const KeyId& key) const noexcept;
  void put_magic(std::span<std::byte> to, int frame) const noexcept;
  void tell_origin() noexcept;
  void say_proof() noexcept;
  std::span<std::byte> append(std::size_t bytes) noexcept;
  void fail(Outcome why);

  Party mine_;
  int peer_ = -1;
  Nonce nonce_;
  os::Address end_;  ///< the dialler: what it has dialled; the acceptor: where that has arrived
  Step step_;
  State state_ = State::running;
  bool foreign_ = false;
  bool repeats_ = false;
  Refusal refusal_ = Refusal::none;
  std::array<std::byte, kLongestFrame> in_{};
  std::size_t in_bytes_ = 0;
  std::array<std::byte, kReplyBytes + kOriginBytes> out_{};
  std::size_t out_begin_ = 0;
  std::size_t out_end_ = 0;
  std::array<std::byte, kHelloBytes> hello_{};
  std::array<std::byte, kReplyHeadBytes> reply_{};
  Digest proof_{};  // the dialler's own
  Outcome failure_;
};

}  // namespace tutti::secure
