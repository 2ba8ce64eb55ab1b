#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include <tutti/backend/collective.hpp>

namespace tutti::mpi {

/// One side of a call as MPI takes it: its elements in a row. The caller's own memory where they
/// lie so already, else a copy.
class Buffer {
 public:
  /// Uses the input of a call, or a copy of it if that is necessary; `must_copy`: always a copy.
  void take_input(const Collective& call, bool must_copy);
  /// Uses the output of a call, or a copy, which `finish` writes back.
  void take_output(const Collective& call);
  /// The output of a call is made in the copy that `in` has; `finish` writes it to the caller's.
  void take_output_in(const Collective& call, const Buffer& in);
  void reset() noexcept;

  /// Writes to the caller's memory, if this is a copy.
  void finish() noexcept;

  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] bool is_copy() const noexcept { return copy_ != nullptr; }
  /// MPI works on the caller's memory.
  [[nodiscard]] bool callers() const noexcept {
    return copy_ == nullptr && pieces_.empty() && data_ != nullptr;
  }

 private:
  void copy_of(std::size_t bytes);

  std::byte* data_ = nullptr;
  std::unique_ptr<std::byte[]> copy_;
  std::vector<Piece> pieces_;  ///< of an output that is a copy: where its elements belong
};

}  // namespace tutti::mpi
