#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <torch/data/samplers/base.h>

#include <tutti/torch/process_group.hpp>

namespace tutti::torch {

/// The options of a DistributedSampler, beside the size of the data set.
struct DistributedSamplerOptions {
  bool shuffle = true;     ///< a new order for each epoch
  std::uint64_t seed = 0;  ///< equal on all ranks
  bool drop_last = false;  ///< drop what does not divide equally, instead of repeating the first
};

/// Divides the indices of a data set among the ranks: the same ones, in the same order, as
/// torch.utils.data.DistributedSampler gives in Python for the same arguments.
class DistributedSampler final : public ::torch::data::samplers::Sampler<> {
 public:
  /// For a rank of a group.
  DistributedSampler(std::size_t size, const ProcessGroup& group,
                     const DistributedSamplerOptions& options = {});
  /// For any rank of so many. c10::ValueError if there is no such rank.
  DistributedSampler(std::size_t size, int num_replicas, int rank,
                     const DistributedSamplerOptions& options = {});

  /// Call it before each epoch, on every rank: else all epochs have one order.
  void set_epoch(std::uint64_t epoch);
  [[nodiscard]] std::uint64_t epoch() const noexcept { return epoch_; }
  /// How many indices a rank gets in an epoch.
  [[nodiscard]] std::size_t size() const noexcept;
  /// This rank's indices of the epoch.
  [[nodiscard]] std::vector<std::size_t> indices() const;

  /// Begins the epoch anew; `new_size` is a new size of the data set.
  void reset(std::optional<std::size_t> new_size = std::nullopt) override;
  /// The next indices, at most `batch_size`; empty at the end of the epoch.
  std::optional<std::vector<std::size_t>> next(std::size_t batch_size) override;
  /// Stores the epoch and the place in it.
  void save(::torch::serialize::OutputArchive& archive) const override;
  /// Continues where `save` was called.
  void load(::torch::serialize::InputArchive& archive) override;

 private:
  std::size_t size_;
  std::size_t replicas_;
  std::size_t rank_;
  DistributedSamplerOptions options_;
  std::uint64_t epoch_ = 0;
  std::vector<std::size_t> indices_;
  std::size_t position_ = 0;
};

}  // namespace tutti::torch
