#include <tutti/version.hpp>

namespace tutti {
inline namespace v0 {

std::string_view version() noexcept { return kVersion; }

}  // namespace v0
}  // namespace tutti
