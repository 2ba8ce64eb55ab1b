#include <tutti/process_group.hpp>

#include "group/factor.hpp"

// The operations on blocks: each puts its arguments together into one Collective.
namespace tutti {
namespace {

/// Stands for a list of tensors, or for a side that this rank does not have: dtype and count only.
TensorView standing_for(std::span<const TensorView> views, DType fallback) noexcept {
  std::size_t count = 0;
  for (const TensorView& view : views) count += view.count();
  return TensorView(nullptr, views.empty() ? fallback : views.front().dtype(), count);
}

bool uses(const Details& details) noexcept {
  return !details.inputs.empty() || !details.outputs.empty() || !details.input_counts.empty() ||
         !details.output_counts.empty() || details.factor.count() > 0;
}

}  // namespace

Work ProcessGroup::reduce(const TensorView& buffer, const ReduceOptions& options) {
  Collective call;
  call.kind = Kind::reduce;
  call.op = options.op;
  call.root = options.root;
  call.input = buffer;
  call.output = buffer;
  Factor factor(options.op, buffer.dtype(), options.factor, options.factors);
  Details details;
  details.factor = factor.view();
  if (uses(details)) call.details = &details;
  return submit(call, options.timeout, false);
}

Work ProcessGroup::all_gather(const TensorView& output, const TensorView& input,
                              const AllGatherOptions& options) {
  Collective call;
  call.kind = Kind::all_gather;
  call.input = input;
  call.output = output;
  Details details;
  details.output_counts = options.output_counts;
  if (uses(details)) call.details = &details;
  return submit(call, options.timeout, false);
}

Work ProcessGroup::all_gather(std::span<const TensorView> outputs, const TensorView& input,
                              const AllGatherOptions& options) {
  Collective call;
  call.kind = Kind::all_gather;
  call.input = input;
  call.output = standing_for(outputs, input.dtype());
  Details details;
  details.outputs = outputs;
  details.output_counts = options.output_counts;
  if (uses(details)) call.details = &details;
  return submit(call, options.timeout, false);
}

Work ProcessGroup::gather(const TensorView& output, const TensorView& input,
                          const GatherOptions& options) {
  Collective call;
  call.kind = Kind::gather;
  call.root = options.root;
  call.input = input;
  call.output = rank() == options.root ? output : standing_for({}, input.dtype());
  return submit(call, options.timeout, false);
}

Work ProcessGroup::gather(std::span<const TensorView> outputs, const TensorView& input,
                          const GatherOptions& options) {
  if (rank() != options.root) return gather(TensorView(), input, options);
  Collective call;
  call.kind = Kind::gather;
  call.root = options.root;
  call.input = input;
  call.output = standing_for(outputs, input.dtype());
  Details details;
  details.outputs = outputs;
  if (uses(details)) call.details = &details;
  return submit(call, options.timeout, false);
}

Work ProcessGroup::scatter(const TensorView& output, const TensorView& input,
                           const ScatterOptions& options) {
  Collective call;
  call.kind = Kind::scatter;
  call.root = options.root;
  call.input = rank() == options.root ? input : standing_for({}, output.dtype());
  call.output = output;
  return submit(call, options.timeout, false);
}

Work ProcessGroup::scatter(const TensorView& output, std::span<const TensorView> inputs,
                           const ScatterOptions& options) {
  if (rank() != options.root) return scatter(output, TensorView(), options);
  Collective call;
  call.kind = Kind::scatter;
  call.root = options.root;
  call.input = standing_for(inputs, output.dtype());
  call.output = output;
  Details details;
  details.inputs = inputs;
  if (uses(details)) call.details = &details;
  return submit(call, options.timeout, false);
}

Work ProcessGroup::reduce_scatter(const TensorView& output, const TensorView& input,
                                  const ReduceScatterOptions& options) {
  Collective call;
  call.kind = Kind::reduce_scatter;
  call.op = options.op;
  call.input = input;
  call.output = output;
  Factor factor(options.op, output.dtype(), options.factor, options.factors);
  Details details;
  details.factor = factor.view();
  details.input_counts = options.input_counts;
  if (uses(details)) call.details = &details;
  return submit(call, options.timeout, false);
}

Work ProcessGroup::reduce_scatter(const TensorView& output, std::span<const TensorView> inputs,
                                  const ReduceScatterOptions& options) {
  Collective call;
  call.kind = Kind::reduce_scatter;
  call.op = options.op;
  call.input = standing_for(inputs, output.dtype());
  call.output = output;
  Factor factor(options.op, output.dtype(), options.factor, options.factors);
  Details details;
  details.factor = factor.view();
  details.inputs = inputs;
  details.input_counts = options.input_counts;
  if (uses(details)) call.details = &details;
  return submit(call, options.timeout, false);
}

Work ProcessGroup::all_to_all(const TensorView& output, const TensorView& input,
                              const AllToAllOptions& options) {
  Collective call;
  call.kind = Kind::all_to_all;
  call.input = input;
  call.output = output;
  Details details;
  details.input_counts = options.input_splits;
  details.output_counts = options.output_splits;
  if (uses(details)) call.details = &details;
  return submit(call, options.timeout, false);
}

Work ProcessGroup::all_to_all(std::span<const TensorView> outputs,
                              std::span<const TensorView> inputs, const AllToAllOptions& options) {
  Collective call;
  call.kind = Kind::all_to_all;
  call.input = standing_for(inputs, outputs.empty() ? DType::uint8 : outputs.front().dtype());
  call.output = standing_for(outputs, call.input.dtype());
  Details details;
  details.inputs = inputs;
  details.outputs = outputs;
  details.input_counts = options.input_splits;
  details.output_counts = options.output_splits;
  if (uses(details)) call.details = &details;
  return submit(call, options.timeout, false);
}

}  // namespace tutti
