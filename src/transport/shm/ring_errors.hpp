#pragma once

#include <new>

#include <tutti/error.hpp>

// Why a rank of this host is lost, in words where there is memory for them.
namespace tutti::transport::shm {

/// Errors that are made in advance, for use when there is no memory for a text.
struct Bare {
  Outcome left{Errc::peer_left, "a rank has left"};
  Outcome refused{Errc::refused, "a rank broke the rules; no memory to say how"};
  Outcome resource{Errc::resource, "no room for messages"};
};
inline const Bare& bare() {
  static const Bare made;
  return made;
}

template <class Text>
Outcome status_of(Errc code, const Text& text) noexcept {
  try {
    return Outcome(code, text());
  } catch (const std::bad_alloc&) {
    return code == Errc::peer_left ? bare().left
           : code == Errc::refused ? bare().refused
                                   : bare().resource;
  }
}

}  // namespace tutti::transport::shm
