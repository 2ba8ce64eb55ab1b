#include "rendezvous/url.hpp"

#include "base/format.hpp"
#include "base/number.hpp"
#include "base/shown.hpp"

namespace tutti::rendezvous {
namespace {

constexpr std::string_view kForms =
    "it must be env://, tcp://host:port or file:///path, with ?rank=..&world_size=.. behind it if "
    "these are not set otherwise";
constexpr std::size_t kShown = 128;

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<Url> parse() {
    if (text_.size() > kMostUrlBytes)
      return bad(base::format("has {} bytes, {} is the limit", text_.size(), kMostUrlBytes));
    if (text_.find('\0') != std::string_view::npos) return bad("holds a zero byte");
    const std::size_t end = text_.find("://");
    if (text_.empty()) return bad("is empty");
    if (end == std::string_view::npos) {
      if (text_.front() == '/')
        return bad(base::format("is a bare path; write file://{}", base::shown(text_, kShown)));
      return bad("has no scheme");
    }
    const std::string_view scheme = text_.substr(0, end);
    std::string_view rest = text_.substr(end + 3);
    const std::size_t query = rest.find('?');
    if (query != std::string_view::npos) {
      if (Outcome s = read_query(rest.substr(query + 1)); !s) return s;
      rest = rest.substr(0, query);
    }
    Outcome read =
        scheme == "env"   ? read_env(rest)
        : scheme == "tcp" ? read_tcp(rest)
        : scheme == "file"
            ? read_file(rest)
            : bad(base::format("has the unknown scheme \"{}\"", base::shown(scheme, kShown)));
    if (!read) return read;
    return url_;
  }

 private:
  [[nodiscard]] Outcome bad(std::string_view why) const {
    return Outcome(Errc::invalid_argument,
                   base::format("cannot join the job: init_method \"{}\" {}; {}",
                                base::shown(text_, kShown), why, kForms));
  }

  Outcome read_query(std::string_view query) {
    while (!query.empty()) {
      const std::size_t end = query.find('&');
      const std::string_view pair = query.substr(0, end);
      query = end == std::string_view::npos ? std::string_view() : query.substr(end + 1);
      const std::size_t equals = pair.find('=');
      const std::string_view name = pair.substr(0, equals);
      std::optional<int>* const wanted = name == "rank"         ? &url_.rank
                                         : name == "world_size" ? &url_.size
                                                                : nullptr;
      if (wanted == nullptr) {
        return bad(base::format("has the unknown parameter \"{}\", known are rank and world_size",
                                base::shown(name, kShown)));
      }
      if (*wanted) return bad(base::format("gives {} twice", name));
      const std::string_view value =
          equals == std::string_view::npos ? std::string_view() : pair.substr(equals + 1);
      *wanted = base::whole_number(value);
      if (!*wanted)
        return bad(base::format("gives {} as \"{}\", which is not a whole number", name,
                                base::shown(value, kShown)));
    }
    return {};
  }

  Outcome read_env(std::string_view rest) {
    url_.scheme = Url::Scheme::env;
    return rest.empty() ? Outcome() : bad("has something behind env://");
  }

  Outcome read_tcp(std::string_view rest) {
    url_.scheme = Url::Scheme::tcp;
    if (!rest.empty() && rest.back() == '/') rest.remove_suffix(1);
    std::string_view port;
    if (rest.starts_with('[')) {
      const std::size_t close = rest.find(']');
      if (close == std::string_view::npos) return bad("has no ] behind its [");
      url_.host = rest.substr(1, close - 1);
      rest = rest.substr(close + 1);
      if (!rest.empty() && rest.front() != ':') return bad("has something between ] and its port");
      port = rest.empty() ? rest : rest.substr(1);
    } else {
      const std::size_t colon = rest.find(':');
      if (colon != rest.rfind(':')) return bad("needs [ ] around an IPv6 address");
      url_.host = rest.substr(0, colon);
      port = colon == std::string_view::npos ? std::string_view() : rest.substr(colon + 1);
    }
    if (url_.host.empty()) return bad("has no host");
    if (port.empty()) return bad("has no port");
    const std::optional<int> value = base::whole_number(port);
    if (!value || *value < 1 || *value > 65535) {
      return bad(base::format("has the port \"{}\", ports are 1 to 65535, the same on all ranks",
                              base::shown(port, kShown)));
    }
    url_.port = static_cast<std::uint16_t>(*value);
    return {};
  }

  Outcome read_file(std::string_view rest) {
    url_.scheme = Url::Scheme::file;
    if (rest.empty()) return bad("has no path");
    if (rest.front() != '/')
      return bad("needs three slashes: behind file:// comes a path that begins with /");
    if (rest.back() == '/') return bad("names a folder, not a file");
    url_.path = rest;
    return {};
  }

  std::string_view text_;
  Url url_;
};

}  // namespace

Result<Url> parse_url(std::string_view text) { return Parser(text).parse(); }

}  // namespace tutti::rendezvous
