#include "secure/refusal.hpp"

#include <array>
#include <string>

namespace tutti::secure {
namespace {

struct Row {
  const char* name;
  const char* text;
  Errc code = Errc::refused;
};

constexpr const char* kOtherSecret =
    "it has another secret; give all processes the same TUTTI_SECRET_FILE";

/// By number.
constexpr std::array kRows = {
    Row{"none", "", Errc::ok},
    Row{"version", "it runs another version of tutti; use one version in a job"},
    Row{"secret_needed",
        "it asks for the job's secret and this process has none, as TUTTI_INSECURE says here; "
        "unset it, or set it for all processes"},
    Row{"no_secret",
        "it has no secret, as TUTTI_INSECURE says there, but this process has one; unset it "
        "there, or set it for all processes"},
    Row{"other_job",
        "it belongs to another job, or another start of this one; do two jobs share a master "
        "address and port (give each its own), or has an old process survived?"},
    Row{"other_generation",
        "it belongs to another start of this job; has an old process survived?"},
    Row{"wrong_rank", "another rank listens there; is its address known under the wrong rank?"},
    Row{"bad_rank", "it cannot have a peer with this rank; do all ranks agree on the world size?"},
    Row{"wrong_secret", kOtherSecret},
    Row{"crossed", "both sides have connected, and the other connection is kept"},
    Row{"connected", "it still has a connection to this rank, so that one was cut",
        Errc::peer_lost},
    Row{"gone", "it has given this rank up", Errc::peer_lost},
    Row{"encryption_needed",
        "it encrypts its connections and this process does not; give all processes (tuttirun "
        "included) the same TUTTI_TLS"},
    Row{"no_encryption",
        "it does not encrypt its connections, but this process does; give all processes "
        "(tuttirun included) the same TUTTI_TLS"},
    Row{"leaving", "it is leaving", Errc::peer_left},
    Row{"other_key", kOtherSecret},
    Row{"earlier_generation", "it still serves another group of the job", Errc::peer_left},
    Row{"later_generation",
        "it already serves a later group of this job; do all ranks make as many?"},
    Row{"relayed", "the connection did not arrive where it was dialled: a program passes it on"},
};

const Row& row_of(Refusal refusal) noexcept {
  static constexpr Row kUnknown{"unknown",
                                "it refused for a reason that this version does not know"};
  const auto number = static_cast<std::size_t>(refusal);
  return number < kRows.size() ? kRows[number] : kUnknown;
}

}  // namespace

Outcome to_status(Refusal refusal) {
  if (refusal == Refusal::none) return {};
  const Row& row = row_of(refusal);
  return Outcome(row.code, row.text);
}

const char* to_string(Refusal refusal) noexcept { return row_of(refusal).name; }

}  // namespace tutti::secure
