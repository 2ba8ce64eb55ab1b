#include "group/common_secret.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/format.hpp"
#include "base/shown.hpp"
#include "os/host.hpp"

namespace tutti::group {
namespace {

constexpr std::string_view kWrong = "wrong ";
constexpr std::string_view kGiven = "given ";
// Ends the part that ranks compare; the host and the origin of the secret follow, for errors.
constexpr char kEnd = '\t';

std::string_view compared(std::string_view line) { return line.substr(0, line.find(kEnd)); }

std::string origin(std::string_view line) {
  line.remove_prefix(std::min(line.find(kEnd) + 1, line.size()));
  return base::shown_on_line(line);
}

}  // namespace

SecretOffer::SecretOffer(const store::Lookup& lookup) {
  auto given = store::given_secret(lookup);
  const bool is_given = given && *given;
  auto secret = !given   ? Result<store::JobSecret>(given.status())
                : *given ? Result<store::JobSecret>(**given)
                         : store::job_secret(lookup);
  auto name = secret && !secret->bytes.empty() ? store::private_name(*secret, "common secret")
                                               : Result<std::string>("");
  const Outcome status = !secret ? secret.status() : name.status();
  if (!status.ok()) {
    line_ = base::format("{}{}on host {}: {}", kWrong, kEnd, os::host_name(),
                         base::shown_on_line(status.message()));
    return;
  }
  secret_ = std::move(*secret);
  line_ = base::format("{}{}{}on host {} it is {}", is_given ? kGiven : "key ", *name, kEnd,
                       os::host_name(), base::shown_on_line(secret_.source));
}

Result<SecretBytes> SecretOffer::common(const std::vector<std::string>& lines) const {
  const auto first_with = [&](std::string_view begin) {
    return std::ranges::find_if(lines,
                                [&](const std::string& line) { return line.starts_with(begin); });
  };
  const auto refused = [](const std::string& text) {
    return Outcome(Errc::invalid_argument, text);
  };
  if (const auto wrong = first_with(kWrong); wrong != lines.end()) {
    return refused(base::format("rank {} has no secret {}", wrong - lines.begin(), origin(*wrong)));
  }
  const auto given = first_with(kGiven);
  const auto one = given == lines.end() ? lines.begin() : given;
  const auto unlike = std::ranges::find_if(
      lines, [&](const std::string& line) { return compared(line) != compared(*one); });
  if (unlike == lines.end()) return secret_.bytes;
  if (given != lines.end()) {
    return refused(
        base::format("rank {} was given a secret (TUTTI_SECRET_FILE or TUTTI_SECRET_FD), and "
                     "rank {} has another one or none; give all ranks the same",
                     one - lines.begin(), unlike - lines.begin()));
  }
  return refused(base::format(
      "rank {} and rank {} do not have the same secret: {}, and {}; copy the file of one host to "
      "the other, or give all ranks the same secret (TUTTI_SECRET_FILE), or, in a network that "
      "only the job reaches, set TUTTI_INSECURE=pickle for all",
      one - lines.begin(), unlike - lines.begin(), origin(*one), origin(*unlike)));
}

}  // namespace tutti::group
