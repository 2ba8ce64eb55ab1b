#pragma once

#include <nanobind/nanobind.h>

#include <atomic>
#include <memory>
#include <utility>

#include <tutti/process_group.hpp>

namespace tutti::python {

/// A group that knows whether the program has closed it, while others still use it.
class SharedGroup : public ProcessGroup {
 public:
  explicit SharedGroup(ProcessGroup group) : ProcessGroup(std::move(group)) {}
  void note_closed() noexcept { closed_.store(true, std::memory_order_relaxed); }
  // relaxed: it orders nothing, and a wait that misses it looks again.
  [[nodiscard]] bool closed() const noexcept { return closed_.load(std::memory_order_relaxed); }

 private:
  std::atomic<bool> closed_{false};
};

/// A handle that Python objects share. Destroying the last one may send queued data and join the
/// progress thread, so it releases the GIL meanwhile.
using Group = std::shared_ptr<SharedGroup>;

/// Any thread.
[[nodiscard]] Group share(ProcessGroup group);

/// The object behind Python's ProcessGroup. Any thread may close it while others use it.
class GroupHandle {
 public:
  explicit GroupHandle(Group group) : group_(std::move(group)) {}

  /// A reference for the caller. Throws InvalidArgument if the group is closed.
  [[nodiscard]] Group open() const {
    Group group = *this;
    if (group == nullptr) [[unlikely]]
      raise_closed();
    return group;
  }
  /// The same, or null if the group is closed.
  operator Group() const { return group_; }
  void close() {
    if (const Group group = *this; group != nullptr) group->note_closed();
    group_ = Group();
  }

 private:
  [[noreturn]] static void raise_closed();

#if defined(NB_FREE_THREADED)
  std::atomic<Group> group_;
#else
  Group group_;  // guarded by the GIL
#endif
};

/// Python's ProcessGroup. Needs the GIL.
[[nodiscard]] nanobind::object object_of(Group group);

/// Of arguments.hpp.
template <class T, class... Ts>
class Class;

void bind_group(nanobind::module_& module);
/// Adds the operations to the class.
void bind_collectives(Class<GroupHandle>& group);
void bind_multigpu(Class<GroupHandle>& group);
void bind_transfers(Class<GroupHandle>& group);
/// These also what they need to the module.
void bind_cart(nanobind::module_& module, Class<GroupHandle>& group);
void bind_probes(nanobind::module_& module, Class<GroupHandle>& group);
void bind_user_ops(nanobind::module_& module, Class<GroupHandle>& group);

}  // namespace tutti::python
