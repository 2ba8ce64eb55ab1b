#include <span>
#include <string_view>
#include <vector>

#include "base/format.hpp"
#include "call/call_check.hpp"
#include "call/factor.hpp"
#include "group/process_group_impl.hpp"

// The operations on blocks. Each makes one Collective of its arguments.
namespace tutti {
inline namespace v0 {
namespace {

/// The view that stands for a list of tensors, or for a side that this rank does not have: it has
/// dtype, device and count, but no memory. An empty list takes them from `other`, the other side.
TensorView standing_for(std::span<const TensorView> views, const ConstTensorView& other) noexcept {
  std::size_t count = 0;
  for (const TensorView& view : views) count += view.count();
  const ConstTensorView& like = views.empty() ? other : views.front();
  return TensorView(nullptr, like.dtype(), count, like.device());
}

/// A call with one tensor on each side, and no other arguments.
Collective plain_call(Kind kind, const TensorView& output, const ConstTensorView& input,
                      int root = 0, ReduceOp op = ReduceOp::sum) noexcept {
  Collective call;
  call.kind = kind;
  call.op = op;
  call.root = root;
  call.input.read_only() = input;
  call.output = output;
  return call;
}

/// True if the options have a factor, or should have one.
template <class Options>
bool has_factor(const Options& options) noexcept {
  return options.op == ReduceOp::premul_sum || options.factor.has_value() ||
         call::is_given(options.factors);
}

/// The same; `details` may have more arguments.
Collective call_of(Kind kind, const TensorView& output, const ConstTensorView& input,
                   const Details& details, int root = 0, ReduceOp op = ReduceOp::sum) noexcept {
  const bool used = !details.inputs.empty() || !details.outputs.empty() ||
                    !details.input_counts.empty() || !details.output_counts.empty() ||
                    call::is_given(details.factor);
  Collective call = plain_call(kind, output, input, root, op);
  if (used) call.details = &details;
  return call;
}

/// The counts of a call in elements of its tensor's dtype. The caller counts structs if the tensor
/// has structs.
class Counts {
 public:
  Counts(std::span<const std::size_t> given, const ConstTensorView& view, std::string_view side) {
    const std::size_t size = view.struct_size();
    if (size == 1) {
      all_ = given;
      return;
    }
    scaled_.reserve(given.size());
    for (const std::size_t count : given) {
      if (count > view.count() / size && wrong_.empty())  // the product could overflow
        wrong_ = call::text_of_large_count(side, count, view);
      scaled_.push_back(wrong_.empty() ? count * size : 0);
    }
    all_ = scaled_;
  }
  Counts(const Counts&) = delete;
  Counts& operator=(const Counts&) = delete;

  [[nodiscard]] std::span<const std::size_t> all() const noexcept { return all_; }
  /// Throws if the counts were wrong.
  void check(const Collective& call, std::string_view group) const {
    if (wrong_.empty()) return;
    raise(Outcome(Errc::invalid_argument,
                  base::format("{} in group '{}': {}", describe(call), group, wrong_)));
  }

 private:
  std::vector<std::size_t> scaled_;
  std::span<const std::size_t> all_;
  std::string wrong_;
};

/// The counts of a gather or scatter on this rank: all on the root, elsewhere this rank's own.
std::span<const std::size_t> counts_for(std::span<const std::size_t> given, int root,
                                        const ProcessGroup& group) noexcept {
  if (given.empty() || group.rank() == root ||
      given.size() != static_cast<std::size_t>(group.size()))
    return given;
  return given.subspan(static_cast<std::size_t>(group.rank()), 1);
}

}  // namespace

// Calls without the rarer arguments go the short way: a small call takes little longer than making
// a Details.

Work ProcessGroup::all_reduce(const TensorView& output, const detail::Input& input,
                              const AllReduceOptions& options) {
  if (!has_factor(options)) [[likely]] {
    Collective plain = plain_call(Kind::all_reduce, output, input, 0, options.op);
    return impl_->submit(plain, options.timeout, false);
  }
  call::Factor factor(options.op, input.dtype(), options.factor, options.factors);
  Details details;
  details.factor = factor.view();
  Collective call = call_of(Kind::all_reduce, output, input, details, 0, options.op);
  return impl_->submit(call, options.timeout, false);
}

Work ProcessGroup::reduce(const TensorView& buffer, const ReduceOptions& options) {
  return reduce(buffer, buffer, options);
}

Work ProcessGroup::reduce(const TensorView& output, const detail::Input& input,
                          const ReduceOptions& options) {
  if (!has_factor(options)) [[likely]] {
    Collective plain = plain_call(Kind::reduce, output, input, options.root, options.op);
    if (rank() != options.root) plain.output = plain.input;  // not looked at
    return impl_->submit(plain, options.timeout, false);
  }
  call::Factor factor(options.op, input.dtype(), options.factor, options.factors);
  Details details;
  details.factor = factor.view();
  Collective call = call_of(Kind::reduce, output, input, details, options.root, options.op);
  if (rank() != options.root) call.output = call.input;  // not looked at
  return impl_->submit(call, options.timeout, false);
}

Work ProcessGroup::scan(const TensorView& buffer, const ScanOptions& options) {
  return scan(buffer, buffer, options);
}

Work ProcessGroup::scan(const TensorView& output, const detail::Input& input,
                        const ScanOptions& options) {
  const Kind kind = options.exclusive ? Kind::exclusive_scan : Kind::scan;
  if (!has_factor(options)) [[likely]] {
    Collective plain = plain_call(kind, output, input, 0, options.op);
    if (!uses_output(kind, rank(), 0)) plain.output = plain.input;  // not looked at
    return impl_->submit(plain, options.timeout, false);
  }
  call::Factor factor(options.op, input.dtype(), options.factor, options.factors);
  Details details;
  details.factor = factor.view();
  Collective call = call_of(kind, output, input, details, 0, options.op);
  if (!uses_output(kind, rank(), 0)) call.output = call.input;  // not looked at
  return impl_->submit(call, options.timeout, false);
}

Work ProcessGroup::all_gather(const TensorView& output, const ConstTensorView& input,
                              const AllGatherOptions& options) {
  if (options.output_counts.empty()) [[likely]] {
    Collective plain = plain_call(Kind::all_gather, output, input);
    return impl_->submit(plain, options.timeout, false);
  }
  const Counts counts(options.output_counts, output, "output");
  Details details;
  details.output_counts = counts.all();
  Collective call = call_of(Kind::all_gather, output, input, details);
  counts.check(call, name());
  return impl_->submit(call, options.timeout, false);
}

Work ProcessGroup::all_gather(std::span<const TensorView> outputs, const ConstTensorView& input,
                              const AllGatherOptions& options) {
  Details details;
  details.outputs = outputs;
  details.output_counts = options.output_counts;
  Collective call = call_of(Kind::all_gather, standing_for(outputs, input), input, details);
  return impl_->submit(call, options.timeout, false);
}

Work ProcessGroup::gather(const TensorView& output, const ConstTensorView& input,
                          const GatherOptions& options) {
  const bool root = rank() == options.root;
  if (options.output_counts.empty()) [[likely]] {
    Collective plain =
        plain_call(Kind::gather, root ? output : standing_for({}, input), input, options.root);
    return impl_->submit(plain, options.timeout, false);
  }
  const Counts counts(counts_for(options.output_counts, options.root, *this), root ? output : input,
                      root ? "output" : "input");
  Details details;
  details.output_counts = counts.all();
  Collective call =
      call_of(Kind::gather, root ? output : standing_for({}, input), input, details, options.root);
  counts.check(call, name());
  return impl_->submit(call, options.timeout, false);
}

Work ProcessGroup::gather(std::span<const TensorView> outputs, const ConstTensorView& input,
                          const GatherOptions& options) {
  if (rank() != options.root) return gather(TensorView(), input, options);
  Details details;
  details.outputs = outputs;
  details.output_counts = options.output_counts;
  Collective call =
      call_of(Kind::gather, standing_for(outputs, input), input, details, options.root);
  return impl_->submit(call, options.timeout, false);
}

Work ProcessGroup::scatter(const TensorView& output, const ConstTensorView& input,
                           const ScatterOptions& options) {
  const bool root = rank() == options.root;
  if (options.input_counts.empty()) [[likely]] {
    Collective plain =
        plain_call(Kind::scatter, output, root ? input : standing_for({}, output), options.root);
    return impl_->submit(plain, options.timeout, false);
  }
  const Counts counts(counts_for(options.input_counts, options.root, *this), root ? input : output,
                      root ? "input" : "output");
  Details details;
  details.input_counts = counts.all();
  Collective call = call_of(Kind::scatter, output, input, details, options.root);
  if (!root) call.input = standing_for({}, output);
  counts.check(call, name());
  return impl_->submit(call, options.timeout, false);
}

Work ProcessGroup::scatter(const TensorView& output, std::span<const TensorView> inputs,
                           const ScatterOptions& options) {
  if (rank() != options.root) return scatter(output, TensorView(), options);
  Details details;
  details.inputs = inputs;
  details.input_counts = options.input_counts;
  Collective call =
      call_of(Kind::scatter, output, standing_for(inputs, output), details, options.root);
  return impl_->submit(call, options.timeout, false);
}

Work ProcessGroup::reduce_scatter(const TensorView& output, const ConstTensorView& input,
                                  const ReduceScatterOptions& options) {
  if (!has_factor(options) && options.input_counts.empty()) [[likely]] {
    Collective plain = plain_call(Kind::reduce_scatter, output, input, 0, options.op);
    return impl_->submit(plain, options.timeout, false);
  }
  call::Factor factor(options.op, output.dtype(), options.factor, options.factors);
  Details details;
  details.factor = factor.view();
  details.input_counts = options.input_counts;
  Collective call = call_of(Kind::reduce_scatter, output, input, details, 0, options.op);
  return impl_->submit(call, options.timeout, false);
}

Work ProcessGroup::reduce_scatter(const TensorView& output, std::span<const TensorView> inputs,
                                  const ReduceScatterOptions& options) {
  call::Factor factor(options.op, output.dtype(), options.factor, options.factors);
  Details details;
  details.factor = factor.view();
  details.inputs = inputs;
  details.input_counts = options.input_counts;
  Collective call =
      call_of(Kind::reduce_scatter, output, standing_for(inputs, output), details, 0, options.op);
  return impl_->submit(call, options.timeout, false);
}

Work ProcessGroup::all_to_all(const TensorView& output, const ConstTensorView& input,
                              const AllToAllOptions& options) {
  if (options.input_splits.empty() && options.output_splits.empty()) [[likely]] {
    Collective plain = plain_call(Kind::all_to_all, output, input);
    return impl_->submit(plain, options.timeout, false);
  }
  const Counts inputs(options.input_splits, input, "input");
  const Counts outputs(options.output_splits, output, "output");
  Details details;
  details.input_counts = inputs.all();
  details.output_counts = outputs.all();
  Collective call = call_of(Kind::all_to_all, output, input, details);
  inputs.check(call, name());
  outputs.check(call, name());
  return impl_->submit(call, options.timeout, false);
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
  return impl_->submit(call, options.timeout, false);
}

}  // namespace v0
}  // namespace tutti
