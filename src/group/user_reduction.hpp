#pragma once

#include <span>
#include <string>
#include <string_view>

#include <tutti/backend/collective.hpp>
#include <tutti/tensor.hpp>
#include <tutti/user_op.hpp>

#include "group/local_tensors.hpp"
#include "group/two_step_call.hpp"

namespace tutti {
inline namespace v0 {

/// One reduction with a UserOp: an operation moves the inputs of all ranks into this object's
/// memory, then the op combines them there.
class UserReduction final : public TwoStepCall {
 public:
  /// This rank in its group, for error texts and to know which tensors it reads and writes.
  struct Member {
    std::string_view group;
    int rank = 0;
    int size = 0;
  };
  /// Reads `inputs`, one for each rank, in place of `input` if it is not empty. Throws
  /// InvalidArgument if the call is wrong.
  UserReduction(const Collective& call, std::span<const TensorView> inputs, const UserOp& op,
                const Member& member);

  [[nodiscard]] const Collective& movement() const noexcept override { return movement_; }
  /// False if this rank only gives its input, and gets none.
  [[nodiscard]] bool has_second_step() const noexcept override { return all_.data() != nullptr; }
  /// Combines the inputs in the order of the ranks, then writes the output. If the op throws, the
  /// output stays unchanged.
  [[nodiscard]] bool finish(bool may_wait) override;
  void keep_memory() noexcept override;
  [[nodiscard]] std::string text() const override;
  [[nodiscard]] std::string_view second_step() const noexcept override { return "its op"; }
  [[nodiscard]] int rank() const noexcept override { return rank_; }

 private:
  [[nodiscard]] std::string what_is_wrong(const Collective& call,
                                          std::span<const TensorView> inputs) const;

  UserOp op_;
  Kind kind_;
  TensorView output_;
  std::string group_;
  int rank_;
  int size_;
  bool writes_;
  CpuTensors memory_;
  TensorView all_;  ///< a block of each rank
  Collective movement_;
};

}  // namespace v0
}  // namespace tutti
