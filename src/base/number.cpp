#include "base/number.hpp"

#include <locale.h>
#include <stdlib.h>

#include <cerrno>
#include <cmath>
#include <string>

namespace tutti::base {

// std::from_chars would do, but libc++ has none for it before version 20.
std::optional<double> real_number(std::string_view text) {
  static const locale_t plain = ::newlocale(LC_ALL_MASK, "C", nullptr);
  const std::string copy(without_blanks(text));
  // strtod reads these, too.
  if (copy.starts_with('+') || copy.find_first_of("xX") != std::string::npos) return std::nullopt;
  char* stop = nullptr;
  errno = 0;
  const double value = ::strtod_l(copy.c_str(), &stop, plain);
  const bool out_of_range = errno == ERANGE && (std::isinf(value) || value == 0);
  if (copy.empty() || out_of_range || stop != copy.data() + copy.size()) return std::nullopt;
  return value;
}

}  // namespace tutti::base
