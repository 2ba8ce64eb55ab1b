#include <tutti/user_op.hpp>

#include "call/user_ops.hpp"

namespace tutti {
inline namespace v0 {

struct UserOp::State {
  std::string name = {};
  Function function = {};
  std::size_t block = 1;
  std::uint64_t all_reduce;
  std::uint64_t reduce;
  std::uint64_t reduce_scatter;
  std::uint64_t scan;
  std::uint64_t exclusive_scan;
};

UserOp::UserOp(std::string name, Function function, std::size_t block) {
  const auto refuse = [](const char* text) {
    raise(Outcome(Errc::invalid_argument, std::string("UserOp: ") + text));
  };
  if (name.empty()) refuse("the name is empty; ranks compare it");
  if (!function) refuse("there is no function");
  if (block == 0) refuse("a block has at least one element");
  const auto id = [&](Kind kind) { return call::user_op_id(kind, name, block); };
  State state{.all_reduce = id(Kind::all_reduce),
              .reduce = id(Kind::reduce),
              .reduce_scatter = id(Kind::reduce_scatter),
              .scan = id(Kind::scan),
              .exclusive_scan = id(Kind::exclusive_scan)};
  state.name = std::move(name);
  state.function = std::move(function);
  state.block = block;
  state_ = std::make_shared<const State>(std::move(state));
}

std::string_view UserOp::name() const noexcept { return state_->name; }
std::size_t UserOp::block() const noexcept { return state_->block; }

void UserOp::combine(const TensorView& result, const TensorView& next) const {
  state_->function(result, next);
}

std::uint64_t UserOp::id(Kind kind) const noexcept {
  switch (kind) {
    case Kind::reduce: return state_->reduce;
    case Kind::reduce_scatter: return state_->reduce_scatter;
    case Kind::scan: return state_->scan;
    case Kind::exclusive_scan: return state_->exclusive_scan;
    default: return state_->all_reduce;
  }
}

}  // namespace v0
}  // namespace tutti
