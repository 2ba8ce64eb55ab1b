#include <tutti/user_op.hpp>

#include "call/user_ops.hpp"

namespace tutti {

struct UserOp::State {
  std::string name;
  Function function;
  std::size_t block;
  std::uint64_t all_reduce;
  std::uint64_t reduce;
  std::uint64_t reduce_scatter;
};

UserOp::UserOp(std::string name, Function function, std::size_t block) {
  const auto refuse = [](const char* text) {
    raise(Outcome(Errc::invalid_argument, std::string("UserOp: ") + text));
  };
  if (name.empty()) refuse("the name is empty; ranks compare it");
  if (!function) refuse("there is no function");
  if (block == 0) refuse("a block has at least one element");
  const auto id = [&](Kind kind) { return call::user_op_id(kind, name, block); };
  const std::uint64_t all_reduce = id(Kind::all_reduce);
  const std::uint64_t reduce = id(Kind::reduce);
  const std::uint64_t reduce_scatter = id(Kind::reduce_scatter);
  state_ = std::make_shared<const State>(
      State{std::move(name), std::move(function), block, all_reduce, reduce, reduce_scatter});
}

std::string_view UserOp::name() const noexcept { return state_->name; }
std::size_t UserOp::block() const noexcept { return state_->block; }

void UserOp::combine(const TensorView& result, const TensorView& next) const {
  state_->function(result, next);
}

std::uint64_t UserOp::id(Kind kind) const noexcept {
  if (kind == Kind::reduce) return state_->reduce;
  return kind == Kind::reduce_scatter ? state_->reduce_scatter : state_->all_reduce;
}

}  // namespace tutti
