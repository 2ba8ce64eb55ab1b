#include <tutti/stream.hpp>

#include <utility>

#include "group/on_stream.hpp"

namespace tutti {
inline namespace v0 {
namespace {

thread_local std::uintptr_t current = 0;

}  // namespace

StreamGuard::StreamGuard(std::uintptr_t stream) noexcept
    : before_(std::exchange(current, stream)) {}

StreamGuard::~StreamGuard() { current = before_; }

std::uintptr_t stream_of_thread() noexcept { return current; }

OnStream::OnStream(const Collective& call) noexcept : call_(call) {
  if (current == 0 || (call.details != nullptr && call.details->stream != 0)) return;
  if (call.details != nullptr) details_ = *call.details;
  details_.stream = current;
  call_.details = &details_;
}

}  // namespace v0
}  // namespace tutti
