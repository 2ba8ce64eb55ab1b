#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::bench {

/// "8", "4K", "256KiB", "64M", "1G": powers of 1024. Throws std::invalid_argument.
std::uint64_t parse_size(std::string_view text);

/// The shortest such text: 4096 is "4K", 1000 is "1000".
std::string size_text(std::uint64_t bytes);

/// begin, begin * factor, ... up to and including end. Throws std::invalid_argument.
std::vector<std::uint64_t> size_range(std::uint64_t begin, std::uint64_t end, std::uint64_t factor);

}  // namespace tutti::bench
