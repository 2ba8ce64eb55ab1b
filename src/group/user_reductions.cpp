#include <memory>
#include <span>
#include <string>
#include <utility>

#include <tutti/backend/backend.hpp>
#include <tutti/backend/group_access.hpp>
#include <tutti/process_group.hpp>

#include "group/two_step_call.hpp"
#include "group/user_reduction.hpp"

// Reductions by an op of the caller's.
namespace tutti {
inline namespace v0 {
namespace {

Work start(ProcessGroup& group, Kind kind, const TensorView& output, const ConstTensorView& input,
           std::span<const TensorView> inputs, const UserOp& op, const UserReduceOptions& options) {
  Collective call;
  call.kind = kind;
  call.root = options.root;
  call.timeout = options.timeout.value_or(group.get_timeout());
  call.input.read_only() = input;
  // The output of a rank that gets no result is not looked at.
  call.output = uses_output(kind, group.rank(), options.root) ? output : call.input;
  auto reduction = std::make_unique<UserReduction>(
      call, inputs, op, UserReduction::Member{group.name(), group.rank(), group.size()});
  if (std::string why = GroupAccess::backend(group).unsupported(reduction->movement());
      !why.empty())
    raise(Outcome(Errc::invalid_argument, reduction->text() + ": " + why));
  return submit_in_two_steps(GroupAccess::backend(group), std::move(reduction),
                             {options.executor, options.unattended});
}

template <class Options>
UserReduceOptions with_root(const Options& options) {
  return {.root = 0,
          .timeout = options.timeout,
          .executor = options.executor,
          .unattended = options.unattended};
}

}  // namespace

Work ProcessGroup::all_reduce(const TensorView& buffer, const UserOp& op,
                              const UserOpOptions& options) {
  return all_reduce(buffer, buffer, op, options);
}

Work ProcessGroup::all_reduce(const TensorView& output, const ConstTensorView& input,
                              const UserOp& op, const UserOpOptions& options) {
  return start(*this, Kind::all_reduce, output, input, {}, op, with_root(options));
}

Work ProcessGroup::reduce(const TensorView& buffer, const UserOp& op,
                          const UserReduceOptions& options) {
  return reduce(buffer, buffer, op, options);
}

Work ProcessGroup::reduce(const TensorView& output, const ConstTensorView& input, const UserOp& op,
                          const UserReduceOptions& options) {
  return start(*this, Kind::reduce, output, input, {}, op, options);
}

Work ProcessGroup::scan(const TensorView& buffer, const UserOp& op,
                        const UserScanOptions& options) {
  return scan(buffer, buffer, op, options);
}

Work ProcessGroup::scan(const TensorView& output, const ConstTensorView& input, const UserOp& op,
                        const UserScanOptions& options) {
  return start(*this, options.exclusive ? Kind::exclusive_scan : Kind::scan, output, input, {}, op,
               with_root(options));
}

Work ProcessGroup::reduce_scatter(const TensorView& output, const ConstTensorView& input,
                                  const UserOp& op, const UserOpOptions& options) {
  return start(*this, Kind::reduce_scatter, output, input, {}, op, with_root(options));
}

Work ProcessGroup::reduce_scatter(const TensorView& output, std::span<const TensorView> inputs,
                                  const UserOp& op, const UserOpOptions& options) {
  const TensorView none(nullptr, output.dtype(), output.count() * inputs.size(), output.device());
  return start(*this, Kind::reduce_scatter, output, none, inputs, op, with_root(options));
}

}  // namespace v0
}  // namespace tutti
