#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "factor.hpp"
#include "group.hpp"
#include "running.hpp"

namespace nb = nanobind;
using namespace nb::literals;

// The operations that all ranks of a group call.
namespace tutti::python {
namespace {

using Counts = std::optional<std::vector<std::size_t>>;

std::span<const std::size_t> span_of(const Counts& counts) {
  return counts ? std::span<const std::size_t>(*counts) : std::span<const std::size_t>();
}

nb::object all_reduce(const GroupHandle& self, nb::handle array, ReduceOp op, nb::handle factor,
                      nb::handle timeout, bool asynchronous) {
  Memory memory("all_reduce");
  AllReduceOptions options;
  options.op = op;
  options.timeout = timeout_of(timeout);
  const TensorView view = memory.one(array, "array", Use::write);
  take_factor(factor, memory, options);
  return run(self.open(), std::move(memory), asynchronous,
             [&](ProcessGroup& group) { return group.all_reduce(view, options); });
}

nb::object broadcast(const GroupHandle& self, nb::handle array, int root, nb::handle timeout,
                     bool asynchronous) {
  const Group group = self.open();
  Memory memory("broadcast");
  const BroadcastOptions options{.root = root, .timeout = timeout_of(timeout)};
  const TensorView view =
      memory.one(array, "array", group->rank() == root ? Use::shown : Use::write);
  return run(group, std::move(memory), asynchronous,
             [&](ProcessGroup& all) { return all.broadcast(view, options); });
}

nb::object reduce(const GroupHandle& self, nb::handle array, int root, ReduceOp op,
                  nb::handle factor, nb::handle timeout, bool asynchronous) {
  const Group group = self.open();
  Memory memory("reduce");
  ReduceOptions options;
  options.root = root;
  options.op = op;
  options.timeout = timeout_of(timeout);
  const TensorView view =
      memory.one(array, "array", group->rank() == root ? Use::write : Use::shown);
  take_factor(factor, memory, options);
  return run(group, std::move(memory), asynchronous,
             [&](ProcessGroup& all) { return all.reduce(view, options); });
}

nb::object all_gather(const GroupHandle& self, nb::handle output, nb::handle input, Counts counts,
                      nb::handle timeout, bool asynchronous) {
  Memory memory("all_gather");
  const TensorView out = memory.one(output, "output", Use::write);
  const TensorView in = memory.one(input, "input", Use::read);
  const AllGatherOptions options{.output_counts = span_of(counts), .timeout = timeout_of(timeout)};
  return run(self.open(), std::move(memory), asynchronous,
             [&](ProcessGroup& group) { return group.all_gather(out, in, options); });
}

nb::object all_gather_list(const GroupHandle& self, nb::handle outputs, nb::handle input,
                           nb::handle timeout, bool asynchronous) {
  Memory memory("all_gather_list");
  const std::vector<TensorView> out = memory.list(outputs, "output", Use::write);
  const TensorView in = memory.one(input, "input", Use::read);
  AllGatherOptions options;
  options.timeout = timeout_of(timeout);
  return run(self.open(), std::move(memory), asynchronous, [&](ProcessGroup& group) {
    return group.all_gather(std::span<const TensorView>(out), in, options);
  });
}

nb::object gather(const GroupHandle& self, nb::handle output, nb::handle input, int root,
                  nb::handle timeout, bool asynchronous) {
  const Group group = self.open();
  Memory memory("gather");
  TensorView out;
  if (group->rank() == root) out = memory.one(output, "output", Use::write);
  const TensorView in = memory.one(input, "input", Use::read);
  const GatherOptions options{.root = root, .timeout = timeout_of(timeout)};
  return run(group, std::move(memory), asynchronous,
             [&](ProcessGroup& all) { return all.gather(out, in, options); });
}

nb::object gather_list(const GroupHandle& self, nb::handle outputs, nb::handle input, int root,
                       nb::handle timeout, bool asynchronous) {
  const Group group = self.open();
  Memory memory("gather_list");
  std::vector<TensorView> out;
  if (group->rank() == root) out = memory.list(outputs, "output", Use::write);
  const TensorView in = memory.one(input, "input", Use::read);
  const GatherOptions options{.root = root, .timeout = timeout_of(timeout)};
  return run(group, std::move(memory), asynchronous, [&](ProcessGroup& all) {
    return all.gather(std::span<const TensorView>(out), in, options);
  });
}

nb::object scatter(const GroupHandle& self, nb::handle output, nb::handle input, int root,
                   nb::handle timeout, bool asynchronous) {
  const Group group = self.open();
  Memory memory("scatter");
  const TensorView out = memory.one(output, "output", Use::write);
  TensorView in;
  if (group->rank() == root) in = memory.one(input, "input", Use::read);
  const ScatterOptions options{.root = root, .timeout = timeout_of(timeout)};
  return run(group, std::move(memory), asynchronous,
             [&](ProcessGroup& all) { return all.scatter(out, in, options); });
}

nb::object scatter_list(const GroupHandle& self, nb::handle output, nb::handle inputs, int root,
                        nb::handle timeout, bool asynchronous) {
  const Group group = self.open();
  Memory memory("scatter_list");
  const TensorView out = memory.one(output, "output", Use::write);
  std::vector<TensorView> in;
  if (group->rank() == root) in = memory.list(inputs, "input", Use::read);
  const ScatterOptions options{.root = root, .timeout = timeout_of(timeout)};
  return run(group, std::move(memory), asynchronous, [&](ProcessGroup& all) {
    return all.scatter(out, std::span<const TensorView>(in), options);
  });
}

nb::object reduce_scatter(const GroupHandle& self, nb::handle output, nb::handle input, ReduceOp op,
                          Counts counts, nb::handle factor, nb::handle timeout, bool asynchronous) {
  Memory memory("reduce_scatter");
  const TensorView out = memory.one(output, "output", Use::write);
  const TensorView in = memory.one(input, "input", Use::read);
  ReduceScatterOptions options;
  options.op = op;
  options.input_counts = span_of(counts);
  options.timeout = timeout_of(timeout);
  take_factor(factor, memory, options);
  return run(self.open(), std::move(memory), asynchronous,
             [&](ProcessGroup& group) { return group.reduce_scatter(out, in, options); });
}

nb::object reduce_scatter_list(const GroupHandle& self, nb::handle output, nb::handle inputs,
                               ReduceOp op, nb::handle factor, nb::handle timeout,
                               bool asynchronous) {
  Memory memory("reduce_scatter_list");
  const TensorView out = memory.one(output, "output", Use::write);
  const std::vector<TensorView> in = memory.list(inputs, "input", Use::read);
  ReduceScatterOptions options;
  options.op = op;
  options.timeout = timeout_of(timeout);
  take_factor(factor, memory, options);
  return run(self.open(), std::move(memory), asynchronous, [&](ProcessGroup& group) {
    return group.reduce_scatter(out, std::span<const TensorView>(in), options);
  });
}

nb::object all_to_all(const GroupHandle& self, nb::handle output, nb::handle input,
                      Counts output_splits, Counts input_splits, nb::handle timeout,
                      bool asynchronous) {
  Memory memory("all_to_all");
  const TensorView out = memory.one(output, "output", Use::write);
  const TensorView in = memory.one(input, "input", Use::read);
  const AllToAllOptions options{.output_splits = span_of(output_splits),
                                .input_splits = span_of(input_splits),
                                .timeout = timeout_of(timeout)};
  return run(self.open(), std::move(memory), asynchronous,
             [&](ProcessGroup& group) { return group.all_to_all(out, in, options); });
}

nb::object all_to_all_list(const GroupHandle& self, nb::handle outputs, nb::handle inputs,
                           nb::handle timeout, bool asynchronous) {
  Memory memory("all_to_all_list");
  const std::vector<TensorView> out = memory.list(outputs, "output", Use::write);
  const std::vector<TensorView> in = memory.list(inputs, "input", Use::read);
  AllToAllOptions options;
  options.timeout = timeout_of(timeout);
  return run(self.open(), std::move(memory), asynchronous, [&](ProcessGroup& group) {
    return group.all_to_all(std::span<const TensorView>(out), std::span<const TensorView>(in),
                            options);
  });
}

nb::object barrier(const GroupHandle& self, nb::handle timeout, bool asynchronous) {
  const BarrierOptions options{.timeout = timeout_of(timeout)};
  return run(self.open(), Memory("barrier"), asynchronous,
             [&](ProcessGroup& group) { return group.barrier(options); });
}

}  // namespace

void bind_collectives(nb::class_<GroupHandle>& group) {
  // What all of them end with.
  const auto timeout = "timeout"_a = nb::none();
  const auto async_op = "async_op"_a = false;
  const auto op = "op"_a = ReduceOp::sum;
  const auto root = "root"_a = 0;
  const auto factor = "factor"_a = nb::none();
  group
      .def("all_reduce", &all_reduce, "array"_a.none(), op, nb::kw_only(), factor, timeout,
           async_op,
           "Combine the arrays of all ranks, element by element, into each of them, in place.\n"
           "`factor`: with PREMUL_SUM, a number, or an array of one element or as many as `array`.")
      .def("broadcast", &broadcast, "array"_a.none(), root, nb::kw_only(), timeout, async_op,
           "Copy the root's array into every other rank's. The root's may be read-only.")
      .def("reduce", &reduce, "array"_a.none(), root, op, nb::kw_only(), factor, timeout, async_op,
           "Combine the arrays of all ranks into the root's. The others' may be read-only.")
      .def("all_gather", &all_gather, "output"_a.none(), "input"_a.none(), nb::kw_only(),
           "counts"_a = nb::none(), timeout, async_op,
           "Put the inputs of all ranks, one after the other, into everybody's output. `counts`:\n"
           "the elements of each rank's block where they differ, the same numbers on every rank.")
      .def("all_gather_list", &all_gather_list, "outputs"_a.none(), "input"_a.none(), nb::kw_only(),
           timeout, async_op, "The same into one array for each rank, of any sizes.")
      .def("gather", &gather, "output"_a.none(), "input"_a.none(), root, nb::kw_only(), timeout,
           async_op,
           "Put the inputs of all ranks into the root's output; the others' is not looked at.")
      .def("gather_list", &gather_list, "outputs"_a.none(), "input"_a.none(), root, nb::kw_only(),
           timeout, async_op,
           "The same into one array for each rank; not looked at but on the root.")
      .def("scatter", &scatter, "output"_a.none(), "input"_a.none(), root, nb::kw_only(), timeout,
           async_op,
           "Hand out the root's input: block r goes to rank r; the others' is not looked at.")
      .def("scatter_list", &scatter_list, "output"_a.none(), "inputs"_a.none(), root, nb::kw_only(),
           timeout, async_op, "The same from one array for each rank.")
      .def("reduce_scatter", &reduce_scatter, "output"_a.none(), "input"_a.none(), op,
           nb::kw_only(), "counts"_a = nb::none(), factor, timeout, async_op,
           "Combine the inputs of all ranks and give block r of the result to rank r.")
      .def("reduce_scatter_list", &reduce_scatter_list, "output"_a.none(), "inputs"_a.none(), op,
           nb::kw_only(), factor, timeout, async_op,
           "The same from one array for each rank, of any sizes.")
      .def("all_to_all", &all_to_all, "output"_a.none(), "input"_a.none(), nb::kw_only(),
           "output_splits"_a = nb::none(), "input_splits"_a = nb::none(), timeout, async_op,
           "Send block r of the input to rank r, get block r of the output from it. The splits\n"
           "count elements; both or none, and if one rank gives them all must.")
      .def("all_to_all_list", &all_to_all_list, "outputs"_a.none(), "inputs"_a.none(),
           nb::kw_only(), timeout, async_op, "The same with one array for each rank, of any sizes.")
      .def("barrier", &barrier, nb::kw_only(), timeout, async_op,
           "Done when every rank has called it.");
}

}  // namespace tutti::python
