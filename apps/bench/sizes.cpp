#include "apps/bench/sizes.hpp"

#include <charconv>
#include <stdexcept>

#include "base/format.hpp"

namespace tutti::bench {

namespace {

constexpr std::uint64_t kLargest = std::uint64_t{1} << 30;
constexpr std::string_view kUnits = "KMG";

}  // namespace

std::uint64_t parse_size(std::string_view text) {
  const auto refuse = [&] {
    return std::invalid_argument(
        base::format("'{}' is not a size: a number of bytes, 8, 4K, 256K, 64M, at most 1G", text));
  };
  std::uint64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{}) throw refuse();
  std::string_view unit(rest, static_cast<std::size_t>(end - rest));
  std::uint64_t scale = 1;
  if (!unit.empty()) {
    const char letter = unit[0] == 'k' ? 'K' : unit[0];
    const auto power = kUnits.find(letter);
    unit.remove_prefix(1);
    if (power == std::string_view::npos || (!unit.empty() && unit != "iB" && unit != "B")) {
      throw refuse();
    }
    scale <<= 10 * (power + 1);
  }
  if (value > kLargest / scale) throw refuse();
  return value * scale;
}

std::string size_text(std::uint64_t bytes) {
  std::size_t power = 0;
  while (bytes >= 1024 && bytes % 1024 == 0 && power < kUnits.size()) {
    bytes /= 1024;
    ++power;
  }
  return power == 0 ? base::format("{}", bytes) : base::format("{}{}", bytes, kUnits[power - 1]);
}

std::vector<std::uint64_t> size_range(std::uint64_t begin, std::uint64_t end,
                                      std::uint64_t factor) {
  if (begin == 0 || begin > end || factor < 2) {
    throw std::invalid_argument(
        "sizes must begin above 0, end where they begin or later, and grow by a factor of 2 or "
        "more");
  }
  std::vector<std::uint64_t> sizes;
  for (std::uint64_t size = begin; size <= end; size *= factor) sizes.push_back(size);
  return sizes;
}

}  // namespace tutti::bench
