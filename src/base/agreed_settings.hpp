#pragma once

#include <string_view>

namespace tutti::base {

/// The settings that all ranks must have alike (`digest_of` in backend/native/context.cpp), as
/// messages name them. A check of the documentation (tools/check_docs.py) looks for them.
inline constexpr std::string_view kAgreedSettings =
    "TUTTI_AGREE, TUTTI_TRANSPORT, TUTTI_ALGO, TUTTI_TLS or TUTTI_CUDA_IPC";

}  // namespace tutti::base
