#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <tutti/backend/collective.hpp>

namespace tutti::engine {

struct BoundPlan;

/// A call that waits for a slot, with a copy of the Details, which the caller need not keep. The
/// elements of tensors are not copied, except a factor of one value.
class Queued {
 public:
  Queued(const Collective& call, std::uint64_t record);

  /// The call; valid as long as this object stays where it is.
  [[nodiscard]] const Collective& call() noexcept;
  /// Its number in the flight recorder.
  [[nodiscard]] std::uint64_t record() const noexcept { return record_; }

  /// Looked up once it is the first one that waits. No other plan is looked up before it begins, so
  /// this one stays.
  const BoundPlan* plan = nullptr;

 private:
  Collective call_;
  std::uint64_t record_;
  bool detailed_;
  Details details_;
  std::vector<TensorView> inputs_;
  std::vector<TensorView> outputs_;
  std::vector<std::size_t> input_counts_;
  std::vector<std::size_t> output_counts_;
  std::vector<Piece> input_pieces_;
  std::vector<Piece> output_pieces_;
  alignas(16) std::array<std::byte, 16> factor_{};
};

}  // namespace tutti::engine
