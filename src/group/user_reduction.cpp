#include "group/user_reduction.hpp"

#include <tutti/backend/kinds.hpp>

#include "base/element_unit.hpp"
#include "base/format.hpp"
#include "base/index.hpp"
#include "base/shown.hpp"
#include "call/call_check.hpp"

namespace tutti {
inline namespace v0 {
namespace {

/// The operation that moves the inputs to where they are combined.
Kind kind_that_moves(Kind kind) noexcept {
  if (kind == Kind::reduce) return Kind::gather;
  return kind == Kind::reduce_scatter ? Kind::all_to_all : Kind::all_gather;
}

}  // namespace

UserReduction::UserReduction(const Collective& call, std::span<const TensorView> inputs,
                             const UserOp& op, const Member& member)
    : op_(op),
      kind_(call.kind),
      output_(call.output),
      group_(member.group),
      rank_(member.rank),
      size_(member.size),
      writes_(uses_output(call.kind, member.rank, call.root)) {
  if (const std::string wrong = what_is_wrong(call, inputs); !wrong.empty())
    raise(Outcome(Errc::invalid_argument, text() + ": " + wrong));
  const DType dtype = output_.dtype();
  const std::size_t count = output_.count();
  const std::size_t all = count * base::as_size(size_);
  movement_.kind = kind_that_moves(kind_);
  movement_.root = call.root;
  movement_.digest = op_.id(kind_);
  movement_.timeout = call.timeout;
  movement_.input = call.input;
  movement_.output = output_;
  if (writes_ || movement_.kind == Kind::all_gather) {  // rank 0 of an exclusive scan, too
    all_ = memory_.make(dtype, all);
    movement_.output = all_;
  }
  if (inputs.empty()) return;
  const TensorView row = memory_.make(dtype, all);  // one after the other
  std::size_t first = 0;
  for (const TensorView& one : inputs) {
    memory_.copy_in(part_of(row, first, count), one);
    first += count;
  }
  movement_.input = row;
}

std::string UserReduction::what_is_wrong(const Collective& call,
                                         std::span<const TensorView> inputs) const {
  Details details;
  details.inputs = inputs;
  Collective whole = call;
  whole.details = &details;
  if (std::string wrong = call::what_is_wrong(whole, rank_, size_); !wrong.empty()) return wrong;
  if (output_.device() != Device())
    return "the op combines tensors of the CPU only: copy the tensor there";
  if (op_.dtype() && *op_.dtype() != output_.dtype())
    return base::format("the op combines {}", to_string(*op_.dtype()));
  if (output_.struct_size() != 1 && op_.dtype() && op_.block() != output_.struct_size())
    return base::format(
        "the op combines values of {} bytes, and the buffer has structs of {} bytes", op_.block(),
        output_.struct_size());
  if (output_.count() % op_.block() != 0)
    return base::format("the op combines {} {} at a time, which do not divide {}", op_.block(),
                        output_.struct_size() == 1 ? "elements" : "bytes", output_.count());
  for (const TensorView& one : inputs) {
    if (one.count() != output_.count())
      return "the inputs must have as many elements as the output";
  }
  return {};
}

bool UserReduction::finish(bool /*may_wait*/) {
  const std::size_t count = output_.count();
  if (count == 0 || !writes_) return true;
  const TensorView result = part_of(all_, 0, count);
  const RankRange ranks = ranks_in_result(kind_, rank_, movement_.root, size_);
  for (std::size_t r = 1; r < base::as_size(ranks.count); ++r)
    op_.combine(result, part_of(all_, r * count, count));
  memory_.copy_out(output_, result);
  return true;
}

void UserReduction::keep_memory() noexcept { memory_.keep_memory(); }

std::string UserReduction::text() const {
  return base::format("{}(op '{}', {}) in group '{}'", to_string(kind_),
                      base::shown(op_.name(), 64), base::elements_text(output_), group_);
}

}  // namespace v0
}  // namespace tutti
