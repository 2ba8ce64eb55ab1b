#pragma once

#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>
#include <tutti/torch/distributed_data_parallel.hpp>

// Networks, batches and checks that the cases of torch_checks share.

using torch::Tensor;
using tutti::torch::DataParallelOptions;
using tutti::torch::DistributedDataParallel;
using tutti::torch::ProcessGroup;

inline void check(bool holds, const std::string& what) {
  if (!holds) throw std::runtime_error(what);
}

/// Runs `call`, which must throw an Exception whose text has all these words.
template <class Exception, class Call>
void check_throws(const Call& call, const std::vector<std::string>& words) {
  try {
    call();
  } catch (const Exception& error) {
    const std::string text = error.what_without_backtrace();
    for (const std::string& word : words)
      check(text.find(word) != std::string::npos, "no '" + word + "' in: " + text);
    return;
  }
  throw std::runtime_error("nothing was thrown");
}

/// Three layers of float64, so that sums in another order differ by little.
struct Layers : torch::nn::Module {
  explicit Layers(int64_t hidden = 64)
      : first(register_module("first", torch::nn::Linear(16, hidden))),
        second(register_module("second", torch::nn::Linear(hidden, hidden))),
        third(register_module("third", torch::nn::Linear(hidden, 1))) {
    to(torch::kDouble);
  }
  Tensor forward(const Tensor& x) {
    hidden_output = torch::tanh(first(x));
    return third(torch::tanh(second(hidden_output)));
  }
  torch::nn::Linear first;
  torch::nn::Linear second;
  torch::nn::Linear third;
  Tensor hidden_output;  ///< its gradient is known when first's are not
};

/// The same on all ranks.
inline std::shared_ptr<Layers> same_layers() {
  torch::manual_seed(3);
  return std::make_shared<Layers>();
}

/// The layer that is used last is registered first, so that the buckets' first order is the wrong
/// one.
struct Turned : torch::nn::Module {
  Turned() { to(torch::kDouble); }
  Tensor forward(const Tensor& x) { return late(torch::tanh(early(x))); }
  torch::nn::Linear late{register_module("late", torch::nn::Linear(64, 1))};
  torch::nn::Linear early{register_module("early", torch::nn::Linear(16, 64))};
};

/// A branch that only some ranks take, and one that none takes.
struct Branches : torch::nn::Module {
  Branches() { to(torch::kDouble); }
  Tensor forward(const Tensor& x, bool left_only) {
    const auto y = stem(x);
    return left_only ? left(y) : left(y) + right(y);
  }
  torch::nn::Linear stem{register_module("stem", torch::nn::Linear(16, 4))};
  torch::nn::Linear left{register_module("left", torch::nn::Linear(4, 1))};
  torch::nn::Linear right{register_module("right", torch::nn::Linear(4, 1))};
  torch::nn::Linear idle{register_module("idle", torch::nn::Linear(4, 1))};
};

/// A buffer that each forward changes.
struct Counting : torch::nn::Module {
  Counting() { to(torch::kDouble); }
  Tensor forward(const Tensor& x, double step) {
    seen.add_(step);
    return layer(x);
  }
  torch::nn::Linear layer{register_module("layer", torch::nn::Linear(16, 1))};
  Tensor seen{register_buffer("seen", torch::zeros({3}, torch::kDouble))};
};

inline Tensor whole_batch() {
  return torch::linspace(-1, 1, 24 * 16, torch::kDouble).sin().mul(7).cos().view({24, 16});
}

inline Tensor loss_of(const Tensor& output, const Tensor& batch) {
  return (output - batch.pow(2).mean(1, true)).pow(2).mean();
}

/// The rows of a rank, as many for each.
inline Tensor share(const Tensor& batch, int rank, int size) {
  return batch.chunk(size)[static_cast<std::size_t>(rank)];
}

/// All parameters in a row.
inline Tensor flat(const std::vector<Tensor>& tensors) {
  std::vector<Tensor> parts;
  for (const Tensor& tensor : tensors) parts.push_back(tensor.detach().reshape({-1}));
  return torch::cat(parts);
}

inline Tensor gradients(const torch::nn::Module& module) {
  std::vector<Tensor> all;
  for (const Tensor& parameter : module.parameters()) all.push_back(parameter.grad());
  return flat(all);
}

/// The same bits on all ranks.
inline void check_identical(ProcessGroup& group, const Tensor& mine) {
  auto all = torch::empty({group.size(), mine.numel()}, mine.options());
  group.all_gather(all, mine.contiguous()).wait();
  for (int rank = 0; rank < group.size(); ++rank)
    check(all[rank].equal(all[0]), "rank " + std::to_string(rank) + " differs from rank 0");
}

inline void check_close(const Tensor& ours, const Tensor& expected, const std::string& what,
                        double tolerance = 1e-12) {
  const double apart = (ours - expected).abs().max().item<double>();
  check(apart <= tolerance, what + ": " + std::to_string(apart * 1e12) + "e-12 apart");
}

/// Small buckets, so that a small network has several.
inline DataParallelOptions small_buckets(bool static_graph = false) {
  return {.first_bucket_bytes = 512, .bucket_bytes = 4096, .static_graph = static_graph};
}

inline std::vector<int> all_ranks(const ProcessGroup& group) {
  std::vector<int> ranks(static_cast<std::size_t>(group.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}
