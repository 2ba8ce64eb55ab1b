#pragma once

#include <optional>
#include <string>
#include <vector>

#include <tutti/error.hpp>

#include "store/job_secret.hpp"

// Ranks that meet by an exchange that others may read compare their secrets there, not the secrets
// themselves: each rank tells a name that belongs to its own.
namespace tutti::group {

/// The secret of one rank, and the line that tells the others of it.
class SecretOffer {
 public:
  /// A given secret, else the user's key; none where TUTTI_INSECURE=1 or no key can be had. Errors:
  /// those of a given secret that cannot be read.
  static Result<SecretOffer> make(const store::Lookup& lookup);

  [[nodiscard]] const std::string& line() const noexcept { return line_; }
  /// Our secret if every rank has the same one, nothing if not. Error: invalid_argument where ranks
  /// differ and one was given a secret: a job that was told to use one never does without.
  [[nodiscard]] Result<std::optional<std::vector<std::byte>>> common(
      const std::vector<std::string>& lines) const;

 private:
  store::JobSecret secret_;
  std::string line_;
};

}  // namespace tutti::group
