#include "base/format.hpp"

namespace tutti::base {

std::string format_arguments(fmt::string_view text, fmt::format_args arguments) {
  return fmt::vformat(text, arguments);
}

}  // namespace tutti::base
