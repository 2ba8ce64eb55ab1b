#pragma once

#include <string>

#include <tutti/error.hpp>
#include <tutti/secret_bytes.hpp>

// The key by which programs of one user know each other if no secret was given.
namespace tutti::store {

struct UserKey {
  SecretBytes bytes;
  std::string path;  ///< of its file
};

/// The places of a key, in this order.
struct KeyPlaces {
  /// The key is `.config/tutti/key` below it. Empty: the user has no home.
  std::string home;
  /// The key is `tutti/key` below it, if it is the user's alone: for this host, until the user's
  /// last session ends.
  std::string runtime = {};
  /// The key is `tutti-<user>/key` below it: for this host, and until its next start. Another user
  /// may make that folder first, and then it is not used.
  std::string memory = "/dev/shm";
};
/// HOME, else what the password database says; XDG_RUNTIME_DIR, else /run/user/<user>.
[[nodiscard]] KeyPlaces places_of_user();

/// Reads the effective user's key, or makes it. All processes that ask at once get the same one.
/// Errors: invalid_argument (a key that others may know or that is none), unsupported (no place can
/// hold one; says why each cannot).
Result<UserKey> find_user_key(const KeyPlaces& places = places_of_user());

}  // namespace tutti::store
