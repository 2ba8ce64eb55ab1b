#include <nanobind/nanobind.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "arguments.hpp"
#include "group.hpp"
#include "running.hpp"
#include "timeout.hpp"

namespace nb = nanobind;
using namespace nb::literals;

// Operations on a list of arrays of each rank.
namespace tutti::python {
namespace {

/// Starts `call(group, options)` with the current streams of the arrays' libraries.
template <class Start>
nb::object run_on_list(const Group& group, Memory memory, MultigpuOptions options,
                       bool asynchronous, const Start& call) {
  const std::vector<std::uintptr_t> streams = memory.streams();
  options.streams = streams;
  return run(group, std::move(memory), asynchronous,
             [&](ProcessGroup& its) { return call(its, options); });
}

nb::object all_reduce_multigpu(const GroupHandle& self, nb::handle arrays, ReduceOp op,
                               nb::handle timeout, bool asynchronous) {
  const Group group = self.open();
  Memory memory("all_reduce_multigpu");
  const std::vector<TensorView> views = memory.list(arrays, "array", Use::write);
  memory.check_op(op);
  return run_on_list(
      group, std::move(memory), {.op = op, .timeout = timeout_of(timeout)}, asynchronous,
      [&](auto& its, const auto& options) { return its.all_reduce_multigpu(views, options); });
}

nb::object broadcast_multigpu(const GroupHandle& self, nb::list arrays, int root, int root_array,
                              nb::handle timeout, bool asynchronous) {
  const Group group = self.open();
  Memory memory("broadcast_multigpu");
  std::vector<TensorView> views;
  int number = 0;
  for (const nb::handle array : arrays) {  // the source is not written
    const bool copied = group->rank() == root && number++ == root_array;
    views.push_back(memory.one(array, "array", copied ? Use::shown : Use::write));
  }
  return run_on_list(
      group, std::move(memory),
      {.root = root, .root_tensor = root_array, .timeout = timeout_of(timeout)}, asynchronous,
      [&](auto& its, const auto& options) { return its.broadcast_multigpu(views, options); });
}

nb::object reduce_multigpu(const GroupHandle& self, nb::list arrays, int root, ReduceOp op,
                           int root_array, nb::handle timeout, bool asynchronous) {
  const Group group = self.open();
  Memory memory("reduce_multigpu");
  std::vector<TensorView> views;
  int number = 0;
  for (const nb::handle array : arrays) {
    const bool written = group->rank() == root && number++ == root_array;
    views.push_back(memory.one(array, "array", written ? Use::write : Use::shown));
  }
  memory.check_op(op);
  return run_on_list(
      group, std::move(memory),
      {.op = op, .root = root, .root_tensor = root_array, .timeout = timeout_of(timeout)},
      asynchronous,
      [&](auto& its, const auto& options) { return its.reduce_multigpu(views, options); });
}

nb::object all_gather_multigpu(const GroupHandle& self, nb::handle outputs, nb::handle inputs,
                               nb::handle timeout, bool asynchronous) {
  const Group group = self.open();
  Memory memory("all_gather_multigpu");
  const std::vector<TensorView> in = memory.list(inputs, "input", Use::read);
  const std::vector<TensorView> out = memory.list(outputs, "output", Use::write);
  return run_on_list(
      group, std::move(memory), {.timeout = timeout_of(timeout)}, asynchronous,
      [&](auto& its, const auto& options) { return its.all_gather_multigpu(out, in, options); });
}

}  // namespace

void bind_multigpu(Class<GroupHandle>& group) {
  const auto timeout = "timeout"_a = nb::none();
  const auto async_op = "async_op"_a = false;
  const auto op = "op"_a = ReduceOp::sum;
  group
      .def("_all_reduce_multigpu", &all_reduce_multigpu, "arrays"_a, op, nb::kw_only(), timeout,
           async_op,
           "Combine all arrays of all ranks into each of them. They may be on several GPUs of a\n"
           "rank; lists of one length on every rank, arrays of one size.")
      .def("_broadcast_multigpu", &broadcast_multigpu, "arrays"_a, "root"_a = 0, "root_array"_a = 0,
           nb::kw_only(), timeout, async_op,
           "Copy one array of the root's list into all others of all ranks.")
      .def("_reduce_multigpu", &reduce_multigpu, "arrays"_a, "root"_a = 0, op, "root_array"_a = 0,
           nb::kw_only(), timeout, async_op,
           "Combine all arrays of all ranks into one of the root's list. The others may be\n"
           "read-only.")
      .def("_all_gather_multigpu", &all_gather_multigpu, "outputs"_a, "inputs"_a, nb::kw_only(),
           timeout, async_op,
           "Gather all arrays of all ranks: input j of rank r lands in each of the n rows of\n"
           "outputs, n being the number of inputs: in outputs[(i * size + r) * n + j].");
}

}  // namespace tutti::python
