#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include <tutti/backend/backend.hpp>
#include <tutti/collective.hpp>

#include "base/deadline.hpp"
#include "base/ticket_table.hpp"
#include "call/call_code.hpp"
#include "call/extent.hpp"

namespace tutti::foreign {

using TimePoint = std::chrono::steady_clock::time_point;

/// How far the comparison of a call with those of the other ranks is (CallComparison).
enum class Agreement : std::uint8_t {
  unknown,     ///< the comparison has not begun
  comparing,   ///< the ranks take the maximum of their fingerprints
  unmeasured,  ///< the calls are equal, and the lengths of their blocks are not compared yet
  measuring,   ///< the ranks tell each other the lengths of the blocks that they send
  differs,     ///< the calls differ, and the ranks have not told each other theirs
  explaining,  ///< the ranks tell each other their calls
  agreed,      ///< also if nothing is compared
};

/// One call on one rank, from submit until its ticket is released: the part that is the same for
/// every foreign library. The operation of a backend derives from it.
struct ForeignOperation : base::TicketPlace {
  // Of the OperationList.
  bool released = false;  ///< nobody will ask for its ticket any more
  bool listed = false;    ///< it stands in the list of what runs
  TimePoint started{};
  TimePoint deadline{};
  Outcome outcome;
  int source = -1;  ///< of a receive, once it is known
  std::vector<Callback> callbacks;

  // The call. The backend encodes it.
  Collective call;  ///< without the lists of the caller, which are read during submit
  call::CallCode code{};
  call::Extent extent;

  // Of the CallComparison. The primitives read and write this memory, so it stays where it is.
  Agreement agreement = Agreement::unknown;
  std::uint64_t seq = 0;  ///< number of the collective in its group, from 1 on; 0: a message
  std::array<std::uint64_t, 2> fingerprint{};  ///< {h, ~h}, h: the hash of all calls so far
  std::array<std::uint64_t, 2> greatest{};     ///< the maximum of all ranks
  std::vector<std::uint64_t> lengths_sent;     ///< elements to each rank
  std::vector<std::uint64_t> lengths_got;      ///< elements that each rank sends to this one
  std::vector<call::CallCode> codes;           ///< by rank

  /// " timed out after 1.5 s (timeout 1 s)".
  [[nodiscard]] std::string timed_out(TimePoint now) const {
    return " timed out after " + base::seconds_text(now - started) + " (timeout " +
           base::seconds_text(call.timeout) + ")";
  }

  /// For the next call in this place. Memory is kept.
  void reset() {
    released = false;
    listed = false;
    outcome = Outcome();
    source = -1;
    callbacks.clear();
    call = Collective();
    extent = call::Extent();
    agreement = Agreement::unknown;
    seq = 0;
    lengths_sent.clear();
    lengths_got.clear();
    codes.clear();
  }
};

}  // namespace tutti::foreign
