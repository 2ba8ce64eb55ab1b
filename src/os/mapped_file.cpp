#include "os/mapped_file.hpp"

#include <charconv>
#include <cstdint>
#include <fstream>
#include <system_error>

namespace tutti::os {

std::string mapped_file(const void* address) {
  const auto wanted = reinterpret_cast<std::uintptr_t>(address);
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    const char* const last = line.data() + line.size();
    const char* const dash = std::from_chars(line.data(), last, begin, 16).ptr;
    if (dash == last || std::from_chars(dash + 1, last, end, 16).ec != std::errc()) continue;
    const std::size_t path = line.find('/');
    if (wanted >= begin && wanted < end && path != line.npos) return line.substr(path);
  }
  return {};
}

}  // namespace tutti::os
