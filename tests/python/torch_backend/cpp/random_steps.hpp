#pragma once

#include <cstddef>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "nets.hpp"
#include "support/rotation.hpp"

// The case of random steps: which branches a rank uses, what stays under no_sync, and the options.

/// Some branches behind a layer that is always used; `used` has a bit for each.
struct ManyBranches : torch::nn::Module {
  ManyBranches() {
    for (int k = 0; k < 4; ++k)
      branches.push_back(register_module("branch" + std::to_string(k), torch::nn::Linear(4, 1)));
    to(torch::kDouble);
  }
  Tensor forward(const Tensor& x, unsigned used) {
    const auto y = stem(x);
    auto sum = y.sum(1, true);
    for (std::size_t k = 0; k < branches.size(); ++k)
      if ((used >> k & 1U) != 0) sum = sum + branches[k](y);
    return sum;
  }
  torch::nn::Linear stem{register_module("stem", torch::nn::Linear(16, 4))};
  std::vector<torch::nn::Linear> branches;
};

/// The same draws on all ranks from `shared`, other ones on each rank from `own`.
struct Draws {
  std::mt19937 shared;
  std::mt19937 own;
  unsigned of_all(unsigned count) { return static_cast<unsigned>(shared() % count); }
  unsigned of_rank(unsigned count) { return static_cast<unsigned>(own() % count); }
};

/// What the gradients of this rank must become, from what each rank had and has used.
inline std::vector<Tensor> averaged(ProcessGroup& group, const ManyBranches& net,
                                    const std::vector<Tensor>& before, unsigned used) {
  std::vector<Tensor> expected;
  for (const auto& item : net.named_parameters()) {
    const auto& gradient = item.value().grad();
    auto mean = gradient.defined() ? gradient.clone() : torch::zeros_like(item.value());
    group.all_reduce(mean, {.op = tutti::ReduceOp::avg}).wait();
    const bool mine = item.key().starts_with("stem") || (used >> (item.key()[6] - '0') & 1U) != 0;
    auto anyone = torch::full({1}, mine ? 1 : 0);
    group.all_reduce(anyone, {.op = tutti::ReduceOp::max}).wait();
    expected.push_back(anyone.item<int64_t>() == 1 ? mean.detach() : before[expected.size()]);
  }
  return expected;
}

/// Some steps of a model with random options, each beside a model that does not communicate.
inline void random_training(ProcessGroup& group, Draws& draws) {
  DataParallelOptions options;
  options.first_bucket_bytes = 1 + draws.of_all(200);
  options.bucket_bytes = 1 + draws.of_all(800);
  options.static_graph = draws.of_all(2) == 1;
  options.find_unused_parameters = !options.static_graph || draws.of_all(2) == 1;
  options.gradient_as_bucket_view = draws.of_all(2) == 1;
  const auto net = std::make_shared<ManyBranches>();
  DistributedDataParallel<ManyBranches> model(net, group, options);
  ManyBranches alone;
  const Tensor batch = share(whole_batch(), group.rank(), group.size());
  const unsigned fixed = draws.of_rank(16);
  const auto mask = [&] { return options.static_graph ? fixed : draws.of_rank(16); };
  for (unsigned step = 0; step < 4; ++step) {
    if (const unsigned how = draws.of_all(3); how > 0) model.zero_grad(how == 1);
    std::vector<Tensor> before;
    for (std::size_t k = 0; k < net->parameters().size(); ++k) {
      const torch::NoGradGuard no_grad;
      const auto& gradient = net->parameters()[k].grad();
      before.push_back(gradient.defined() ? gradient.detach().clone() : Tensor());
      auto copy = alone.parameters()[k];
      copy.copy_(net->parameters()[k]);
      copy.mutable_grad() = gradient.defined() ? gradient.detach().clone() : Tensor();
    }
    unsigned used = 0;
    const auto run = [&](unsigned branches) {
      used |= branches;
      model(batch, branches).pow(2).sum().backward();
      alone.forward(batch, branches).pow(2).sum().backward();
    };
    for (unsigned apart = draws.of_all(3); apart > 0; --apart) {
      const auto unshared = model.no_sync();
      run(mask());
    }
    run(mask());
    const auto expected = averaged(group, alone, before, used);
    for (std::size_t k = 0; k < expected.size(); ++k) {
      const auto& found = net->parameters()[k].grad();
      const std::string name = "gradient " + std::to_string(k) + " of step " + std::to_string(step);
      check(found.defined() == expected[k].defined(), name + " is there, or is not");
      if (!found.defined()) continue;
      check_close(found, expected[k], name, 1e-9);
      check_identical(group, found);
    }
    const torch::NoGradGuard no_grad;
    for (auto& parameter : net->parameters())
      if (parameter.grad().defined()) parameter.sub_(parameter.grad(), 1e-4);
  }
}

inline void random_steps(ProcessGroup& group) {
  const unsigned count = tutti::test::long_tests() ? 200 : 20;
  const auto first = static_cast<unsigned>(tutti::test::rotation() % 10'000) * count;
  for (unsigned seed = first; seed < first + count; ++seed) {
    Draws draws{std::mt19937(seed),
                std::mt19937(1000 * seed + static_cast<unsigned>(group.rank()))};
    try {
      random_training(group, draws);
    } catch (const std::exception& problem) {
      throw std::runtime_error("seed " + std::to_string(seed) + ": " + problem.what());
    }
  }
}
