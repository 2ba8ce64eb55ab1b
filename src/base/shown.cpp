#include "base/shown.hpp"

#include <algorithm>

namespace tutti::base {
namespace {

constexpr std::size_t kLongest = 4;  // bytes of a character

unsigned byte_at(std::string_view text, std::size_t at) noexcept {
  return static_cast<unsigned char>(text[at]);
}

bool continues(unsigned byte) noexcept { return (byte & 0xc0) == 0x80; }

/// Bytes of the character at the beginning of a text that is not empty; 0: that is no UTF-8.
std::size_t character(std::string_view text) noexcept {
  const unsigned first = byte_at(text, 0);
  if (first < 0x80) return 1;
  // 0xc0 and 0xc1 would be longer than they need, and 0xf5 and more are beyond Unicode.
  const std::size_t length = first >= 0xf5   ? 0
                             : first >= 0xf0 ? 4
                             : first >= 0xe0 ? 3
                             : first >= 0xc2 ? 2
                                             : 0;
  if (length == 0 || length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if (!continues(byte_at(text, i))) return 0;
  }
  const unsigned second = byte_at(text, 1);
  if (first == 0xe0 && second < 0xa0) return 0;   // longer than it needs
  if (first == 0xf0 && second < 0x90) return 0;   // same
  if (first == 0xed && second >= 0xa0) return 0;  // half of a pair of UTF-16
  if (first == 0xf4 && second >= 0x90) return 0;  // beyond Unicode
  return length;
}

/// One character of UTF-8 that moves a cursor, rings, or tells a terminal something else.
bool is_control(std::string_view one) noexcept {
  const unsigned first = byte_at(one, 0);
  // U+0080 to U+009F are two bytes long.
  return first < 0x20 || first == 0x7f || (first == 0xc2 && byte_at(one, 1) < 0xa0);
}

/// Bytes that are no UTF-8, and characters for which `hidden` says so, as \xHH.
template <class Hidden>
std::string escaped(std::string_view text, Hidden hidden) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string whole;
  whole.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = character(text);
    const std::string_view one = text.substr(0, std::max<std::size_t>(length, 1));
    if (length > 0 && !hidden(one)) {
      whole += one;
    } else {
      for (std::size_t i = 0; i < one.size(); ++i) {
        const unsigned byte = byte_at(one, i);
        whole += {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 0xf]};
      }
    }
    text.remove_prefix(one.size());
  }
  return whole;
}

}  // namespace

std::string_view cut(std::string_view text, std::size_t most) noexcept {
  if (text.size() <= most) return text;
  // Does a character reach over the place? It would begin at most three bytes before.
  for (std::size_t back = 1; back < kLongest && back <= most; ++back) {
    const std::size_t length = character(text.substr(most - back));
    if (length > back) return text.substr(0, most - back);
    if (length > 0 || !continues(byte_at(text, most - back))) break;
  }
  return text.substr(0, most);
}

std::string shown(std::string_view text, std::size_t most) {
  return escaped(cut(text, most), [](std::string_view) { return false; });
}

std::string shown_on_line(std::string_view text, std::size_t most) {
  return escaped(cut(text, most), is_control);
}

std::string shown_words(std::string_view text, std::size_t most) {
  const std::string_view kept = cut(text, most);
  if (kept.size() == text.size()) return shown_on_line(text);
  // A blank right behind it ends a word, too.
  const std::size_t blank = text.rfind(' ', kept.size());
  const std::size_t last = text.substr(0, blank).find_last_not_of(' ');
  if (blank == std::string_view::npos || last == std::string_view::npos)
    return shown_on_line(kept) + "...";
  return shown_on_line(text.substr(0, last + 1)) + " ...";
}

}  // namespace tutti::base
