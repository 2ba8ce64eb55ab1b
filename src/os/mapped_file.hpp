#pragma once

#include <string>

namespace tutti::os {

/// The file that is mapped at an address of this process, by its absolute path as the kernel knows
/// it; empty: none.
[[nodiscard]] std::string mapped_file(const void* address);

}  // namespace tutti::os
