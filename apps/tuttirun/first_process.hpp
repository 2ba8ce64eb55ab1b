#pragma once

#include <optional>

namespace tutti::launcher {

/// Where this process is the first one of its pid namespace (of a container), it becomes the
/// parent of every process there whose own parent has ended, and has to collect them. Then a child
/// is made that is to do the work, and this one hands on signals and collects. The exit code, once
/// that child has ended; nothing in the child, and where this is not the first process.
[[nodiscard]] std::optional<int> collect_if_first();

}  // namespace tutti::launcher
