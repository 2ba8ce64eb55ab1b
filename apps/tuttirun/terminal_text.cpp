#include "terminal_text.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

namespace tutti::launcher {
namespace {

struct Range {
  std::uint32_t first;
  std::uint32_t last;
};

// Characters of two columns (East Asian scripts, emoji), with narrow ones between where that makes
// the table short.
constexpr std::array<Range, 14> kWide = {{{0x1100, 0x115f},
                                          {0x231a, 0x23ff},
                                          {0x25fd, 0x27bf},
                                          {0x2b1b, 0x2b55},
                                          {0x2e80, 0xa4cf},
                                          {0xa960, 0xa97f},
                                          {0xac00, 0xd7a3},
                                          {0xf900, 0xfaff},
                                          {0xfe10, 0xfe1f},
                                          {0xfe30, 0xfe6f},
                                          {0xff00, 0xff60},
                                          {0xffe0, 0xffe6},
                                          {0x16fe0, 0x1faff},
                                          {0x20000, 0x3ffff}}};
// Those of none: accents, joiners, variants of the character before.
constexpr std::array<Range, 4> kZero = {
    {{0x0300, 0x036f}, {0x200b, 0x200f}, {0xfe00, 0xfe0f}, {0xe0100, 0xe01ef}}};

template <std::size_t size>
bool is_in(const std::array<Range, size>& ranges, std::uint32_t code) noexcept {
  return std::ranges::any_of(
      ranges, [code](const Range& range) { return range.first <= code && code <= range.last; });
}

constexpr std::uint32_t kNoCharacter = 0xffffffff;

/// The number of the first character, and the bytes it takes; kNoCharacter for a byte that is no
/// UTF-8.
std::uint32_t decode(std::string_view text, std::size_t& bytes) noexcept {
  const auto first = static_cast<unsigned char>(text.front());
  bytes = 1;
  if (first < 0x80) return first;
  const std::size_t size = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < size) return kNoCharacter;
  std::uint32_t code = first & (0xffU >> (size + 1));
  for (std::size_t at = 1; at < size; ++at) {
    const auto next = static_cast<unsigned char>(text[at]);
    if ((next & 0xc0U) != 0x80U) return kNoCharacter;
    code = (code << 6U) | (next & 0x3fU);
  }
  bytes = size;
  return code;
}

/// Up to the bell, or to the escape sequence that ends strings.
std::size_t string_length(std::string_view text, std::size_t at) noexcept {
  for (; at < text.size(); ++at) {
    if (text[at] == '\a') return at + 1;
    if (text.substr(at).starts_with("\x1b\\") || text.substr(at).starts_with("\xc2\x9c"))
      return at + 2;
  }
  return text.size();
}

std::size_t control_length(std::string_view text, std::size_t at) noexcept {
  while (at < text.size() && (text[at] < '@' || text[at] > '~')) ++at;
  return std::min(at + 1, text.size());
}

}  // namespace

std::size_t escape_length(std::string_view text) noexcept {
  // The controls of ISO 6429 by one character: U+0080 and what follows ESC without 0x40.
  const auto second = static_cast<unsigned char>(text.size() < 2 ? 0 : text[1]);
  const bool is_one = text.starts_with('\xc2') && second >= 0x80 && second <= 0x9f;
  if (!text.starts_with('\x1b') && !is_one) return 0;
  if (text.size() < 2) return text.size();
  const char kind = is_one ? static_cast<char>(second - 0x40) : text[1];
  if (kind == '[') return control_length(text, 2);
  if (std::string_view("]PX^_").find(kind) != std::string_view::npos) return string_length(text, 2);
  std::size_t at = 1;
  while (at < text.size() && text[at] >= ' ' && text[at] <= '/') ++at;  // as in ESC ( B
  return std::min(at + 1, text.size());
}

Character first_character(std::string_view text) noexcept {
  Character result;
  const std::uint32_t code = decode(text, result.bytes);
  if (code < 0x20 || (code >= 0x7f && code < 0xa0) || is_in(kZero, code))
    result.columns = 0;
  else if (is_in(kWide, code))
    result.columns = 2;
  return result;
}

bool has_visible_text(std::string_view text) noexcept {
  while (!text.empty()) {
    const std::size_t escape = escape_length(text);
    const Character one = first_character(text);
    if (escape == 0 && one.columns > 0 && text.front() != ' ') return true;
    text.remove_prefix(escape > 0 ? escape : one.bytes);
  }
  return false;
}

}  // namespace tutti::launcher
