#pragma once

#include <cstdint>
#include <string>

#include <tutti/error.hpp>

namespace tutti::os {

/// This host's name, "unknown" if it has none.
[[nodiscard]] std::string host_name();
/// The kernel's random id of this boot, as text: equal on two processes of one running kernel only.
Result<std::string> boot_id();
/// Number of the network namespace of the calling thread: with the boot id it says whether two
/// processes reach each other's abstract unix sockets.
Result<std::uint64_t> network_namespace();
/// Number of the pid namespace of this process: two processes with equal ones mean the same by a
/// process id.
Result<std::uint64_t> pid_namespace();
/// The effective user of this process, by its number outside of its user namespace. Processes of
/// one user in several containers get the same number.
[[nodiscard]] std::uint64_t user_outside();

}  // namespace tutti::os
