#include "base/object_head.hpp"

#include <bit>
#include <cstring>

#include "base/format.hpp"

namespace tutti::base {
namespace {

/// The head as it travels: little-endian.
struct Layout {
  std::uint32_t mark;
  std::uint16_t version;
  std::uint16_t failed;
  std::uint64_t type;
  std::uint64_t size;
};
static_assert(sizeof(Layout) == kObjectHeadBytes && std::endian::native == std::endian::little);

constexpr std::uint32_t kMark = 0x6a626f74;  // "tobj"
constexpr std::uint16_t kVersion = 1;
constexpr std::uint64_t kMost = std::uint64_t{1} << 46;  // no size beyond this is believed

}  // namespace

void write_object_head(const ObjectHead& head,
                       std::span<std::byte, kObjectHeadBytes> out) noexcept {
  const Layout layout = {kMark, kVersion, static_cast<std::uint16_t>(head.failed ? 1 : 0),
                         head.type, head.size};
  std::memcpy(out.data(), &layout, sizeof layout);
}

Result<ObjectHead> read_object_head(std::span<const std::byte> bytes) {
  const auto refuse = [](std::string why) {
    return Outcome(Errc::invalid_argument, std::move(why));
  };
  Layout layout;
  if (bytes.size() < sizeof layout) return refuse("are no object");
  std::memcpy(&layout, bytes.data(), sizeof layout);
  if (layout.mark != kMark || layout.failed > 1) return refuse("are no object");
  if (layout.version != kVersion) {
    return refuse(base::format("are an object in format {}, and this library reads format {}",
                               layout.version, kVersion));
  }
  if (layout.size > kMost)
    return refuse(base::format("tell an impossible size of {}", layout.size));
  return ObjectHead{layout.type, layout.size, layout.failed != 0};
}

}  // namespace tutti::base
