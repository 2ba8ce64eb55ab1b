#include "group.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <tutti/init.hpp>

#include "buffer.hpp"
#include "errors.hpp"
#include "kept.hpp"
#include "timeout.hpp"
#include "waiting.hpp"
#include "work.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace tutti::python {
namespace {

// The object behind Python's ProcessGroup.
struct GroupHandle {
  Group group;
};

// None for a blocking call, which has then ended well.
std::optional<RunningWork> run(const Group& group, Collective& call, Buffer buffer, Timeout timeout,
                               bool asynchronous) {
  Kept::release_done();
  if (!asynchronous) {
    run_blocking(*group, call, timeout);
    return std::nullopt;
  }
  Work work;
  {
    const nb::gil_scoped_release unlocked;  // it copies small inputs at once
    work = group->submit(call, timeout, true);
  }
  return RunningWork(std::move(work), std::move(buffer), group);
}

std::optional<RunningWork> all_reduce(const GroupHandle& self, nb::handle array, ReduceOp op,
                                      nb::handle timeout, bool asynchronous) {
  Buffer buffer(array, "all_reduce");
  Collective call;
  call.kind = Kind::all_reduce;
  call.op = op;
  call.input = call.output = buffer.view();
  return run(self.group, call, std::move(buffer), timeout_of(timeout), asynchronous);
}

std::optional<RunningWork> broadcast(const GroupHandle& self, nb::handle array, int root,
                                     nb::handle timeout, bool asynchronous) {
  Buffer buffer(array, "broadcast");
  Collective call;
  call.kind = Kind::broadcast;
  call.root = root;
  call.input = call.output = buffer.view();
  return run(self.group, call, std::move(buffer), timeout_of(timeout), asynchronous);
}

std::optional<RunningWork> barrier(const GroupHandle& self, nb::handle timeout, bool asynchronous) {
  Collective call;
  call.kind = Kind::barrier;
  return run(self.group, call, Buffer(), timeout_of(timeout), asynchronous);
}

std::optional<GroupHandle> new_group(const GroupHandle& self, std::vector<int> ranks,
                                     std::string name, nb::handle timeout) {
  Kept::release_done();
  const Group parent = self.group;
  auto made = std::make_shared<std::optional<ProcessGroup>>();
  run_interruptibly(
      [parent, made, ranks = std::move(ranks), name = std::move(name),
       limit = timeout_of(timeout)] {
        *made = parent->new_group(ranks, {.name = name, .timeout = limit});
      },
      [&] {
        interrupt(*parent);  // then the creation fails at once
        return true;
      });
  if (!*made) return std::nullopt;
  return GroupHandle{share(std::move(**made))};
}

nb::object health(const GroupHandle& self) {
  const Status status = self.group->health();
  return status.ok() ? nb::none() : exception_of(status);
}

void abort(const GroupHandle& self, const std::string& reason) {
  const nb::gil_scoped_release unlocked;
  self.group->abort(reason);
}

std::string repr(const GroupHandle& self) {
  return "<tutti.ProcessGroup '" + std::string(self.group->name()) + "' rank " +
         std::to_string(self.group->rank()) + " of " + std::to_string(self.group->size()) + ">";
}

}  // namespace

Group share(ProcessGroup group) {
  return Group(new ProcessGroup(std::move(group)), [](ProcessGroup* last) {
    const nb::gil_scoped_release unlocked;
    delete last;
  });
}

void bind_group(nb::module_& module) {
  nb::enum_<ReduceOp>(module, "ReduceOp", "How values of different ranks are combined.")
      .value("SUM", ReduceOp::sum)
      .value("AVG", ReduceOp::avg)
      .value("PRODUCT", ReduceOp::product)
      .value("MIN", ReduceOp::min)
      .value("MAX", ReduceOp::max)
      .value("BAND", ReduceOp::band)
      .value("BOR", ReduceOp::bor)
      .value("BXOR", ReduceOp::bxor)
      .value("PREMUL_SUM", ReduceOp::premul_sum);

  nb::class_<GroupHandle>(module, "ProcessGroup",
                          "A group of ranks that call the same operations in the same order.")
      .def_prop_ro(
          "rank", [](const GroupHandle& self) { return self.group->rank(); }, "Ours.")
      .def_prop_ro(
          "size", [](const GroupHandle& self) { return self.group->size(); },
          "How many ranks there are.")
      .def_prop_ro(
          "name", [](const GroupHandle& self) { return std::string(self.group->name()); },
          "For messages.")
      .def("all_reduce", &all_reduce, "array"_a, "op"_a = ReduceOp::sum, nb::kw_only(),
           "timeout"_a = nb::none(), "async_op"_a = false,
           "Combine the arrays of all ranks, element by element, into each of them, in place.\n\n"
           "`array`: NumPy, DLPack or a writable buffer; strides are free. Blocks, or returns a "
           "Work\n"
           "with async_op; the array must not be touched until that is done.")
      .def("broadcast", &broadcast, "array"_a, "root"_a = 0, nb::kw_only(),
           "timeout"_a = nb::none(), "async_op"_a = false,
           "Copy the root's array into every other rank's, in place.")
      .def("barrier", &barrier, nb::kw_only(), "timeout"_a = nb::none(), "async_op"_a = false,
           "Return when every rank has called it.")
      .def("new_group", &new_group, "ranks"_a, nb::kw_only(), "name"_a = "",
           "timeout"_a = nb::none(),
           "Make a group of some of our ranks. Every rank calls it with the same list; None for "
           "ranks\n"
           "that are not in it.")
      .def("health", &health, "None, or what broke the group.")
      .def("abort", &abort, "reason"_a, "Break the group here and on every other member.")
      .def("__repr__", &repr);

  module.def(
      "init_process_group",
      [](std::optional<int> rank, std::optional<int> size, std::optional<std::string> master_addr,
         std::optional<int> master_port, nb::handle timeout, std::string name) {
        Kept::release_done();
        InitOptions options;
        options.rank = rank;
        options.size = size;
        options.master_addr = std::move(master_addr);
        options.master_port = master_port;
        options.timeout = timeout_of(timeout);
        options.name = std::move(name);
        auto made = std::make_shared<std::optional<ProcessGroup>>();
        // Nobody can call init back: an interrupted one goes on alone, until its timeout.
        run_interruptibly([options, made] { *made = init_process_group(options); },
                          [] { return false; });
        return GroupHandle{share(std::move(**made))};
      },
      nb::kw_only(), "rank"_a = nb::none(), "world_size"_a = nb::none(),
      "master_addr"_a = nb::none(), "master_port"_a = nb::none(), "timeout"_a = nb::none(),
      "name"_a = "world",
      "Make the group of all processes of the job. What is None stands in RANK, WORLD_SIZE,\n"
      "MASTER_ADDR and MASTER_PORT. Blocks until all have joined.");
}

}  // namespace tutti::python
