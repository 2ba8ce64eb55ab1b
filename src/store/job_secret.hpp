#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include <tutti/error.hpp>
#include <tutti/secret_bytes.hpp>

// Chooses the secret with which a process proves that it belongs to a job.
namespace tutti::store {

/// The name, in errors, of a secret that is no file of ours.
inline constexpr std::string_view kGivenSecret = "a given secret";

struct JobSecret {
  SecretBytes bytes = {};  ///< empty: there is none, and any process may join
  /// For error texts: the path of the user's key, "that in <file>", or kGivenSecret.
  std::string source = {};
};

/// The value of a variable, or null. No function: the process's own environment.
using Lookup = std::function<const char*(const char* name)>;

/// The secret that the caller gives, if it is valid; else TUTTI_SECRET_FD; else TUTTI_SECRET_FILE.
/// Nothing if none of them is given. `taker` names the receiver of the secret, for error texts.
Result<std::optional<JobSecret>> given_secret(const Lookup& lookup,
                                              const std::optional<SecretBytes>& given = {},
                                              std::string_view taker = "init_process_group");

/// The value of TUTTI_INSECURE: what a job without a given secret does.
enum class Insecure : std::uint8_t {
  no,      ///< it takes the user's own key
  yes,     ///< it has no secret, so that its ranks take no objects of each other
  pickle,  ///< it has no secret, and its ranks unpickle whatever comes
};
Result<Insecure> insecure(const Lookup& lookup);

/// As `given_secret`, else the user's own key; none only where TUTTI_INSECURE says so.
Result<JobSecret> job_secret(const Lookup& lookup, const std::optional<SecretBytes>& given = {},
                             std::string_view taker = "init_process_group");

/// A secret that follows from another one and a text; the text alone does not give it.
Result<SecretBytes> derive_secret(const SecretBytes& secret, std::string_view text);

inline constexpr std::size_t kPrivateNameCharacters = 16;
/// So many hexadecimal digits derived from `text` and the secret; nobody can guess them without it.
Result<std::string> private_name(const JobSecret& secret, std::string_view text);

}  // namespace tutti::store
