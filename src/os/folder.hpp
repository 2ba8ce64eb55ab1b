#pragma once

#include <optional>
#include <string>
#include <vector>

namespace tutti::os {

/// The names of all that is in the folder, but "." and ".."; nothing if it cannot be read.
///
/// Throws std::bad_alloc. std::filesystem::directory_iterator of libstdc++ ends the process
/// instead, as it allocates in functions that are noexcept.
[[nodiscard]] std::optional<std::vector<std::string>> names_in(const std::string& folder);

}  // namespace tutti::os
