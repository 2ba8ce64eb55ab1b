#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <tutti/backend/backend.hpp>
#include <tutti/export.hpp>
#include <tutti/message.hpp>
#include <tutti/process_group.hpp>

namespace tutti {
inline namespace TUTTI_EXPORT v0 {

/// The parts of a new handle of a group.
struct GroupParts {
  Backend* backend = nullptr;  ///< the group takes over its reference
  std::string name;
  std::vector<int> global_ranks;
  std::chrono::nanoseconds timeout;  ///< of operations that give none
  std::shared_ptr<Store> store = nullptr;
  Trust trust = Trust::none;
  SecretBytes secret = {};  ///< only ranks of the world know it; empty: they have proved nothing
};

/// Functions of a group that only bindings and backends need.
class GroupAccess {
 public:
  /// The backend of a group. Lives as long as the group.
  [[nodiscard]] static Backend& backend(const ProcessGroup& group);
  [[nodiscard]] static ProcessGroup make(GroupParts parts);
  /// Throws InvalidArgument with Trust::none: call it before sending or receiving a pickle. The
  /// text begins with `operation`, and says what to do.
  static void check_objects(const ProcessGroup& group, std::string_view operation);
  /// Starts a call that the caller has put together, after the checks of every call.
  /// `asynchronous`: see Backend::submit.
  static Work submit(ProcessGroup& group, Collective& call,
                     std::optional<std::chrono::nanoseconds> timeout, bool asynchronous);
  /// The exchange of counts before a `kind`: returns what this rank gets from each rank, if it gets
  /// blocks. An all_to_all gives `sent`, other kinds the input's number of elements. It blocks, and
  /// takes the time that has passed off `limit`, but leaves a millisecond.
  static std::vector<std::size_t> learn_counts(const ProcessGroup& group, Kind kind,
                                               const ConstTensorView& input,
                                               std::span<const std::size_t> sent, int root,
                                               std::chrono::nanoseconds& limit);
  /// Waits until one of the Works is done, at most `limit`, as tutti::wait_any; tells nothing.
  static void wait_any(std::span<Work* const> works, std::chrono::nanoseconds limit);
  /// As Message::irecv, with the same `asynchronous`.
  static Work submit(Message& message, const TensorView& buffer,
                     std::optional<std::chrono::nanoseconds> timeout, bool asynchronous) {
    return message.submit(buffer, timeout, asynchronous);
  }
};

}  // namespace v0
}  // namespace tutti
