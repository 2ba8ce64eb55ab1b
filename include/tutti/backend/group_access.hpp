#pragma once

#include <chrono>
#include <optional>

#include <tutti/backend/backend.hpp>
#include <tutti/message.hpp>
#include <tutti/process_group.hpp>

namespace tutti {

/// The parts of a group that only bindings and backends need.
class GroupAccess {
 public:
  /// The backend of a group. Lives as long as the group.
  [[nodiscard]] static Backend& backend(const ProcessGroup& group) noexcept { return group.impl(); }
  /// Starts a call that the caller has put together, after the checks of every call.
  /// `asynchronous`: see Backend::submit.
  static Work submit(ProcessGroup& group, Collective& call,
                     std::optional<std::chrono::nanoseconds> timeout, bool asynchronous) {
    return group.submit(call, timeout, asynchronous);
  }
  /// As Message::irecv, with the same `asynchronous`.
  static Work submit(Message& message, const TensorView& buffer,
                     std::optional<std::chrono::nanoseconds> timeout, bool asynchronous) {
    return message.submit(buffer, timeout, asynchronous);
  }
};

}  // namespace tutti
