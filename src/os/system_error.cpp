#include "os/system_error.hpp"

#include <cerrno>
#include <system_error>

#include "base/format.hpp"

namespace tutti::os {
namespace {

Errc code_of(int error_number) noexcept {
  switch (error_number) {
    case ECONNREFUSED:
    case EACCES:
    case EPERM: return Errc::refused;
    case ECONNRESET:
    case ECONNABORTED:
    case EPIPE:
    case ENOTCONN:
    case EHOSTUNREACH:
    case ENETUNREACH:
    case ENETDOWN: return Errc::peer_lost;
    case ETIMEDOUT: return Errc::timeout;
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case ENOBUFS:
    case ENOSPC:
    case EFBIG:
    case EAGAIN:
    case EADDRINUSE: return Errc::resource;
    case EINVAL:
    case EADDRNOTAVAIL:
    case EAFNOSUPPORT:
    case ENOENT: return Errc::invalid_argument;
    case EINTR: return Errc::interrupted;
    case ENOSYS:
    case EOPNOTSUPP: return Errc::unsupported;
    default: return Errc::internal;
  }
}

/// Advice for a limit of this process.
std::string_view hint_for(int error_number) noexcept {
  switch (error_number) {
    case EMFILE: return "; allow this process more of them (ulimit -n)";
    case EFBIG: return "; allow this process larger files (ulimit -f)";
    default: return "";
  }
}

}  // namespace

Outcome system_error(std::string_view what, int error_number) {
  return Outcome(code_of(error_number),
                 base::format("{}: {}{}", what, std::generic_category().message(error_number),
                              hint_for(error_number)));
}

}  // namespace tutti::os
