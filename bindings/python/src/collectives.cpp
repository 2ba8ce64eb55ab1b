#include "arguments.hpp"
#include "calling.hpp"

namespace nb = nanobind;
using namespace nb::literals;

// The operations that all ranks of a group call.
namespace tutti::python {
namespace {

nb::object all_reduce(const GroupHandle& self, nb::handle array, ReduceOp op, nb::handle factor,
                      nb::handle timeout, bool asynchronous) {
  return Call<Kind::all_reduce, AllReduceOptions>("all_reduce", self, {.op = op},
                                                  {timeout, asynchronous})
      .in_place(
          One{array}, [](auto& group, const auto&... all) { return group.all_reduce(all...); },
          factor);
}

nb::object broadcast(const GroupHandle& self, nb::handle array, int root, nb::handle timeout,
                     bool asynchronous) {
  return Call<Kind::broadcast, BroadcastOptions>("broadcast", self, {.root = root},
                                                 {timeout, asynchronous})
      .in_place(One{array},
                [](auto& group, const auto&... all) { return group.broadcast(all...); });
}

nb::object reduce(const GroupHandle& self, nb::handle array, int root, ReduceOp op,
                  nb::handle factor, nb::handle timeout, bool asynchronous) {
  return Call<Kind::reduce, ReduceOptions>("reduce", self, {.root = root, .op = op},
                                           {timeout, asynchronous})
      .in_place(
          One{array}, [](auto& group, const auto&... all) { return group.reduce(all...); }, factor);
}

nb::object scan(const GroupHandle& self, nb::handle array, ReduceOp op, bool exclusive,
                nb::handle factor, nb::handle timeout, bool asynchronous) {
  const ScanOptions options{.op = op, .exclusive = exclusive};
  const End end{timeout, asynchronous};
  const auto start = [](auto& group, const auto&... all) { return group.scan(all...); };
  if (exclusive)
    return Call<Kind::exclusive_scan, ScanOptions>("scan", self, options, end)
        .in_place(One{array}, start, factor);
  return Call<Kind::scan, ScanOptions>("scan", self, options, end)
      .in_place(One{array}, start, factor);
}

nb::object all_gather(const GroupHandle& self, nb::handle output, nb::handle input,
                      const Counts& counts, nb::handle timeout, bool asynchronous) {
  return Call<Kind::all_gather, AllGatherOptions>(
             "all_gather", self, {.output_counts = span_of(counts)}, {timeout, asynchronous})
      .apart(One{output}, One{input},
             [](auto& group, const auto&... all) { return group.all_gather(all...); });
}

nb::object all_gather_list(const GroupHandle& self, nb::handle outputs, nb::handle input,
                           nb::handle timeout, bool asynchronous) {
  return Call<Kind::all_gather, AllGatherOptions>("all_gather_list", self, {},
                                                  {timeout, asynchronous})
      .apart(List{outputs}, One{input},
             [](auto& group, const auto&... all) { return group.all_gather(all...); });
}

nb::object gather(const GroupHandle& self, nb::handle output, nb::handle input, int root,
                  nb::handle timeout, bool asynchronous) {
  return Call<Kind::gather, GatherOptions>("gather", self, {.root = root}, {timeout, asynchronous})
      .apart(One{output}, One{input},
             [](auto& group, const auto&... all) { return group.gather(all...); });
}

nb::object gather_list(const GroupHandle& self, nb::handle outputs, nb::handle input, int root,
                       nb::handle timeout, bool asynchronous) {
  return Call<Kind::gather, GatherOptions>("gather_list", self, {.root = root},
                                           {timeout, asynchronous})
      .apart(List{outputs}, One{input},
             [](auto& group, const auto&... all) { return group.gather(all...); });
}

nb::object scatter(const GroupHandle& self, nb::handle output, nb::handle input, int root,
                   nb::handle timeout, bool asynchronous) {
  return Call<Kind::scatter, ScatterOptions>("scatter", self, {.root = root},
                                             {timeout, asynchronous})
      .apart(One{output}, One{input},
             [](auto& group, const auto&... all) { return group.scatter(all...); });
}

nb::object scatter_list(const GroupHandle& self, nb::handle output, nb::handle inputs, int root,
                        nb::handle timeout, bool asynchronous) {
  return Call<Kind::scatter, ScatterOptions>("scatter_list", self, {.root = root},
                                             {timeout, asynchronous})
      .apart(One{output}, List{inputs},
             [](auto& group, const auto&... all) { return group.scatter(all...); });
}

nb::object reduce_scatter(const GroupHandle& self, nb::handle output, nb::handle input, ReduceOp op,
                          const Counts& counts, nb::handle factor, nb::handle timeout,
                          bool asynchronous) {
  return Call<Kind::reduce_scatter, ReduceScatterOptions>(
             "reduce_scatter", self, {.op = op, .input_counts = span_of(counts)},
             {timeout, asynchronous})
      .apart(
          One{output}, One{input},
          [](auto& group, const auto&... all) { return group.reduce_scatter(all...); }, factor);
}

nb::object reduce_scatter_list(const GroupHandle& self, nb::handle output, nb::handle inputs,
                               ReduceOp op, nb::handle factor, nb::handle timeout,
                               bool asynchronous) {
  return Call<Kind::reduce_scatter, ReduceScatterOptions>("reduce_scatter_list", self, {.op = op},
                                                          {timeout, asynchronous})
      .apart(
          One{output}, List{inputs},
          [](auto& group, const auto&... all) { return group.reduce_scatter(all...); }, factor);
}

nb::object all_to_all(const GroupHandle& self, nb::handle output, nb::handle input,
                      const Counts& output_splits, const Counts& input_splits, nb::handle timeout,
                      bool asynchronous) {
  return Call<Kind::all_to_all, AllToAllOptions>(
             "all_to_all", self,
             {.output_splits = span_of(output_splits), .input_splits = span_of(input_splits)},
             {timeout, asynchronous})
      .apart(One{output}, One{input},
             [](auto& group, const auto&... all) { return group.all_to_all(all...); });
}

nb::object all_to_all_list(const GroupHandle& self, nb::handle outputs, nb::handle inputs,
                           nb::handle timeout, bool asynchronous) {
  return Call<Kind::all_to_all, AllToAllOptions>("all_to_all_list", self, {},
                                                 {timeout, asynchronous})
      .apart(List{outputs}, List{inputs},
             [](auto& group, const auto&... all) { return group.all_to_all(all...); });
}

nb::object barrier(const GroupHandle& self, nb::handle timeout, bool asynchronous) {
  const BarrierOptions options{.timeout = timeout_of(timeout)};
  return run(self.open(), Memory("barrier"), asynchronous,
             [&](ProcessGroup& group) { return group.barrier(options); });
}

}  // namespace

void bind_collectives(Class<GroupHandle>& group) {
  // The parameters at the end of all of them.
  const auto timeout = "timeout"_a = nb::none();
  const auto async_op = "async_op"_a = false;
  const auto op = "op"_a = ReduceOp::sum;
  const auto root = "root"_a = 0;
  const auto factor = "factor"_a = nb::none();
  group
      .def("all_reduce", &all_reduce, "array"_a, op, nb::kw_only(), factor, timeout, async_op,
           "Combine the arrays of all ranks, element by element, into each of them, in place.\n"
           "`factor`: with PREMUL_SUM, a number, or an array of one element or as many as `array`.")
      .def("broadcast", &broadcast, "array"_a, root, nb::kw_only(), timeout, async_op,
           "Copy the root's array into every other rank's. The root's may be read-only.")
      .def("reduce", &reduce, "array"_a, root, op, nb::kw_only(), factor, timeout, async_op,
           "Combine the arrays of all ranks into the root's. The others' may be read-only.")
      .def("scan", &scan, "array"_a, op, nb::kw_only(), "exclusive"_a = false, factor, timeout,
           async_op,
           "Combine on rank r the arrays of the ranks 0 to r, in place; `exclusive`: of the ranks "
           "0 to\n"
           "r - 1, and rank 0's array stays as it is. AVG divides by the number of these ranks.")
      .def("all_gather", &all_gather, "output"_a, "input"_a, nb::kw_only(), "counts"_a = nb::none(),
           timeout, async_op,
           "Put the inputs of all ranks, one after the other, into everybody's output. `counts`:\n"
           "the elements of each rank's block where they differ, the same numbers on every rank.")
      .def("all_gather_list", &all_gather_list, "outputs"_a, "input"_a, nb::kw_only(), timeout,
           async_op, "The same into one array for each rank, of any sizes.")
      .def("gather", &gather, "output"_a, "input"_a, root, nb::kw_only(), timeout, async_op,
           "Put the inputs of all ranks into the root's output; the others' is not looked at.")
      .def("gather_list", &gather_list, "outputs"_a, "input"_a, root, nb::kw_only(), timeout,
           async_op, "The same into one array for each rank; not looked at but on the root.")
      .def("scatter", &scatter, "output"_a, "input"_a, root, nb::kw_only(), timeout, async_op,
           "Hand out the root's input: block r goes to rank r; the others' is not looked at.")
      .def("scatter_list", &scatter_list, "output"_a, "inputs"_a, root, nb::kw_only(), timeout,
           async_op, "The same from one array for each rank.")
      .def("reduce_scatter", &reduce_scatter, "output"_a, "input"_a, op, nb::kw_only(),
           "counts"_a = nb::none(), factor, timeout, async_op,
           "Combine the inputs of all ranks and give block r of the result to rank r.")
      .def("reduce_scatter_list", &reduce_scatter_list, "output"_a, "inputs"_a, op, nb::kw_only(),
           factor, timeout, async_op, "The same from one array for each rank, of any sizes.")
      .def("all_to_all", &all_to_all, "output"_a, "input"_a, nb::kw_only(),
           "output_splits"_a = nb::none(), "input_splits"_a = nb::none(), timeout, async_op,
           "Send block r of the input to rank r, get block r of the output from it. The splits\n"
           "count elements; both or none, and if one rank gives them all must.")
      .def("all_to_all_list", &all_to_all_list, "outputs"_a, "inputs"_a, nb::kw_only(), timeout,
           async_op, "The same with one array for each rank, of any sizes.")
      .def("barrier", &barrier, nb::kw_only(), timeout, async_op,
           "Done when every rank has called it.");
}

}  // namespace tutti::python
