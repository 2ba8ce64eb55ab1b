// Whatever bytes others give: what is shown of them is UTF-8, no longer than it may be, and of
// UTF-8 it is the text itself.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/shown.hpp"
#include "fuzz/require.hpp"

using tutti::base::cut;
using tutti::base::shown;
using tutti::fuzz::require;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::string whole = shown(text);
  require(whole.size() >= size && whole.size() <= 4 * size);
  require(shown(whole) == whole);
  for (std::size_t most = 0; most <= size && most < 64; ++most) {
    const std::string_view part = cut(text, most);
    require(part.size() <= most && part.size() + 3 >= most && text.starts_with(part));
    require(shown(text, most) == shown(part));
    require(whole.starts_with(shown(part)) || whole != text);
  }
  return 0;
}
