// A small residual network and a small transformer, trained with DistributedDataParallel. All begin
// with weights that follow a rule, so ../08_models.py, which trains the same in Python, comes to
// the same losses. Each step prints its loss; at the end all replicas must be equal to the last
// bit.
//
//   tuttirun --nproc-per-node 2 models

#include <cmath>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>

#include <torch/nn/functional/activation.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/optim/sgd.h>
#include <tutti/torch/distributed_data_parallel.hpp>

namespace {

namespace nn = torch::nn;
using torch::Tensor;
using tutti::torch::ProcessGroup;

constexpr int64_t kSteps = 10;
constexpr int64_t kBatch = 4;  // on each rank
constexpr int64_t kClasses = 5;
constexpr int64_t kWords = 11;
constexpr int64_t kLength = 7;
constexpr int64_t kWidth = 16;
constexpr int64_t kHeads = 2;

/// Numbers between -1 and 1 that a seed decides.
Tensor waves(torch::IntArrayRef shape, double seed) {
  const int64_t count = c10::multiply_integers(shape);
  return (torch::arange(count, torch::kDouble) * 1.7 + seed).sin().view(shape);
}

/// The rule of the weights. Vectors are those of norms, and biases.
void begin(nn::Module& net) {
  net.to(torch::kDouble);
  const torch::NoGradGuard no_grad;
  for (auto& item : net.named_parameters()) {
    Tensor& weight = item.value();
    double seed = 0;
    for (const char letter : item.key()) seed = seed * 1.1 + letter;
    if (weight.dim() > 1)
      weight.copy_(waves(weight.sizes(), seed) *
                   std::sqrt(3.0 * static_cast<double>(weight.size(0)) /
                             static_cast<double>(weight.numel())));
    else
      weight.fill_(item.key().ends_with("weight") ? 1 : 0);
  }
}

nn::Conv2d conv(int64_t from, int64_t to, int64_t kernel, int64_t stride) {
  return nn::Conv2d(
      nn::Conv2dOptions(from, to, kernel).stride(stride).padding(kernel / 2).bias(false));
}

/// Two convolutions and a way around them.
struct Block : nn::Module {
  Block(int64_t from, int64_t to, int64_t stride)
      : conv1(register_module("conv1", conv(from, to, 3, stride))),
        norm1(register_module("norm1", nn::BatchNorm2d(to))),
        conv2(register_module("conv2", conv(to, to, 3, 1))),
        norm2(register_module("norm2", nn::BatchNorm2d(to))),
        around(register_module("around", conv(from, to, 1, stride))) {}
  Tensor forward(const Tensor& x) {
    const Tensor inner = norm2(conv2(torch::relu(norm1(conv1(x)))));
    return torch::relu(inner + around(x));
  }
  nn::Conv2d conv1;
  nn::BatchNorm2d norm1;
  nn::Conv2d conv2;
  nn::BatchNorm2d norm2;
  nn::Conv2d around;
};

struct ResidualNet : nn::Module {
  Tensor forward(const Tensor& x) {
    const Tensor stem = torch::relu(norm(first(x)));
    return last(block2->forward(block1->forward(stem)).mean({2, 3}));
  }
  nn::Conv2d first{register_module("first", conv(3, 8, 3, 1))};
  nn::BatchNorm2d norm{register_module("norm", nn::BatchNorm2d(8))};
  std::shared_ptr<Block> block1{register_module("block1", std::make_shared<Block>(8, 8, 1))};
  std::shared_ptr<Block> block2{register_module("block2", std::make_shared<Block>(8, 16, 2))};
  nn::Linear last{register_module("last", nn::Linear(16, kClasses))};
};

/// Attention to what came before, and two linear layers, each with a way around it.
struct Layer : nn::Module {
  Tensor forward(const Tensor& x) {
    const auto parts = mix(norm1(x)).chunk(3, -1);
    const auto heads = [&](const Tensor& part) {
      return part.view({x.size(0), kLength, kHeads, kWidth / kHeads}).transpose(1, 2);
    };
    const Tensor scores =
        heads(parts[0]).matmul(heads(parts[1]).transpose(2, 3)) / std::sqrt(kWidth / kHeads);
    const Tensor later = torch::ones({kLength, kLength}, torch::kBool).triu(1);
    const Tensor weights = torch::softmax(scores.masked_fill(later, -INFINITY), -1);
    const Tensor seen = weights.matmul(heads(parts[2])).transpose(1, 2).reshape(x.sizes());
    const Tensor y = x + out(seen);
    return y + down(torch::gelu(up(norm2(y))));
  }
  nn::LayerNorm norm1{register_module("norm1", nn::LayerNorm(nn::LayerNormOptions({kWidth})))};
  nn::Linear mix{register_module("mix", nn::Linear(kWidth, 3 * kWidth))};
  nn::Linear out{register_module("out", nn::Linear(kWidth, kWidth))};
  nn::LayerNorm norm2{register_module("norm2", nn::LayerNorm(nn::LayerNormOptions({kWidth})))};
  nn::Linear up{register_module("up", nn::Linear(kWidth, 4 * kWidth))};
  nn::Linear down{register_module("down", nn::Linear(4 * kWidth, kWidth))};
};

struct Transformer : nn::Module {
  /// The scores of the next word at each place.
  Tensor forward(const Tensor& words) {
    const Tensor x = word(words) + place(torch::arange(kLength));
    return last(norm(layer2->forward(layer1->forward(x)))).flatten(0, 1);
  }
  nn::Embedding word{register_module("word", nn::Embedding(kWords, kWidth))};
  nn::Embedding place{register_module("place", nn::Embedding(kLength, kWidth))};
  std::shared_ptr<Layer> layer1{register_module("layer1", std::make_shared<Layer>())};
  std::shared_ptr<Layer> layer2{register_module("layer2", std::make_shared<Layer>())};
  nn::LayerNorm norm{register_module("norm", nn::LayerNorm(nn::LayerNormOptions({kWidth})))};
  nn::Linear last{register_module("last", nn::Linear(kWidth, kWords))};
};

/// The data that a rank trains on in a step.
struct Batch {
  Tensor inputs;
  Tensor classes;
};

Batch pictures(int64_t number) {
  const Tensor rows = torch::arange(kBatch) + number * kBatch;
  const auto seed = static_cast<double>(number);
  return {waves({kBatch, 3, 10, 10}, seed) + rows.remainder(kClasses).view({-1, 1, 1, 1}),
          rows.remainder(kClasses)};
}

Batch sentences(int64_t number) {
  const Tensor begins = (torch::arange(kBatch) + number * kBatch).view({-1, 1});
  const Tensor words = (begins + torch::arange(kLength + 1) * (begins % 3 + 1)).remainder(kWords);
  return {words.slice(1, 0, kLength), words.slice(1, 1).flatten()};
}

template <class Net>
void train(ProcessGroup& group, const char* name, Batch (*batch_of)(int64_t number), double rate) {
  const auto net = std::make_shared<Net>();
  begin(*net);
  tutti::torch::DistributedDataParallel<Net> model(
      net, group, {.first_bucket_bytes = 4096, .bucket_bytes = 16384});
  torch::optim::SGD optimizer(model.parameters(), torch::optim::SGDOptions(rate).momentum(0.9));
  for (int64_t step = 0; step < kSteps; ++step) {
    const Batch batch = batch_of(step * group.size() + group.rank());
    Tensor loss = nn::functional::cross_entropy(model(batch.inputs), batch.classes);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    loss = loss.detach();
    group.all_reduce(loss, {.op = tutti::ReduceOp::avg}).wait();
    if (group.rank() == 0)
      std::printf("%s %d %.12f\n", name, static_cast<int>(step), loss.item<double>());
  }
  // The smallest and the largest of all ranks are the same.
  for (const Tensor& parameter : net->parameters()) {
    Tensor least = parameter.detach().clone();
    Tensor most = least.clone();
    group.all_reduce(least, {.op = tutti::ReduceOp::min}).wait();
    group.all_reduce(most, {.op = tutti::ReduceOp::max}).wait();
    if (!least.equal(most)) throw std::runtime_error(std::string(name) + ": replicas differ");
  }
}

}  // namespace

int main() {
  auto group = tutti::torch::init_process_group();
  if (group.rank() == 0)
    std::printf("%d ranks, %d steps\n", group.size(), static_cast<int>(kSteps));
  train<ResidualNet>(group, "residual", pictures, 0.05);
  train<Transformer>(group, "transformer", sentences, 0.02);
  return 0;
}
