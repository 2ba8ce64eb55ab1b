#pragma once

#include <string>
#include <vector>

#include <tutti/error.hpp>

#include "store/job_secret.hpp"

// Compares the secrets of ranks through an exchange that others may read: each rank sends a name
// derived from its secret, not the secret.
namespace tutti::group {

/// The secret of one rank, and the line that it sends to the others.
class SecretOffer {
 public:
  /// Takes a given secret, else the user's key; none if TUTTI_INSECURE is set. If a secret is
  /// missing, the line has the reason for all ranks.
  explicit SecretOffer(const store::Lookup& lookup);

  [[nodiscard]] const std::string& line() const noexcept { return line_; }
  /// The secret that all ranks have; empty if no rank has one. Error: invalid_argument if ranks
  /// differ, with the same text on all ranks.
  [[nodiscard]] Result<SecretBytes> common(const std::vector<std::string>& lines) const;

 private:
  store::JobSecret secret_;
  std::string line_;
};

}  // namespace tutti::group
