#include <span>
#include <utility>
#include <vector>

#include "factor.hpp"
#include "group.hpp"
#include "running.hpp"

namespace nb = nanobind;
using namespace nb::literals;

// Several tensors in one operation.
namespace tutti::python {
namespace {

using Views = std::span<const TensorView>;

nb::object all_reduce(const GroupHandle& self, nb::handle arrays, ReduceOp op, nb::handle factor,
                      nb::handle timeout, bool asynchronous) {
  Memory memory("all_reduce_coalesced");
  AllReduceOptions options;
  options.op = op;
  options.timeout = timeout_of(timeout);
  const std::vector<TensorView> views = memory.list(arrays, "array", Use::write);
  take_factor(factor, memory, options);
  return run(self.open(), std::move(memory), asynchronous, [&](ProcessGroup& group) {
    return group.all_reduce_coalesced(Views(views), options);
  });
}

nb::object broadcast(const GroupHandle& self, nb::handle arrays, int root, nb::handle timeout,
                     bool asynchronous) {
  const Group group = self.open();
  Memory memory("broadcast_coalesced");
  const BroadcastOptions options{.root = root, .timeout = timeout_of(timeout)};
  const std::vector<TensorView> views =
      memory.list(arrays, "array", group->rank() == root ? Use::shown : Use::write);
  return run(group, std::move(memory), asynchronous,
             [&](ProcessGroup& all) { return all.broadcast_coalesced(Views(views), options); });
}

nb::object all_gather(const GroupHandle& self, nb::handle outputs, nb::handle inputs,
                      nb::handle timeout, bool asynchronous) {
  Memory memory("all_gather_coalesced");
  AllGatherOptions options;
  options.timeout = timeout_of(timeout);
  const std::vector<TensorView> out = memory.list(outputs, "output", Use::write);
  const std::vector<TensorView> in = memory.list(inputs, "input", Use::read);
  return run(self.open(), std::move(memory), asynchronous, [&](ProcessGroup& group) {
    return group.all_gather_coalesced(Views(out), Views(in), options);
  });
}

nb::object reduce_scatter(const GroupHandle& self, nb::handle outputs, nb::handle inputs,
                          ReduceOp op, nb::handle factor, nb::handle timeout, bool asynchronous) {
  Memory memory("reduce_scatter_coalesced");
  ReduceScatterOptions options;
  options.op = op;
  options.timeout = timeout_of(timeout);
  const std::vector<TensorView> out = memory.list(outputs, "output", Use::write);
  const std::vector<TensorView> in = memory.list(inputs, "input", Use::read);
  take_factor(factor, memory, options);
  return run(self.open(), std::move(memory), asynchronous, [&](ProcessGroup& group) {
    return group.reduce_scatter_coalesced(Views(out), Views(in), options);
  });
}

}  // namespace

void bind_coalesced(nb::class_<GroupHandle>& group) {
  const auto timeout = "timeout"_a = nb::none();
  const auto async_op = "async_op"_a = false;
  const auto op = "op"_a = ReduceOp::sum;
  const auto factor = "factor"_a = nb::none();
  group
      .def("all_reduce_coalesced", &all_reduce, "arrays"_a.none(), op, nb::kw_only(), factor,
           timeout, async_op,
           "all_reduce of several arrays of one dtype in one operation: many small ones in the "
           "time\n"
           "of one. The same number, of the same sizes, on every rank.")
      .def("broadcast_coalesced", &broadcast, "arrays"_a.none(), "root"_a = 0, nb::kw_only(),
           timeout, async_op, "broadcast of several arrays in one operation.")
      .def("all_gather_coalesced", &all_gather, "outputs"_a.none(), "inputs"_a.none(),
           nb::kw_only(), timeout, async_op,
           "all_gather of several arrays in one operation: outputs[t] has size times the elements\n"
           "of inputs[t], or outputs[r * len(inputs) + t] is where inputs[t] of rank r goes.")
      .def("reduce_scatter_coalesced", &reduce_scatter, "outputs"_a.none(), "inputs"_a.none(), op,
           nb::kw_only(), factor, timeout, async_op,
           "reduce_scatter of several arrays in one operation: inputs[t] has size times the\n"
           "elements of outputs[t].");
}

}  // namespace tutti::python
