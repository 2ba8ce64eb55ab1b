#include "arguments.hpp"
#include "calling.hpp"

namespace nb = nanobind;
using namespace nb::literals;

// The operations that all ranks of a group call.
namespace tutti::python {

// The call of a method of ProcessGroup.
#define TUTTI_START(method) [](auto& group, const auto&... all) { return group.method(all...); }

void bind_collectives(Class<GroupHandle>& bound) {
  // Made from the headers by tools/made.py --write.
  bound
      .def(
          "all_reduce",
          [](const GroupHandle& self, nb::handle array, ReduceOp op, nb::handle factor,
             nb::handle timeout, bool async_op) {
            return Call<Kind::all_reduce, AllReduceOptions>("all_reduce", self, {.op = op},
                                                            {timeout, async_op})
                .in_place(One{array}, TUTTI_START(all_reduce), factor);
          },
          "array"_a, "op"_a = ReduceOp::sum, nb::kw_only(), "factor"_a = nb::none(),
          "timeout"_a = nb::none(), "async_op"_a = false,
          "Combines the arrays of all ranks, element by element, into each of them.\n"
          "`factor`: with PREMUL_SUM, a number, or an array of one element or of as many as\n"
          "the input has.")
      .def(
          "broadcast",
          [](const GroupHandle& self, nb::handle array, int root, nb::handle timeout,
             bool async_op) {
            return Call<Kind::broadcast, BroadcastOptions>("broadcast", self, {.root = root},
                                                           {timeout, async_op})
                .in_place(One{array}, TUTTI_START(broadcast));
          },
          "array"_a, "root"_a = 0, nb::kw_only(), "timeout"_a = nb::none(), "async_op"_a = false,
          "Copies the root's array to every other rank's. The root's may be read-only.")
      .def(
          "reduce",
          [](const GroupHandle& self, nb::handle array, int root, ReduceOp op, nb::handle factor,
             nb::handle timeout, bool async_op) {
            return Call<Kind::reduce, ReduceOptions>("reduce", self, {.root = root, .op = op},
                                                     {timeout, async_op})
                .in_place(One{array}, TUTTI_START(reduce), factor);
          },
          "array"_a, "root"_a = 0, "op"_a = ReduceOp::sum, nb::kw_only(), "factor"_a = nb::none(),
          "timeout"_a = nb::none(), "async_op"_a = false,
          "Combines the arrays of all ranks into the root's; the others' stay as they are.\n"
          "The others' may be read-only.")
      .def(
          "scan",
          [](const GroupHandle& self, nb::handle array, ReduceOp op, bool exclusive,
             nb::handle factor, nb::handle timeout, bool async_op) {
            if (exclusive)
              return Call<Kind::exclusive_scan, ScanOptions>(
                         "scan", self, {.op = op, .exclusive = exclusive}, {timeout, async_op})
                  .in_place(One{array}, TUTTI_START(scan), factor);
            return Call<Kind::scan, ScanOptions>("scan", self, {.op = op, .exclusive = exclusive},
                                                 {timeout, async_op})
                .in_place(One{array}, TUTTI_START(scan), factor);
          },
          "array"_a, "op"_a = ReduceOp::sum, nb::kw_only(), "exclusive"_a = false,
          "factor"_a = nb::none(), "timeout"_a = nb::none(), "async_op"_a = false,
          "Combines on rank r the arrays of the ranks 0 to r; with `exclusive`, of the\n"
          "ranks 0 to r - 1: then rank 0's array stays as it is. AVG divides by the number\n"
          "of ranks that are combined.")
      .def(
          "all_gather",
          [](const GroupHandle& self, nb::handle output, nb::handle input, const Counts& counts,
             nb::handle timeout, bool async_op) {
            return Call<Kind::all_gather, AllGatherOptions>(
                       "all_gather", self, {.output_counts = span_of(counts)}, {timeout, async_op})
                .apart(One{output}, One{input}, TUTTI_START(all_gather));
          },
          "output"_a, "input"_a, nb::kw_only(), "counts"_a = nb::none(), "timeout"_a = nb::none(),
          "async_op"_a = false,
          "Puts the inputs of all ranks, in the order of the ranks, into everybody's\n"
          "output. `counts`: the elements of each rank's block where they differ, the same\n"
          "numbers on every rank.")
      .def(
          "all_gather_list",
          [](const GroupHandle& self, nb::handle outputs, nb::handle input, nb::handle timeout,
             bool async_op) {
            return Call<Kind::all_gather, AllGatherOptions>("all_gather_list", self, {},
                                                            {timeout, async_op})
                .apart(List{outputs}, One{input}, TUTTI_START(all_gather));
          },
          "outputs"_a, "input"_a, nb::kw_only(), "timeout"_a = nb::none(), "async_op"_a = false,
          "The same into a list of arrays, one for each rank, of any sizes (the same on\n"
          "every rank). The list itself is read during the call only.")
      .def(
          "gather",
          [](const GroupHandle& self, nb::handle output, nb::handle input, int root,
             const Counts& counts, nb::handle timeout, bool async_op) {
            return Call<Kind::gather, GatherOptions>(
                       "gather", self, {.root = root, .output_counts = span_of(counts)},
                       {timeout, async_op})
                .apart(One{output}, One{input}, TUTTI_START(gather));
          },
          "output"_a, "input"_a, "root"_a = 0, nb::kw_only(), "counts"_a = nb::none(),
          "timeout"_a = nb::none(), "async_op"_a = false,
          "Puts the inputs of all ranks, in the order of the ranks, into the root's output.\n"
          "The others' output is not looked at. `counts`: the elements of each rank's block\n"
          "where they may differ; another rank than the root may give its own alone. If one\n"
          "rank gives them all must.")
      .def(
          "gather_list",
          [](const GroupHandle& self, nb::handle outputs, nb::handle input, int root,
             const Counts& counts, nb::handle timeout, bool async_op) {
            return Call<Kind::gather, GatherOptions>(
                       "gather_list", self, {.root = root, .output_counts = span_of(counts)},
                       {timeout, async_op})
                .apart(List{outputs}, One{input}, TUTTI_START(gather));
          },
          "outputs"_a, "input"_a, "root"_a = 0, nb::kw_only(), "counts"_a = nb::none(),
          "timeout"_a = nb::none(), "async_op"_a = false,
          "The same into a list of arrays, one for each rank; empty but on the root.")
      .def(
          "scatter",
          [](const GroupHandle& self, nb::handle output, nb::handle input, int root,
             const Counts& counts, nb::handle timeout, bool async_op) {
            return Call<Kind::scatter, ScatterOptions>(
                       "scatter", self, {.root = root, .input_counts = span_of(counts)},
                       {timeout, async_op})
                .apart(One{output}, One{input}, TUTTI_START(scatter));
          },
          "output"_a, "input"_a, "root"_a = 0, nb::kw_only(), "counts"_a = nb::none(),
          "timeout"_a = nb::none(), "async_op"_a = false,
          "Hands out the root's input: block r goes to rank r's output. The others' input\n"
          "is not looked at.")
      .def(
          "scatter_list",
          [](const GroupHandle& self, nb::handle output, nb::handle inputs, int root,
             const Counts& counts, nb::handle timeout, bool async_op) {
            return Call<Kind::scatter, ScatterOptions>(
                       "scatter_list", self, {.root = root, .input_counts = span_of(counts)},
                       {timeout, async_op})
                .apart(One{output}, List{inputs}, TUTTI_START(scatter));
          },
          "output"_a, "inputs"_a, "root"_a = 0, nb::kw_only(), "counts"_a = nb::none(),
          "timeout"_a = nb::none(), "async_op"_a = false,
          "The same from a list of arrays, one for each rank; empty but on the root.")
      .def(
          "reduce_scatter",
          [](const GroupHandle& self, nb::handle output, nb::handle input, ReduceOp op,
             const Counts& counts, nb::handle factor, nb::handle timeout, bool async_op) {
            return Call<Kind::reduce_scatter, ReduceScatterOptions>(
                       "reduce_scatter", self, {.op = op, .input_counts = span_of(counts)},
                       {timeout, async_op})
                .apart(One{output}, One{input}, TUTTI_START(reduce_scatter), factor);
          },
          "output"_a, "input"_a, "op"_a = ReduceOp::sum, nb::kw_only(), "counts"_a = nb::none(),
          "factor"_a = nb::none(), "timeout"_a = nb::none(), "async_op"_a = false,
          "Combines the inputs of all ranks, element by element, and gives block r of the\n"
          "result to rank r.")
      .def(
          "reduce_scatter_list",
          [](const GroupHandle& self, nb::handle output, nb::handle inputs, ReduceOp op,
             nb::handle factor, nb::handle timeout, bool async_op) {
            return Call<Kind::reduce_scatter, ReduceScatterOptions>("reduce_scatter_list", self,
                                                                    {.op = op}, {timeout, async_op})
                .apart(One{output}, List{inputs}, TUTTI_START(reduce_scatter), factor);
          },
          "output"_a, "inputs"_a, "op"_a = ReduceOp::sum, nb::kw_only(), "factor"_a = nb::none(),
          "timeout"_a = nb::none(), "async_op"_a = false,
          "The same from a list of arrays, one for each rank, of any sizes (the same on\n"
          "every rank).")
      .def(
          "all_to_all",
          [](const GroupHandle& self, nb::handle output, nb::handle input,
             const Counts& output_splits, const Counts& input_splits, nb::handle timeout,
             bool async_op) {
            return Call<Kind::all_to_all, AllToAllOptions>("all_to_all", self,
                                                           {.output_splits = span_of(output_splits),
                                                            .input_splits = span_of(input_splits)},
                                                           {timeout, async_op})
                .apart(One{output}, One{input}, TUTTI_START(all_to_all));
          },
          "output"_a, "input"_a, nb::kw_only(), "output_splits"_a = nb::none(),
          "input_splits"_a = nb::none(), "timeout"_a = nb::none(), "async_op"_a = false,
          "Sends block r of the input to rank r, and gets the block from rank r as block r\n"
          "of the output. The splits count elements; both or none, and if one rank gives\n"
          "them all must.")
      .def(
          "all_to_all_list",
          [](const GroupHandle& self, nb::handle outputs, nb::handle inputs, nb::handle timeout,
             bool async_op) {
            return Call<Kind::all_to_all, AllToAllOptions>("all_to_all_list", self, {},
                                                           {timeout, async_op})
                .apart(List{outputs}, List{inputs}, TUTTI_START(all_to_all));
          },
          "outputs"_a, "inputs"_a, nb::kw_only(), "timeout"_a = nb::none(), "async_op"_a = false,
          "The same with lists of arrays of any sizes, one for each rank.")
      .def(
          "all_reduce_coalesced",
          [](const GroupHandle& self, nb::handle arrays, ReduceOp op, nb::handle factor,
             nb::handle timeout, bool async_op) {
            return Call<Kind::all_reduce, AllReduceOptions>("all_reduce_coalesced", self,
                                                            {.op = op}, {timeout, async_op})
                .in_place(List{arrays}, TUTTI_START(all_reduce_coalesced), factor);
          },
          "arrays"_a, "op"_a = ReduceOp::sum, nb::kw_only(), "factor"_a = nb::none(),
          "timeout"_a = nb::none(), "async_op"_a = false,
          "all_reduce of several arrays of one dtype in one operation: many small ones in\n"
          "the time of one. The same number, of the same sizes, on every rank.")
      .def(
          "broadcast_coalesced",
          [](const GroupHandle& self, nb::handle arrays, int root, nb::handle timeout,
             bool async_op) {
            return Call<Kind::broadcast, BroadcastOptions>("broadcast_coalesced", self,
                                                           {.root = root}, {timeout, async_op})
                .in_place(List{arrays}, TUTTI_START(broadcast_coalesced));
          },
          "arrays"_a, "root"_a = 0, nb::kw_only(), "timeout"_a = nb::none(), "async_op"_a = false,
          "broadcast of several arrays in one operation.")
      .def(
          "all_gather_coalesced",
          [](const GroupHandle& self, nb::handle outputs, nb::handle inputs, nb::handle timeout,
             bool async_op) {
            return Call<Kind::all_gather, AllGatherOptions>("all_gather_coalesced", self, {},
                                                            {timeout, async_op})
                .apart(List{outputs}, List{inputs}, TUTTI_START(all_gather_coalesced));
          },
          "outputs"_a, "inputs"_a, nb::kw_only(), "timeout"_a = nb::none(), "async_op"_a = false,
          "all_gather of several arrays in one operation: outputs[t] has size times the\n"
          "elements of inputs[t]. Or outputs[r * n + t] is where inputs[t] of rank r goes,\n"
          "with n inputs.")
      .def(
          "reduce_scatter_coalesced",
          [](const GroupHandle& self, nb::handle outputs, nb::handle inputs, ReduceOp op,
             nb::handle factor, nb::handle timeout, bool async_op) {
            return Call<Kind::reduce_scatter, ReduceScatterOptions>(
                       "reduce_scatter_coalesced", self, {.op = op}, {timeout, async_op})
                .apart(List{outputs}, List{inputs}, TUTTI_START(reduce_scatter_coalesced), factor);
          },
          "outputs"_a, "inputs"_a, "op"_a = ReduceOp::sum, nb::kw_only(), "factor"_a = nb::none(),
          "timeout"_a = nb::none(), "async_op"_a = false,
          "reduce_scatter of several arrays in one operation: inputs[t] has size times the\n"
          "elements of outputs[t].")
      .def(
          "barrier",
          [](const GroupHandle& self, nb::handle timeout, bool async_op) {
            return Call<Kind::barrier, BarrierOptions>("barrier", self, {}, {timeout, async_op})
                .alone(TUTTI_START(barrier));
          },
          nb::kw_only(), "timeout"_a = nb::none(), "async_op"_a = false,
          "Done when every rank has called it.");
  // The end of what is made.
}

}  // namespace tutti::python
