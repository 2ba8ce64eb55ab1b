// Data-parallel training: every rank holds the whole model and takes its share of each batch; the
// gradients are averaged with all_reduce, so all replicas make the same step. Softmax regression on
// handwritten digits (see ../data/README.md).
//
//   tuttirun --nproc-per-node 4 digits_training [digits.csv]
//
// tutti adds in one fixed order, ((0+1)+(2+3))+..., whatever the algorithm. Each batch is therefore
// cut into 8 blocks that are added in that same order inside a rank: on 1, 2, 4 or 8 processes the
// model then ends with the same bits.

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <numeric>
#include <random>
#include <span>
#include <vector>

#include <tutti/tutti.hpp>

#include "digits.hpp"
#include "softmax.hpp"

using namespace std::chrono_literals;

namespace {

constexpr int kEpochs = 60;
constexpr std::size_t kBatch = 128;
constexpr int kBlocks = 8;
constexpr float kLearningRate = 0.5F;
constexpr double kEnough = 0.93;

/// Adds blocks[first .. first + count) pairwise, as tutti adds ranks; the sum lands in the first.
void add_pairwise(std::span<Gradient> blocks) {
  for (std::size_t step = 1; step < blocks.size(); step *= 2) {
    for (std::size_t at = 0; at + step < blocks.size(); at += 2 * step) {
      for (std::size_t i = 0; i < kGradient; ++i) blocks[at][i] += blocks[at + step][i];
    }
  }
}

class Trainer {
 public:
  Trainer(tutti::ProcessGroup world, const Digits& digits)
      : world_(std::move(world)),
        order_(digits.train.size()),
        first_block_(kBlocks * world_.rank() / world_.size()),
        blocks_(static_cast<std::size_t>(kBlocks * (world_.rank() + 1) / world_.size() -
                                         first_block_)) {
    for (std::size_t i = 0; i < order_.size(); ++i) order_[i] = &digits.train[i];
    // Rank 0 decides where the model starts.
    if (world_.rank() == 0) {
      for (float& weight : parameters_)
        weight = static_cast<float>(random_() % 2001) * 1e-5F - 0.01F;
    }
    world_.broadcast(parameters_).wait();
    random_.seed(2);  // from here on the same numbers on every rank: they all shuffle alike
  }

  /// One pass over all training rows. The mean loss.
  double epoch() {
    for (std::size_t i = order_.size(); i > 1; --i) std::swap(order_[i - 1], order_[random_() % i]);
    double loss = 0;
    const std::span<const Digit* const> rows(order_);
    for (std::size_t at = 0; at < rows.size(); at += kBatch) {
      loss += step(rows.subspan(at, std::min(kBatch, rows.size() - at)));
    }
    return loss / static_cast<double>(rows.size());
  }

  /// The part of `rows` that the model sees right; each rank looks at its share.
  double accuracy(const std::vector<Digit>& rows) {
    std::int64_t right[] = {0};
    for (auto i = static_cast<std::size_t>(world_.rank()); i < rows.size();
         i += static_cast<std::size_t>(world_.size())) {
      if (predict(parameters_, rows[i]) == rows[i].label) ++right[0];
    }
    world_.all_reduce(right).wait();
    return static_cast<double>(right[0]) / static_cast<double>(rows.size());
  }

  /// Do all ranks hold the same bits?
  bool replicas_are_identical() {
    Parameters of_rank_0 = parameters_;
    world_.broadcast(of_rank_0).wait();
    const auto bytes = parameters_.size() * sizeof(float);
    std::int32_t differs[] = {std::memcmp(of_rank_0.data(), parameters_.data(), bytes) != 0 ? 1
                                                                                            : 0};
    world_.all_reduce(differs, {.op = tutti::ReduceOp::max}).wait();
    return differs[0] == 0;
  }

  /// A number for the bits of the model (FNV-1a), to compare runs.
  [[nodiscard]] std::uint64_t checksum() const {
    std::uint64_t hash = 0xcbf29ce484222325;
    for (const float weight : parameters_) {
      std::uint32_t bits = 0;
      std::memcpy(&bits, &weight, sizeof(bits));
      hash = (hash ^ bits) * 0x100000001b3;
    }
    return hash;
  }

 private:
  /// One step down the slope of one batch, which all ranks share. The batch's summed loss.
  double step(std::span<const Digit* const> batch) {
    for (std::size_t b = 0; b < blocks_.size(); ++b) {
      const std::size_t begin =
          batch.size() * (static_cast<std::size_t>(first_block_) + b) / kBlocks;
      const std::size_t end =
          batch.size() * (static_cast<std::size_t>(first_block_) + b + 1) / kBlocks;
      blocks_[b].assign(kGradient, 0);
      add_gradient(parameters_, batch.subspan(begin, end - begin), blocks_[b]);
    }
    add_pairwise(blocks_);
    Gradient sum = blocks_.empty() ? Gradient(kGradient) : blocks_.front();
    world_.all_reduce(sum).wait();
    const float scale = kLearningRate / static_cast<float>(batch.size());
    for (std::size_t i = 0; i < kParameters; ++i) parameters_[i] -= scale * sum[i];
    return sum[kParameters];
  }

  tutti::ProcessGroup world_;
  std::vector<const Digit*> order_;
  std::mt19937 random_{1};
  int first_block_;
  std::vector<Gradient> blocks_;
  Parameters parameters_ = Parameters(kParameters);
};

int train(const std::filesystem::path& file) {
  const Digits digits = read_digits(file);
  tutti::ProcessGroup world = tutti::init_process_group({.timeout = 60s});
  const bool talks = world.rank() == 0;
  if (talks) {
    std::printf("%d rank(s), %zu rows to train on, %zu held out\n", world.size(),
                digits.train.size(), digits.held_out.size());
  }
  Trainer trainer(world, digits);
  double accuracy = 0;
  for (int epoch = 1; epoch <= kEpochs; ++epoch) {
    const double loss = trainer.epoch();
    if (epoch != 1 && epoch % 10 != 0) continue;
    accuracy = trainer.accuracy(digits.held_out);
    if (talks) std::printf("epoch %2d  loss %.4f  held-out accuracy %.4f\n", epoch, loss, accuracy);
  }
  const bool identical = trainer.replicas_are_identical();
  if (talks) {
    std::printf("all replicas are %sbit-identical, checksum %016llx\n", identical ? "" : "NOT ",
                static_cast<unsigned long long>(trainer.checksum()));
    std::printf("held-out accuracy %.4f\n", accuracy);
    if (accuracy <= kEnough)
      std::fprintf(stderr, "that is too little: more than %.2f is due\n", kEnough);
  }
  return identical && accuracy > kEnough ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return train(argc > 1 ? argv[1] : beside_program());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "digits_training: %s\n", error.what());
    return 1;
  }
}
