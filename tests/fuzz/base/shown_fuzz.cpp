// Whatever bytes others give: what is shown of them is UTF-8, no longer than it may be, and of
// UTF-8 it is the text itself. On a line of its own nothing in it ends the line or moves a cursor.

#include <string>

#include "base/shown.hpp"
#include "fuzz/fuzzer.hpp"

using namespace tutti::base;

namespace tutti::fuzz::shown_parser {

TUTTI_FUZZER(shown_fuzz)(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::string whole = shown(text);
  require(whole.size() >= size && whole.size() <= 4 * size);
  require(shown(whole) == whole);
  const std::string line = shown_on_line(text);
  require(line.size() >= whole.size() && line.size() <= 4 * size);
  require(shown(line) == line && shown_on_line(line) == line);
  for (const char c : line) require(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f);
  require(line.find("\xc2\x80") == std::string::npos && line.find("\xc2\x9f") == std::string::npos);
  for (std::size_t most = 0; most <= size && most < 64; ++most) {
    const std::string_view part = cut(text, most);
    require(part.size() <= most && part.size() + 3 >= most && text.starts_with(part));
    require(shown(text, most) == shown(part));
    require(whole.starts_with(shown(part)) || whole != text);
    const std::string words = shown_words(text, most);
    require(words == line || words.ends_with("..."));
    require(words.size() <= 4 * most + 4 && shown_on_line(words) == words);
  }
  return 0;
}

}  // namespace tutti::fuzz::shown_parser
