#pragma once

#include <sys/types.h>

#include <string_view>

#include <tutti/error.hpp>

namespace tutti::store {

/// The bytes of a store's file that are locked. They are never written: locks need no bytes beneath
/// them.
inline constexpr off_t kTurnAt = off_t{1} << 60;   // exclusive: to write; shared: to read
inline constexpr off_t kPresenceAt = kTurnAt + 1;  // shared: held by each user as long as it lives

/// `what`, and the error of the last system call.
[[nodiscard]] Outcome io_error(std::string_view what);

/// F_RDLCK, F_WRLCK or F_UNLCK of the byte at `at`; false: another one has it. The lock belongs to
/// the open file and not to the process. So threads that each opened the file exclude each other,
/// and the kernel releases the lock when we are killed. The process that takes kPresenceAt
/// has the turn.
[[nodiscard]] Result<bool> try_lock(int fd, off_t at, short kind);

}  // namespace tutti::store
