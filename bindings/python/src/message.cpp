#include <tutti/backend/group_access.hpp>
#include <tutti/message.hpp>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "arguments.hpp"
#include "gil.hpp"
#include "group.hpp"
#include "running.hpp"

namespace nb = nanobind;
using namespace nb::literals;

// Probes and messages.
namespace tutti::python {
namespace {

/// Python's Message. Any thread may use it.
///
/// Locking: `mutex_` is taken without the GIL, and the GIL never while it is held.
class FoundMessage {
 public:
  FoundMessage(Group group, Message message)
      : group_(std::move(group)), message_(std::move(message)) {}

  [[nodiscard]] int source() const noexcept { return message_.source(); }
  [[nodiscard]] int tag() const noexcept { return message_.tag(); }
  [[nodiscard]] std::string dtype() const { return std::string(to_string(message_.dtype())); }
  [[nodiscard]] std::size_t numel() const noexcept { return message_.count(); }

  void recv(nb::handle array, nb::handle timeout) {
    Memory memory("Message.recv");
    const TensorView view = memory.one(array, "array", Use::write);
    const Timeout limit = timeout_of(timeout);
    (void)run_blocking(group_, std::move(memory), [&](ProcessGroup&) {
      const std::lock_guard lock(mutex_);
      return GroupAccess::submit(message_, view, limit, false);
    });
  }

 private:
  Group group_;  ///< destroyed after the message, so that the message is not the last handle
  std::mutex mutex_;
  Message message_;
};

nb::object object_of(const Group& group, Message message) {
  return nb::cast(new FoundMessage(group, std::move(message)), nb::rv_policy::take_ownership);
}

nb::object try_probe(const GroupHandle& self, std::optional<int> src, std::optional<int> tag,
                     nb::handle timeout) {
  const ProbeOptions options{.tag = tag.value_or(any_tag), .timeout = timeout_of(timeout)};
  Kept::release_done();
  const Group group = self.open();
  std::optional<Message> found;
  {
    const WithoutGil unlocked;
    found = group->try_probe(src.value_or(any_source), options);
  }
  return found ? object_of(group, std::move(*found)) : nb::none();
}

nb::object probe(const GroupHandle& self, std::optional<int> src, std::optional<int> tag,
                 nb::handle timeout) {
  const ProbeOptions options{.tag = tag.value_or(any_tag), .timeout = timeout_of(timeout)};
  // If the message has arrived already, no thread has to wait.
  if (options.timeout.value_or(std::chrono::nanoseconds(1)) > std::chrono::nanoseconds(0)) {
    if (nb::object found = try_probe(self, src, tag, timeout); !found.is_none()) return found;
  }
  const Group group = self.open();
  return object_of(
      group,
      run_interruptibly(group, [options, source = src.value_or(any_source)](ProcessGroup& its) {
        return its.probe(source, options);
      }));
}

}  // namespace

void bind_probes(nb::module_& module, Class<GroupHandle>& group) {
  Class<FoundMessage>(module, "Message",
                      "A message that a probe has found: no other recv or probe gets it. One "
                      "that is dropped\n"
                      "before its recv goes back to its place.")
      .def_prop_ro("source", &FoundMessage::source, "The rank of the group that sent it.")
      .def_prop_ro("tag", &FoundMessage::tag)
      .def_prop_ro("dtype", &FoundMessage::dtype, "\"float32\", ...")
      .def_prop_ro("numel", &FoundMessage::numel, "How many elements it has.")
      .def("recv", &FoundMessage::recv, "array"_a, nb::kw_only(), "timeout"_a = nb::none(),
           "Receive it into an array of its dtype and number of elements.");
  group
      .def("probe", &probe, "src"_a = nb::none(), nb::kw_only(), "tag"_a = 0,
           "timeout"_a = nb::none(),
           "Wait for a message from one rank, or from any, with a tag or (None) with any, and take "
           "it without its\n"
           "bytes: a Message.")
      .def("try_probe", &try_probe, "src"_a = nb::none(), nb::kw_only(), "tag"_a = 0,
           "timeout"_a = nb::none(),
           "As probe, without waiting: None if no such message has come. The timeout has no "
           "meaning.");
}

}  // namespace tutti::python
