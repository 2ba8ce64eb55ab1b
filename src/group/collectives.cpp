#include <tutti/process_group.hpp>

#include "group/factor.hpp"

// The operations on blocks: each puts its arguments together into one Collective.
namespace tutti {
namespace {

/// Stands for a list of tensors, or for a side that this rank does not have: no memory, but dtype,
/// device and count. Of an empty list they are those of `other`, the other side.
TensorView standing_for(std::span<const TensorView> views, const TensorView& other) noexcept {
  std::size_t count = 0;
  for (const TensorView& view : views) count += view.count();
  const TensorView& like = views.empty() ? other : views.front();
  return TensorView(nullptr, like.dtype(), count, like.device());
}

/// A call of one tensor on each side; what is more is in `details`, if there is more.
Collective call_of(Kind kind, const TensorView& output, const TensorView& input,
                   const Details& details, int root = 0, ReduceOp op = ReduceOp::sum) noexcept {
  const bool used = !details.inputs.empty() || !details.outputs.empty() ||
                    !details.input_counts.empty() || !details.output_counts.empty() ||
                    is_given(details.factor);
  Collective call;
  call.kind = kind;
  call.op = op;
  call.root = root;
  call.input = input;
  call.output = output;
  if (used) call.details = &details;
  return call;
}

}  // namespace

Work ProcessGroup::reduce(const TensorView& buffer, const ReduceOptions& options) {
  Factor factor(options.op, buffer.dtype(), options.factor, options.factors);
  Details details;
  details.factor = factor.view();
  Collective call = call_of(Kind::reduce, buffer, buffer, details, options.root, options.op);
  return submit(call, options.timeout, false);
}

Work ProcessGroup::scan(const TensorView& buffer, const ScanOptions& options) {
  Factor factor(options.op, buffer.dtype(), options.factor, options.factors);
  Details details;
  details.factor = factor.view();
  const Kind kind = options.exclusive ? Kind::exclusive_scan : Kind::scan;
  Collective call = call_of(kind, buffer, buffer, details, 0, options.op);
  return submit(call, options.timeout, false);
}

Work ProcessGroup::all_gather(const TensorView& output, const TensorView& input,
                              const AllGatherOptions& options) {
  Details details;
  details.output_counts = options.output_counts;
  Collective call = call_of(Kind::all_gather, output, input, details);
  return submit(call, options.timeout, false);
}

Work ProcessGroup::all_gather(std::span<const TensorView> outputs, const TensorView& input,
                              const AllGatherOptions& options) {
  Details details;
  details.outputs = outputs;
  details.output_counts = options.output_counts;
  Collective call = call_of(Kind::all_gather, standing_for(outputs, input), input, details);
  return submit(call, options.timeout, false);
}

Work ProcessGroup::gather(const TensorView& output, const TensorView& input,
                          const GatherOptions& options) {
  const bool root = rank() == options.root;
  const Details none{};
  Collective call =
      call_of(Kind::gather, root ? output : standing_for({}, input), input, none, options.root);
  return submit(call, options.timeout, false);
}

Work ProcessGroup::gather(std::span<const TensorView> outputs, const TensorView& input,
                          const GatherOptions& options) {
  if (rank() != options.root) return gather(TensorView(), input, options);
  Details details;
  details.outputs = outputs;
  Collective call =
      call_of(Kind::gather, standing_for(outputs, input), input, details, options.root);
  return submit(call, options.timeout, false);
}

Work ProcessGroup::scatter(const TensorView& output, const TensorView& input,
                           const ScatterOptions& options) {
  const bool root = rank() == options.root;
  const Details none{};
  Collective call =
      call_of(Kind::scatter, output, root ? input : standing_for({}, output), none, options.root);
  return submit(call, options.timeout, false);
}

Work ProcessGroup::scatter(const TensorView& output, std::span<const TensorView> inputs,
                           const ScatterOptions& options) {
  if (rank() != options.root) return scatter(output, TensorView(), options);
  Details details;
  details.inputs = inputs;
  Collective call =
      call_of(Kind::scatter, output, standing_for(inputs, output), details, options.root);
  return submit(call, options.timeout, false);
}

Work ProcessGroup::reduce_scatter(const TensorView& output, const TensorView& input,
                                  const ReduceScatterOptions& options) {
  Factor factor(options.op, output.dtype(), options.factor, options.factors);
  Details details;
  details.factor = factor.view();
  details.input_counts = options.input_counts;
  Collective call = call_of(Kind::reduce_scatter, output, input, details, 0, options.op);
  return submit(call, options.timeout, false);
}

Work ProcessGroup::reduce_scatter(const TensorView& output, std::span<const TensorView> inputs,
                                  const ReduceScatterOptions& options) {
  Factor factor(options.op, output.dtype(), options.factor, options.factors);
  Details details;
  details.factor = factor.view();
  details.inputs = inputs;
  details.input_counts = options.input_counts;
  Collective call =
      call_of(Kind::reduce_scatter, output, standing_for(inputs, output), details, 0, options.op);
  return submit(call, options.timeout, false);
}

Work ProcessGroup::all_to_all(const TensorView& output, const TensorView& input,
                              const AllToAllOptions& options) {
  Details details;
  details.input_counts = options.input_splits;
  details.output_counts = options.output_splits;
  Collective call = call_of(Kind::all_to_all, output, input, details);
  return submit(call, options.timeout, false);
}

Work ProcessGroup::all_to_all(std::span<const TensorView> outputs,
                              std::span<const TensorView> inputs, const AllToAllOptions& options) {
  Details details;
  details.inputs = inputs;
  details.outputs = outputs;
  details.input_counts = options.input_splits;
  details.output_counts = options.output_splits;
  const TensorView input = standing_for(inputs, outputs.empty() ? TensorView() : outputs.front());
  Collective call = call_of(Kind::all_to_all, standing_for(outputs, input), input, details);
  return submit(call, options.timeout, false);
}

}  // namespace tutti
