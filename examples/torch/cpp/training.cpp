// Training by hand, without DistributedDataParallel: a linear model whose gradients are averaged,
// its metrics, a contrastive loss over the pairs of all ranks, and three layers that autograd sees.
// Each result is compared with that of one process that has the rows of all ranks.
//
//   tuttirun --nproc-per-node 4 training

#include <cstdio>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/functional/normalization.h>
#include <torch/nn/modules/linear.h>
#include <tutti/torch/process_group.hpp>

namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::grad;
using torch::autograd::variable_list;
using tutti::torch::ProcessGroup;
namespace F = torch::nn::functional;

constexpr int64_t kRows = 12;  // on each rank

ProcessGroup* world = nullptr;  // for the functions of autograd, which are static

void check_close(const Tensor& ours, const Tensor& expected, const char* what) {
  const double apart = (ours - expected).abs().max().item<double>();
  if (!(apart < 1e-10)) throw std::runtime_error(what + (": apart by " + std::to_string(apart)));
}

/// The rows of all ranks; each rank makes all of them, and takes its own.
Tensor drawn(std::uint64_t seed, int64_t columns) {
  torch::manual_seed(seed);
  return torch::randn({world->size() * kRows, columns}, torch::kDouble);
}

Tensor own_rows(const Tensor& rows) { return rows.chunk(world->size())[world->rank()]; }

/// The rows of all ranks, without a graph.
Tensor gathered(const Tensor& x) {
  const torch::NoGradGuard no_grad;
  Tensor rows = torch::empty({world->size() * x.size(0), x.size(1)}, x.options());
  world->all_gather(rows, x.contiguous()).wait();
  return rows;
}

Tensor reduced(const Tensor& x, tutti::ReduceOp op) {
  Tensor result = x.detach().clone(at::MemoryFormat::Contiguous);
  world->all_reduce(result, {.op = op}).wait();
  return result;
}

/// For a loss that all ranks compute alike: each takes its own rows of the gradient.
struct GatherForSameLoss : torch::autograd::Function<GatherForSameLoss> {
  static Tensor forward(AutogradContext*, const Tensor& x) { return gathered(x); }
  static variable_list backward(AutogradContext*, const variable_list& gradients) {
    return {own_rows(gradients[0]).clone()};
  }
};

/// For losses that differ: the gradients of all ranks are added up.
struct GatherForOwnLoss : torch::autograd::Function<GatherForOwnLoss> {
  static Tensor forward(AutogradContext*, const Tensor& x) { return gathered(x); }
  static variable_list backward(AutogradContext*, const variable_list& gradients) {
    return {own_rows(reduced(gradients[0], tutti::ReduceOp::sum)).clone()};
  }
};

/// An average that all ranks use; so do their gradients.
struct MeanOverRanks : torch::autograd::Function<MeanOverRanks> {
  static Tensor forward(AutogradContext*, const Tensor& x) {
    return reduced(x, tutti::ReduceOp::avg);
  }
  static variable_list backward(AutogradContext*, const variable_list& gradients) {
    return {reduced(gradients[0], tutti::ReduceOp::avg)};
  }
};

torch::nn::Linear made_linear(int64_t inputs, int64_t outputs) {
  torch::manual_seed(5);
  torch::nn::Linear layer(inputs, outputs);
  layer->to(torch::kDouble);
  return layer;
}

/// Gradient descent of a linear model on this rank's rows, and beside it on all of them.
void linear_model() {
  const Tensor x = drawn(1, 3);
  const Tensor wanted = x.sum(1, true) * 2 + 1;
  torch::nn::Linear model = made_linear(3, 1);
  torch::nn::Linear alone = made_linear(3, 1);
  const auto descend = [](torch::nn::Linear& layer, const Tensor& inputs, const Tensor& targets,
                          const std::function<Tensor(const Tensor&)>& average) {
    const Tensor loss = torch::mse_loss(layer(inputs), targets);
    const auto parameters = layer->parameters();
    const variable_list gradients = grad({loss}, parameters);
    const torch::NoGradGuard no_grad;
    for (std::size_t i = 0; i < parameters.size(); ++i)
      parameters[i].sub_(average(gradients[i]), 0.3);
    return loss.detach();
  };
  Tensor mine;
  Tensor all;
  for (int step = 0; step < 60; ++step) {
    mine = descend(model, own_rows(x), own_rows(wanted),
                   [](const Tensor& one) { return reduced(one, tutti::ReduceOp::avg); });
    all = descend(alone, x, wanted, [](const Tensor& one) { return one; });
  }
  check_close(model->weight, alone->weight, "the weights of the linear model");
  check_close(model->bias, alone->bias, "the bias of the linear model");
  check_close(reduced(mine, tutti::ReduceOp::avg), all, "the loss of the linear model");

  // Metrics: sums and counts of all ranks, gathered without a graph.
  const torch::NoGradGuard no_grad;
  const Tensor apart = (model(own_rows(x)) - own_rows(wanted)).abs();
  const Tensor counts = torch::stack({apart.lt(0.01).sum().to(torch::kDouble), apart.sum()});
  const Tensor sums = gathered(counts.view({1, 2})).sum(0);
  const Tensor whole = (alone(x) - wanted).abs();
  check_close(sums, torch::stack({whole.lt(0.01).sum().to(torch::kDouble), whole.sum()}),
              "the metrics");
}

/// Row i of one view belongs to row i of the other.
Tensor contrast(const Tensor& left, const Tensor& right) {
  const Tensor scores = left.mm(right.t()) / 0.2;
  return F::cross_entropy(scores, torch::arange(left.size(0)));
}

/// The embeddings of all ranks, the own ones alive in their slot.
void contrastive_loss() {
  const Tensor rows = drawn(2, 6);
  const Tensor noise = drawn(3, 6);
  torch::nn::Linear model = made_linear(6, 4);
  const auto embed = [&](const Tensor& x) {
    return F::normalize(model(x), F::NormalizeFuncOptions().dim(1));
  };
  const auto of_all_ranks = [](const Tensor& mine) {
    std::vector<Tensor> parts = gathered(mine).chunk(world->size());
    parts[static_cast<std::size_t>(world->rank())] = mine;
    return torch::cat(parts);
  };
  const Tensor loss = contrast(of_all_ranks(embed(own_rows(rows))),
                               of_all_ranks(embed(own_rows(rows + 0.1 * noise))));
  const Tensor whole = contrast(embed(rows), embed(rows + 0.1 * noise));
  check_close(loss, whole, "the contrastive loss");
  // Each rank has the gradient of its own rows; their sum is the whole one.
  check_close(reduced(grad({loss}, {model->weight})[0], tutti::ReduceOp::sum),
              grad({whole}, {model->weight})[0], "the gradient of the contrastive loss");
}

Tensor similarity(const Tensor& rows, const Tensor& others) {
  return rows.mm(others.t()).sigmoid().square().sum();
}

/// Columns with mean 0 and variance 1 over the rows of all ranks.
Tensor standardised(const Tensor& x, const std::function<Tensor(const Tensor&)>& mean_of) {
  const Tensor centred = x - mean_of(x.mean(0));
  return centred / (mean_of(centred.square().mean(0)) + 1e-5).sqrt();
}

void layers() {
  const Tensor all = drawn(4, 4).requires_grad_();
  const Tensor x = own_rows(all).detach().clone().requires_grad_();
  const auto check = [&](const Tensor& ours, const Tensor& whole, const char* what) {
    check_close(grad({ours}, {x})[0], own_rows(grad({whole}, {all})[0]), what);
  };
  const Tensor rows = GatherForSameLoss::apply(x);
  check(similarity(rows, rows), similarity(all, all), "rows gathered for one loss");
  check(similarity(x, GatherForOwnLoss::apply(x)), similarity(all, all),
        "rows gathered for a loss on each rank");
  const Tensor output =
      standardised(x, [](const Tensor& mean) { return MeanOverRanks::apply(mean); });
  const Tensor whole = standardised(all, [](const Tensor& mean) { return mean; });
  check_close(output, own_rows(whole), "standardised columns");
  check(output.pow(3).sum(), whole.pow(3).sum(), "the gradient of standardised columns");
}

}  // namespace

int main() {
  auto group = tutti::torch::init_process_group();
  world = &group;
  linear_model();
  contrastive_loss();
  layers();
  if (group.rank() == 0)
    std::printf("%d ranks: the results of one process with all rows\n", group.size());
  return 0;
}
