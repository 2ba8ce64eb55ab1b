#pragma once

#include <cstdint>

#include <tutti/error.hpp>

namespace tutti::secure {

/// Why there is no connection; on the wire.
enum class Refusal : std::uint32_t {
  none = 0,
  version = 1,        ///< another version of this protocol
  secret_needed = 2,  ///< the acceptor has a secret, the dialler none
  no_secret = 3,      ///< the dialler has a secret, the acceptor none
  other_job = 4,
  other_generation = 5,  ///< of the same job: before or after a restart
  wrong_rank = 6,        ///< the acceptor is another rank than was dialled
  bad_rank = 7,          ///< the dialler's rank cannot be
  wrong_secret = 8,
  crossed = 9,              ///< no failure: both dialled, the other connection stays
  connected = 10,           ///< there is a connection between the two already
  gone = 11,                ///< the acceptor has given the dialler up
  encryption_needed = 12,   ///< the acceptor encrypts, the dialler does not
  no_encryption = 13,       ///< the dialler encrypts, the acceptor does not
  leaving = 14,             ///< no failure: the acceptor leaves gracefully and has nothing to send
  other_key = 15,           ///< the ids of the keys differ; an origin follows the reply
  earlier_generation = 16,  ///< the store may make room for the one the user looks for
  later_generation = 17,    ///< the user is late
  relayed = 18,             ///< the connection did not arrive where it was dialled
};

/// True if both say that they are of one job, which is compared first, and their secret or
/// encryption differs.
[[nodiscard]] constexpr bool differs_within_job(Refusal refusal) noexcept {
  return refusal == Refusal::secret_needed || refusal == Refusal::no_secret ||
         refusal == Refusal::other_key || refusal == Refusal::encryption_needed ||
         refusal == Refusal::no_encryption;
}

/// A refusal as text for people, from the dialler's point of view.
[[nodiscard]] Outcome to_status(Refusal refusal);
/// "other_job", ...
[[nodiscard]] const char* to_string(Refusal refusal) noexcept;

}  // namespace tutti::secure
