#include <exception>
#include <string>
#include <utility>

#include <tutti/backend/group_access.hpp>
#include <tutti/process_group.hpp>

#include "group/abort_by_exception.hpp"

namespace tutti {

void group::abort_by_exception(Backend& group) noexcept {
  const int rank = group.rank();
  group.abort(Outcome(Errc::aborted,
                      "rank " + std::to_string(rank) + " on " + group.location(rank) +
                          " left its calls by an exception. Look at that rank's output for the "
                          "cause; the group is broken")
                  .with_culprit(rank));
}

}  // namespace tutti

namespace tutti {
inline namespace v0 {

Guard::Guard(ProcessGroup group)
    : group_(std::move(group)), exceptions_(std::uncaught_exceptions()) {
  (void)GroupAccess::backend(group_);  // throws if it has no group
}

Guard::~Guard() {
  if (std::uncaught_exceptions() > exceptions_)
    group::abort_by_exception(GroupAccess::backend(group_));
}

}  // namespace v0
}  // namespace tutti
