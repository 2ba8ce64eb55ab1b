#pragma once

#include <string>
#include <string_view>

#include <tutti/config.hpp>

namespace tutti::base {

/// The settings that all ranks must have alike, as messages name them. A check of the documentation
/// (tools/check_docs.py) looks for them.
inline constexpr std::string_view kAgreedSettings =
    "TUTTI_AGREE, TUTTI_TRANSPORT, TUTTI_ALGO, TUTTI_TLS or TUTTI_CUDA_IPC";

/// Their values as ranks send them to each other: a line NAME=VALUE for each, 1000 bytes at most.
[[nodiscard]] std::string agreed_settings_of(const Config& config);

/// "TUTTI_TLS is '1' on rank 0 and '0' on rank 1", for each setting that differs. `one` and `other`
/// may be any bytes of another rank; the result is safe to print.
[[nodiscard]] std::string settings_that_differ(std::string_view one, int rank_of_one,
                                               std::string_view other, int rank_of_other);

}  // namespace tutti::base
