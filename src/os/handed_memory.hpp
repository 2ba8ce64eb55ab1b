#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

#include <tutti/error.hpp>

#include "os/fd.hpp"

// Memory (a memfd) that a launcher hands to the processes below it. An environment variable names
// it: "7:81234:4711" is descriptor 7, the inode 81234 of the memfd, and the process 4711, the
// launcher, which keeps the memory open under the same number.
//
// A program between the launcher and a rank may close its descriptors, as Python's subprocess does,
// or open other files under their numbers. So the inode is compared, and a process that has not
// inherited the memory opens the launcher's descriptor in /proc. The kernel allows this to the same
// user and to root only.
namespace tutti::os {

/// By which a launcher hands the memory of the flight recorder on.
inline constexpr const char* kRecordVariable = "TUTTI_RECORD_FD";

enum class HandedAccess : unsigned char { read, write };

/// The text by which children find this memory. They inherit it under the same number.
[[nodiscard]] Result<std::string> name_handed(const Fd& memory);

/// Finds the memory that `text` names; the descriptor is new and closed on exec. An inherited one
/// is closed on exec from now on, too, so that programs of the rank do not inherit it. `what`
/// begins the error.
[[nodiscard]] Result<Fd> find_handed(std::string_view text, HandedAccess access,
                                     const std::string& what);

}  // namespace tutti::os
