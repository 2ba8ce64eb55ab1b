#include <tutti/torch/distributed_sampler.hpp>

#include <algorithm>
#include <numeric>
#include <utility>

#include <ATen/CPUGeneratorImpl.h>
#include <torch/serialize/archive.h>

namespace tutti::torch {

DistributedSampler::DistributedSampler(std::size_t size, const ProcessGroup& group,
                                       const DistributedSamplerOptions& options)
    : DistributedSampler(size, group.size(), group.rank(), options) {}

DistributedSampler::DistributedSampler(std::size_t size, int num_replicas, int rank,
                                       const DistributedSamplerOptions& options)
    : size_(size),
      replicas_(static_cast<std::size_t>(num_replicas)),
      rank_(static_cast<std::size_t>(rank)),
      options_(options) {
  TORCH_CHECK_VALUE(rank >= 0 && rank < num_replicas,
                    "tutti: DistributedSampler: there is no rank ", rank, " of ", num_replicas);
  reset();
}

void DistributedSampler::set_epoch(std::uint64_t epoch) {
  epoch_ = epoch;
  reset();
}

std::size_t DistributedSampler::size() const noexcept {
  return options_.drop_last ? size_ / replicas_ : (size_ + replicas_ - 1) / replicas_;
}

std::vector<std::size_t> DistributedSampler::indices() const {
  std::vector<std::size_t> all(size_);
  if (options_.shuffle) {
    const at::Tensor order = at::randperm(static_cast<std::int64_t>(size_),
                                          at::detail::createCPUGenerator(options_.seed + epoch_));
    std::copy_n(order.const_data_ptr<std::int64_t>(), size_, all.begin());
  } else {
    std::iota(all.begin(), all.end(), std::size_t{0});
  }
  // Beyond the end of the data set its first indices come again.
  std::vector<std::size_t> mine(size());
  for (std::size_t k = 0; k < mine.size(); ++k) mine[k] = all[(rank_ + k * replicas_) % size_];
  return mine;
}

void DistributedSampler::reset(std::optional<std::size_t> new_size) {
  if (new_size) size_ = *new_size;
  indices_ = indices();
  position_ = 0;
}

std::optional<std::vector<std::size_t>> DistributedSampler::next(std::size_t batch_size) {
  const std::size_t count = std::min(batch_size, indices_.size() - position_);
  if (count == 0) return std::nullopt;
  const auto first = indices_.begin() + static_cast<std::ptrdiff_t>(position_);
  position_ += count;
  return std::vector<std::size_t>(first, first + static_cast<std::ptrdiff_t>(count));
}

void DistributedSampler::save(::torch::serialize::OutputArchive& archive) const {
  archive.write("epoch", c10::IValue(static_cast<std::int64_t>(epoch_)));
  archive.write("position", c10::IValue(static_cast<std::int64_t>(position_)));
}

void DistributedSampler::load(::torch::serialize::InputArchive& archive) {
  c10::IValue epoch;
  c10::IValue position;
  archive.read("epoch", epoch);
  archive.read("position", position);
  set_epoch(static_cast<std::uint64_t>(epoch.toInt()));
  const auto place = static_cast<std::size_t>(position.toInt());
  TORCH_CHECK_VALUE(place <= indices_.size(), "tutti: DistributedSampler: the archive's place ",
                    place, " is beyond the ", indices_.size(), " indices of this rank");
  position_ = place;
}

}  // namespace tutti::torch
