#pragma once

#include <tutti/error.hpp>

#include <string_view>

namespace tutti::os {

/// A failed system call as a Status: "<what>: <text of the error number>", with the code that
/// belongs to the number (ECONNREFUSED is refused, EMFILE is resource, ECONNRESET is peer_lost
/// ...).
[[nodiscard]] Status system_error(std::string_view what, int error_number);

}  // namespace tutti::os
