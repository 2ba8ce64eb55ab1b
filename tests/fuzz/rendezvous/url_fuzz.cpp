// Any init_method is parsed into parts that make sense, or refused with a message of bounded
// length.

#include "fuzz/fuzzer.hpp"
#include "rendezvous/url.hpp"

using namespace tutti::rendezvous;

namespace tutti::fuzz::url_parser {

TUTTI_FUZZER(url_fuzz)(const std::uint8_t* data, std::size_t size) {
  const auto url = parse_url({reinterpret_cast<const char*>(data), size});
  if (!url) {
    require(url.status().code() == tutti::Errc::invalid_argument);
    require(url.status().message().size() < 2000);
    return 0;
  }
  require(size <= kMostUrlBytes);
  const Url& parts = url.value();
  require((parts.scheme == Url::Scheme::tcp) == (!parts.host.empty() && parts.port != 0));
  require((parts.scheme == Url::Scheme::file) == !parts.path.empty());
  require(parts.path.empty() || (parts.path.front() == '/' && parts.path.back() != '/'));
  return 0;
}

}  // namespace tutti::fuzz::url_parser
