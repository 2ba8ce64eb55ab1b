#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "backend/foreign/operation_list.hpp"
#include "call/call_code.hpp"
#include "call/extent.hpp"

namespace tutti::foreign {

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
struct ForeignOperation : ListedOperation {
  // The call, as the backend encodes it.
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

  /// For the next call in this place. Memory is kept.
  void reset() {
    ListedOperation::reset();
    extent = call::Extent();
    agreement = Agreement::unknown;
    seq = 0;
    lengths_sent.clear();
    lengths_got.clear();
    codes.clear();
  }
};

}  // namespace tutti::foreign
