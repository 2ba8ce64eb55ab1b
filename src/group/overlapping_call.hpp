#pragma once

#include <tutti/backend/backend.hpp>

#include "group/overlap.hpp"

namespace tutti {
inline namespace v0 {

/// Runs a call whose CPU tensors overlap, with temporary memory in place of some of them. Inputs
/// are copied at the call. Outputs are written when the call is done, in the order of the ranks; if
/// two share memory, the last one stays.
///
/// `call`: as for Backend::submit; other ranks see no difference. `overlap` is not none.
[[nodiscard]] Work submit_overlapping(Backend& backend, int rank, const Collective& call,
                                      Overlap overlap, bool asynchronous);

}  // namespace v0
}  // namespace tutti
