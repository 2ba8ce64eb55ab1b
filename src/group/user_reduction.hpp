#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <tutti/collective.hpp>
#include <tutti/tensor.hpp>
#include <tutti/user_op.hpp>

namespace tutti {

/// One reduction of this rank by an op of the caller's: one operation moves the inputs of all ranks
/// into memory of its own, then the op combines them there.
///
/// Threads: one at a time.
class UserReduction {
 public:
  /// A member of a group, for messages and for what it reads and writes.
  struct Member {
    std::string_view group;
    int rank = 0;
    int size = 0;
  };
  /// Reads `inputs` in place of `input` if it is not empty: one for each rank. InvalidArgument for
  /// what is wrong with the call.
  UserReduction(const Collective& call, std::span<const TensorView> inputs, const UserOp& op,
                const Member& member);
  UserReduction(const UserReduction&) = delete;
  UserReduction& operator=(const UserReduction&) = delete;

  /// The operation that moves; its tensors live as long as this object.
  [[nodiscard]] const Collective& movement() const noexcept { return movement_; }
  /// False if this rank only gives its input.
  [[nodiscard]] bool has_result() const noexcept { return writes_; }
  /// The inputs are there: combines them in the order of the ranks, and then writes the output.
  /// Throws what the op throws; the output is then as it was.
  void combine();
  /// A library below may still use the memory: it stays for as long as the process lives.
  void leave() noexcept;
  /// "all_reduce(op 'name', float32 x 4) in group 'world'"
  [[nodiscard]] std::string text() const;
  [[nodiscard]] int rank() const noexcept { return rank_; }

 private:
  /// Memory for elements, aligned for any type.
  class Blocks {
   public:
    Blocks() = default;
    Blocks(DType dtype, std::size_t count)
        : dtype_(dtype),
          count_(count),
          lines_(
              std::make_unique_for_overwrite<Line[]>(count * size_of(dtype) / sizeof(Line) + 1)) {}
    /// Elements [first, first + count).
    [[nodiscard]] TensorView part(std::size_t first, std::size_t count) const noexcept {
      return TensorView(lines_[0].bytes + first * size_of(dtype_), dtype_, count);
    }
    [[nodiscard]] TensorView whole() const noexcept { return part(0, count_); }
    void leave() noexcept { (void)lines_.release(); }

   private:
    struct alignas(UserOp::kAlignment) Line {
      std::byte bytes[UserOp::kAlignment];
    };
    DType dtype_ = DType::uint8;
    std::size_t count_ = 0;
    std::unique_ptr<Line[]> lines_;
  };

  [[nodiscard]] std::string what_is_wrong(const Collective& call,
                                          std::span<const TensorView> inputs) const;

  UserOp op_;
  Kind kind_;
  TensorView output_;
  std::string group_;
  int rank_;
  int size_;
  bool writes_;
  Blocks all_;  ///< a block of each rank
  Blocks row_;  ///< the inputs of this rank one after the other, where they were several
  Collective movement_;
};

}  // namespace tutti
