#pragma once

#include <tutti/backend/backend.hpp>

#include "group/overlap.hpp"

namespace tutti {

/// Runs a call whose tensors overlap, in the memory of the CPU, with memory of its own in place of
/// some: inputs are then what they were at the call, and outputs are written when it is done, in
/// the order of the ranks; where two are the same memory, the last one stays.
///
/// `call`: as for Backend::submit; other ranks see no difference. `overlap` is not none.
[[nodiscard]] Work submit_staged(Backend& backend, int rank, const Collective& call,
                                 Overlap overlap, bool asynchronous);

}  // namespace tutti
