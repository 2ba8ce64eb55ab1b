#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <tutti/arguments.hpp>
#include <tutti/backend/collective.hpp>
#include <tutti/tensor.hpp>
#include <tutti/user_op.hpp>

namespace tutti {
inline namespace v0 {

/// Combines or copies several tensors of a rank into one before an operation (`..._multigpu`), and
/// copies the result back to them. The CPU does it at once, a GPU in the order of a stream of this
/// object (GpuTensors).
///
/// Threads: one at a time.
/// Errors:  throws an Error (internal) if CUDA fails.
class LocalTensors {
 public:
  LocalTensors() = default;
  virtual ~LocalTensors() = default;
  LocalTensors(const LocalTensors&) = delete;
  LocalTensors& operator=(const LocalTensors&) = delete;

  /// A contiguous tensor in new memory, which lives as long as this object.
  [[nodiscard]] virtual TensorView make(DType dtype, std::size_t count) = 0;
  /// Copies all elements of a tensor to a row, or from it: a tensor of `make`, or a part of one.
  virtual void copy_in(const TensorView& row, const TensorView& view) = 0;
  virtual void copy_out(const TensorView& view, const TensorView& row) = 0;
  /// Combines the elements of `sources`, at most kMostSources, as find_reduce does; `to` is a
  /// tensor of `make`. `op` is not AVG.
  virtual void combine(const TensorView& to, std::span<const TensorView> sources, ReduceOp op) = 0;
  /// Divides the elements of a tensor of `make`, as AVG does.
  virtual void divide(const TensorView& row, std::int64_t divisor) = 0;
  /// True if all copies and reductions are done; waits for them if `may_wait`.
  [[nodiscard]] virtual bool finished(bool may_wait) = 0;
  /// Leaks the memory, because a library may still use it.
  virtual void keep_memory() noexcept = 0;
  /// The stream for the operation between them (Details::stream); 0: CPU tensors.
  [[nodiscard]] virtual std::uintptr_t stream() const noexcept = 0;

  static constexpr std::size_t kMostSources = 64;
};

/// Elements [first, first + count) of a tensor in a row.
[[nodiscard]] inline TensorView part_of(const TensorView& row, std::size_t first,
                                        std::size_t count) noexcept {
  auto* const data = static_cast<std::byte*>(row.data());
  return TensorView(data + first * size_of(row.dtype()), row.dtype(), count, row.device());
}

/// Tensors of the CPU.
class CpuTensors final : public LocalTensors {
 public:
  [[nodiscard]] TensorView make(DType dtype, std::size_t count) override;
  void copy_in(const TensorView& row, const TensorView& view) override;
  void copy_out(const TensorView& view, const TensorView& row) override;
  void combine(const TensorView& to, std::span<const TensorView> sources, ReduceOp op) override;
  void divide(const TensorView& row, std::int64_t divisor) override;
  [[nodiscard]] bool finished(bool /*may_wait*/) override { return true; }
  void keep_memory() noexcept override;
  [[nodiscard]] std::uintptr_t stream() const noexcept override { return 0; }

 private:
  struct alignas(UserOp::kAlignment) Line {  // for any type
    std::byte bytes[UserOp::kAlignment];
  };
  std::vector<std::unique_ptr<Line[]>> made_;
};

}  // namespace v0
}  // namespace tutti
