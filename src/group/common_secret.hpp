#pragma once

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
  /// A given secret, else the user's key; none where TUTTI_INSECURE says so. Why there is no secret
  /// although there should be one, all ranks are told.
  explicit SecretOffer(const store::Lookup& lookup);

  [[nodiscard]] const std::string& line() const noexcept { return line_; }
  /// Our secret, which every rank has; empty if no rank has one. Error: invalid_argument where
  /// ranks differ, with one text on all of them.
  [[nodiscard]] Result<SecretBytes> common(const std::vector<std::string>& lines) const;

 private:
  store::JobSecret secret_;
  std::string line_;
};

}  // namespace tutti::group
