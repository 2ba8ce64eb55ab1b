#pragma once

#include <optional>
#include <span>
#include <string>

namespace tutti::jax {

/// The arguments of a process to MPI_Comm_split: jaxlib takes a device of the set as color, the
/// same on all of its processes, and the place of its own device in the set as key.
struct Member {
  int color = 0;
  int key = 0;
};

/// Why the sets of devices of all processes do not fit together; nothing if they do. In a set every
/// place is there once. All processes come to the same answer.
[[nodiscard]] std::optional<std::string> problem_of(std::span<const Member> all);

/// The text for a split to which not all processes came. `told`: the error, which names them.
[[nodiscard]] std::string text_of_absence(double seconds, const std::string& told);

}  // namespace tutti::jax
