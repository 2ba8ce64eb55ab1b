#include <tutti/version.hpp>

namespace tutti::inline v0 {

std::string_view version() noexcept { return kVersion; }

}  // namespace tutti::inline v0
