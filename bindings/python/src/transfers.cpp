#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <tutti/backend/group_access.hpp>

#include "arguments.hpp"
#include "gil.hpp"
#include "group.hpp"
#include "running.hpp"

namespace nb = nanobind;
using namespace nb::literals;

// Sends and recvs.
namespace tutti::python {
namespace {

int source_of(std::optional<int> source) { return source.value_or(any_source); }
int tag_of(std::optional<int> tag) { return tag.value_or(any_tag); }

// Runs a transfer that this thread waits for at once, so the progress thread need not run it.
Work start(ProcessGroup& group, Kind kind, const TensorView& view, int peer, int tag,
           Timeout timeout) {
  Collective call;
  call.kind = kind;
  call.root = peer;
  call.tag = tag;
  (kind == Kind::send ? call.input : call.output) = view;
  return GroupAccess::submit(group, call, timeout, false);
}

void send(const GroupHandle& self, nb::handle array, int dst, int tag, nb::handle timeout) {
  Memory memory("send");
  const TensorView view = memory.one(array, "array", Use::read);
  const Timeout limit = timeout_of(timeout);
  (void)run(self.open(), std::move(memory), false,
            [&](ProcessGroup& group) { return start(group, Kind::send, view, dst, tag, limit); });
}

int recv(const GroupHandle& self, nb::handle array, std::optional<int> src, std::optional<int> tag,
         nb::handle timeout) {
  const Group group = self.open();
  Memory memory("recv");
  const TensorView view = memory.one(array, "array", Use::write);
  const Timeout limit = timeout_of(timeout);
  return run_blocking(group, std::move(memory), [&](ProcessGroup& one) {
    return start(one, Kind::recv, view, source_of(src), tag_of(tag), limit);
  });
}

nb::object isend(const GroupHandle& self, nb::handle array, int dst, int tag, nb::handle timeout) {
  Memory memory("isend");
  const TensorView view = memory.one(array, "array", Use::read);
  const SendOptions options{.tag = tag, .timeout = timeout_of(timeout)};
  const Group group = self.open();
  memory.set_sent(std::make_unique<SentMessage>(*group, view, dst, tag));
  return run(group, std::move(memory), true,
             [&](ProcessGroup& one) { return one.isend(view, dst, options); });
}

nb::object irecv(const GroupHandle& self, nb::handle array, std::optional<int> src,
                 std::optional<int> tag, nb::handle timeout) {
  Memory memory("irecv");
  const TensorView view = memory.one(array, "array", Use::write);
  const RecvOptions options{.tag = tag_of(tag), .timeout = timeout_of(timeout)};
  return run(self.open(), std::move(memory), true,
             [&](ProcessGroup& group) { return group.irecv(view, source_of(src), options); });
}

constexpr const char* kBatch = "batch_isend_irecv";

nb::list batch_isend_irecv(const GroupHandle& self, nb::sequence operations, nb::handle timeout) {
  const Group group = self.open();
  const BatchOptions options{.timeout = timeout_of(timeout)};
  Kept::release_done();
  std::vector<P2POp> ops;
  std::vector<Memory> memories;
  std::uintptr_t stream = 0;  // all messages of a batch are on one
  for (const nb::handle one : operations) {
    nb::tuple fields;
    std::string kind;
    const bool whole = nb::try_cast(one, fields) && fields.size() == 4 &&
                       nb::try_cast(fields[0], kind) && (kind == "send" || kind == "recv");
    if (!whole) {
      throw nb::type_error(
          "batch_isend_irecv: each operation must be a tuple (\"send\" or \"recv\", array, peer, "
          "tag)");
    }
    const nb::object array = fields[1];
    const auto peer = Taken<std::optional<int>>::from(fields[2], {kBatch, "peer", &self});
    const int tag =
        kind == "send" ? Taken<int>::from(fields[3], {kBatch, "tag", &self})
                       : tag_of(Taken<std::optional<int>>::from(fields[3], {kBatch, "tag", &self}));
    Memory memory(kBatch);
    const TensorView view = memory.one(array, "array", kind == "send" ? Use::read : Use::write);
    if (stream == 0) stream = memory.stream();
    if (kind == "send")
      memory.set_sent(std::make_unique<SentMessage>(*group, view, source_of(peer), tag));
    memories.push_back(std::move(memory));
    ops.push_back(kind == "send" ? P2POp::isend(view, source_of(peer), tag)
                                 : P2POp::irecv(view, source_of(peer), tag));
  }
  std::vector<Work> works;
  try {
    const WithoutGil unlocked;
    const StreamGuard guard(stream);
    works = group->batch_isend_irecv(ops, options);
  } catch (const Error& error) {
    if (memories.empty()) throw;
    memories.front().raise(error.status());
  }
  nb::list all;
  for (std::size_t i = 0; i < works.size(); ++i) {
    all.append(nb::cast(new RunningWork(std::move(works[i]), std::move(memories[i]), group),
                        nb::rv_policy::take_ownership));
  }
  return all;
}

}  // namespace

void bind_transfers(Class<GroupHandle>& group) {
  const auto tag = "tag"_a = 0;
  const auto timeout = "timeout"_a = nb::none();
  group
      .def("send", &send, "array"_a, "dst"_a, nb::kw_only(), tag, timeout,
           "Send to one rank; return when the array may be used again.")
      .def("recv", &recv, "array"_a, "src"_a = nb::none(), nb::kw_only(), tag, timeout,
           "Receive from one rank, or from any, with a tag or (None) with any; returns the rank "
           "that "
           "sent.")
      .def("isend", &isend, "array"_a, "dst"_a, nb::kw_only(), tag, timeout,
           "As send, without waiting. `dst` may be this rank.")
      .def("irecv", &irecv, "array"_a, "src"_a = nb::none(), nb::kw_only(), tag, timeout,
           "As recv, without waiting; Work.source_rank and Work.tag tell the message.")
      .def("batch_isend_irecv", &batch_isend_irecv, "operations"_a, nb::kw_only(), timeout,
           "Start all: (\"send\" or \"recv\", array, peer, tag). Where one is wrong none is "
           "started.\n"
           "A Work each.");
}

}  // namespace tutti::python
