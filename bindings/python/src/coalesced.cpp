#include "arguments.hpp"
#include "calling.hpp"

namespace nb = nanobind;
using namespace nb::literals;

// Several tensors in one operation.
namespace tutti::python {
namespace {

nb::object all_reduce_coalesced(const GroupHandle& self, nb::handle arrays, ReduceOp op,
                                nb::handle factor, nb::handle timeout, bool asynchronous) {
  return Call<Kind::all_reduce, AllReduceOptions>("all_reduce_coalesced", self, {.op = op},
                                                  {timeout, asynchronous})
      .in_place(
          List{arrays},
          [](auto& group, const auto&... all) { return group.all_reduce_coalesced(all...); },
          factor);
}

nb::object broadcast_coalesced(const GroupHandle& self, nb::handle arrays, int root,
                               nb::handle timeout, bool asynchronous) {
  return Call<Kind::broadcast, BroadcastOptions>("broadcast_coalesced", self, {.root = root},
                                                 {timeout, asynchronous})
      .in_place(List{arrays},
                [](auto& group, const auto&... all) { return group.broadcast_coalesced(all...); });
}

nb::object all_gather_coalesced(const GroupHandle& self, nb::handle outputs, nb::handle inputs,
                                nb::handle timeout, bool asynchronous) {
  return Call<Kind::all_gather, AllGatherOptions>("all_gather_coalesced", self, {},
                                                  {timeout, asynchronous})
      .apart(List{outputs}, List{inputs},
             [](auto& group, const auto&... all) { return group.all_gather_coalesced(all...); });
}

nb::object reduce_scatter_coalesced(const GroupHandle& self, nb::handle outputs, nb::handle inputs,
                                    ReduceOp op, nb::handle factor, nb::handle timeout,
                                    bool asynchronous) {
  return Call<Kind::reduce_scatter, ReduceScatterOptions>("reduce_scatter_coalesced", self,
                                                          {.op = op}, {timeout, asynchronous})
      .apart(
          List{outputs}, List{inputs},
          [](auto& group, const auto&... all) { return group.reduce_scatter_coalesced(all...); },
          factor);
}

}  // namespace

void bind_coalesced(Class<GroupHandle>& group) {
  const auto timeout = "timeout"_a = nb::none();
  const auto async_op = "async_op"_a = false;
  const auto op = "op"_a = ReduceOp::sum;
  const auto factor = "factor"_a = nb::none();
  group
      .def("all_reduce_coalesced", &all_reduce_coalesced, "arrays"_a, op, nb::kw_only(), factor,
           timeout, async_op,
           "all_reduce of several arrays of one dtype in one operation: many small ones in the "
           "time\n"
           "of one. The same number, of the same sizes, on every rank.")
      .def("broadcast_coalesced", &broadcast_coalesced, "arrays"_a, "root"_a = 0, nb::kw_only(),
           timeout, async_op, "broadcast of several arrays in one operation.")
      .def("all_gather_coalesced", &all_gather_coalesced, "outputs"_a, "inputs"_a, nb::kw_only(),
           timeout, async_op,
           "all_gather of several arrays in one operation: outputs[t] has size times the elements\n"
           "of inputs[t], or outputs[r * len(inputs) + t] is where inputs[t] of rank r goes.")
      .def("reduce_scatter_coalesced", &reduce_scatter_coalesced, "outputs"_a, "inputs"_a, op,
           nb::kw_only(), factor, timeout, async_op,
           "reduce_scatter of several arrays in one operation: inputs[t] has size times the\n"
           "elements of outputs[t].");
}

}  // namespace tutti::python
