#pragma once

#include <string>

#include <tutti/backend/collective.hpp>

namespace tutti::call {

/// Describes the mistake in the tensors of a call that is put together from several (Details::
/// input_pieces, output_pieces), as seen by this rank; empty: nothing.
[[nodiscard]] std::string what_is_wrong_with_pieces(const Collective& call, int rank, int size);

}  // namespace tutti::call
