#include "base/nearest.hpp"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

namespace tutti::base {
namespace {

// Shorter beginnings fit too much.
constexpr std::size_t kLeastBeginning = 4;

}  // namespace

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row.back();
}

std::optional<std::string> nearest(std::string_view word, std::span<const std::string> known) {
  std::optional<std::string> best;
  std::size_t best_distance = SIZE_MAX;
  for (const std::string& one : known) {
    // Half a word is a better hint than a similar one.
    const bool begins = word.size() >= kLeastBeginning && one.starts_with(word);
    const std::size_t distance = begins ? 1 : edit_distance(word, one);
    if (distance < best_distance) {
      best_distance = distance;
      best = one;
    }
  }
  if (best_distance > std::max<std::size_t>(2, word.size() / 3)) return std::nullopt;
  return best;
}

}  // namespace tutti::base
