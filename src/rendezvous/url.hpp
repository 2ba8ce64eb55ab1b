#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <tutti/error.hpp>

namespace tutti::rendezvous {

inline constexpr std::size_t kMostUrlBytes = 4096;

/// Where the ranks meet, as `init_method` says it. Taken apart only: nobody was asked whether the
/// host or the path is there.
struct Url {
  enum class Scheme { env, tcp, file };
  Scheme scheme = Scheme::env;
  std::string host;  ///< tcp; an IPv6 address without brackets
  std::uint16_t port = 0;
  std::string path;         ///< file; as it stands there, nothing is decoded
  std::optional<int> rank;  ///< `?rank=`
  std::optional<int> size;  ///< `?world_size=`
};

/// From "env://", "tcp://host:port", "tcp://[::1]:port" or "file:///path", each with an optional
/// "?rank=1&world_size=4". Pure.
/// Errors: invalid_argument, which says what is wrong and how it should look.
Result<Url> parse_url(std::string_view text);

}  // namespace tutti::rendezvous
