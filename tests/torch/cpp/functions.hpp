#pragma once

#include <functional>
#include <string>
#include <vector>

#include <torch/csrc/autograd/autograd.h>
#include <tutti/torch/functions.hpp>

#include "nets.hpp"

// The case of the collectives that autograd sees.

/// A function, its input on this rank and what it must give.
struct FunctionCase {
  std::string name;
  std::function<torch::Tensor(const torch::Tensor&)> call;
  torch::Tensor input;
  torch::Tensor expected;
};

inline torch::Tensor values_of(int rank, int64_t rows, torch::ScalarType dtype) {
  const auto real =
      torch::arange(rows * 3, torch::kDouble).add(1 + 7.5 * rank).sin().view({rows, 3});
  if (dtype != torch::kComplexDouble) return real;
  return torch::complex(real, real.cos());
}

inline std::vector<FunctionCase> function_cases(tutti::torch::ProcessGroup& group,
                                                torch::ScalarType dtype) {
  namespace nn = tutti::torch::nn;
  const int rank = group.rank();
  const int size = group.size();
  const int root = size - 1;
  const int64_t rows = 2 * size;
  const auto block = static_cast<std::size_t>(rank);
  std::vector<torch::Tensor> all;
  std::vector<torch::Tensor> own_blocks;
  for (int r = 0; r < size; ++r) {
    all.push_back(values_of(r, rows, dtype));
    own_blocks.push_back(all.back().chunk(size)[block]);
  }
  const torch::Tensor mine = all[block];
  const torch::Tensor sum = torch::stack(all).sum(0);
  const torch::Tensor together = torch::cat(all);
  const auto nothing = mine.slice(0, 0, 0);
  const auto here = [&](const torch::Tensor& there, const torch::Tensor& elsewhere) {
    return rank == root ? there : elsewhere;
  };
  // Rank s sends s + 1 rows to each rank.
  const std::vector<int64_t> to(static_cast<std::size_t>(size), rank + 1);
  std::vector<int64_t> from;
  std::vector<torch::Tensor> received;
  for (int s = 0; s < size; ++s) {
    from.push_back(s + 1);
    received.push_back(values_of(s, size * (s + 1), dtype).narrow(0, rank * (s + 1), s + 1));
  }
  using torch::Tensor;
  return {
      {"all_reduce", [&](const Tensor& x) { return nn::all_reduce(group, x); }, mine, sum},
      {"average", [&](const Tensor& x) { return nn::all_reduce(group, x, tutti::ReduceOp::avg); },
       mine, sum / size},
      {"broadcast", [&, root](const Tensor& x) { return nn::broadcast(group, x, root); }, mine,
       all[static_cast<std::size_t>(root)]},
      {"reduce", [&, root](const Tensor& x) { return nn::reduce(group, x, root); }, mine,
       here(sum, torch::zeros_like(sum))},
      {"all_gather", [&](const Tensor& x) { return nn::all_gather_single(group, x); }, mine,
       together},
      {"all_gather_list", [&](const Tensor& x) { return torch::stack(nn::all_gather(group, x)); },
       mine, torch::stack(all)},
      {"gather", [&, root](const Tensor& x) { return nn::gather(group, x, root); }, mine,
       here(together, nothing)},
      {"scatter", [&, root](const Tensor& x) { return nn::scatter(group, x, 2, root); },
       here(mine, nothing), all[static_cast<std::size_t>(root)].chunk(size)[block]},
      {"reduce_scatter", [&](const Tensor& x) { return nn::reduce_scatter_single(group, x); }, mine,
       sum.chunk(size)[block]},
      {"reduce_scatter average",
       [&](const Tensor& x) { return nn::reduce_scatter_single(group, x, tutti::ReduceOp::avg); },
       mine, sum.chunk(size)[block] / size},
      {"all_to_all", [&](const Tensor& x) { return nn::all_to_all_single(group, x); }, mine,
       torch::cat(own_blocks)},
      {"all_to_all splits",
       [&group, from, to](const Tensor& x) { return nn::all_to_all_single(group, x, from, to); },
       values_of(rank, size * (rank + 1), dtype), torch::cat(received)},
  };
}

/// The inner product of all ranks' values.
inline torch::Tensor product(tutti::torch::ProcessGroup& group, const torch::Tensor& one,
                             const torch::Tensor& other) {
  auto all = torch::real(torch::vdot(one.flatten(), other.flatten())).clone();
  group.all_reduce(all).wait();
  return all;
}

/// The gradient of a function, for this gradient of its output.
inline torch::Tensor pulled_back(const FunctionCase& one, const torch::Tensor& gradient) {
  const auto input = one.input.clone().requires_grad_();
  return torch::autograd::grad({one.call(input)}, {input}, {gradient})[0];
}

inline void check_functions(tutti::torch::ProcessGroup& group, torch::ScalarType dtype) {
  for (const FunctionCase& one : function_cases(group, dtype)) {
    const auto input = one.input.clone().requires_grad_();
    const auto output = one.call(input);
    check(output.sizes() == one.expected.sizes(), one.name + ": sizes");
    if (output.numel() > 0) check_close(output.detach(), one.expected, one.name);
    // The map of the gradients is the transposed one, exactly if this holds for any values.
    const auto weights =
        values_of(group.rank() + 20, output.numel() / 3, dtype).view(output.sizes());
    const auto gradient = pulled_back(one, weights);
    check_close(product(group, weights, output.detach()), product(group, gradient, one.input),
                one.name + ": backward");
    // The gradient of |F x|^2 is g = 2 F'F x; that of |g|^2 is 4 F'F g.
    const auto first = torch::autograd::grad({torch::real(output * output.conj()).sum()}, {input},
                                             {}, true, true)[0];
    const auto second =
        torch::autograd::grad({torch::real(first * first.conj()).sum()}, {input})[0];
    const auto again = pulled_back(one, one.call(first.detach()));
    if (again.numel() > 0) check_close(second, 4 * again, one.name + ": double backward", 1e-10);
  }
}

inline void functions(tutti::torch::ProcessGroup& group) {
  namespace nn = tutti::torch::nn;
  check_functions(group, torch::kDouble);
  check_functions(group, torch::kComplexDouble);
  const int rank = group.rank();
  const int size = group.size();
  const auto weights = [&](int r) { return values_of(r, 2 * size, torch::kDouble); };
  auto sum = torch::zeros({2, 3}, torch::kDouble);
  for (int r = 0; r < size; ++r) sum += weights(r).narrow(0, 2 * rank, 2);
  for (const auto backward : {nn::GatherBackward::own, nn::GatherBackward::avg}) {
    const FunctionCase one{
        "all_gather",
        [&](const torch::Tensor& x) { return nn::all_gather_single(group, x, backward); },
        values_of(rank, 2, torch::kDouble),
        {}};
    const bool own = backward == nn::GatherBackward::own;
    check_close(pulled_back(one, weights(rank)),
                own ? weights(rank).narrow(0, 2 * rank, 2) : sum / size, "backward by option");
  }
  check_throws<c10::ValueError>([&] { (void)nn::all_reduce(group, sum, tutti::ReduceOp::max); },
                                {"nn::all_reduce", "avg"});
  check_throws<c10::ValueError>([&] { (void)nn::scatter(group, sum, 5); }, {"nn::scatter", "5"});
}
