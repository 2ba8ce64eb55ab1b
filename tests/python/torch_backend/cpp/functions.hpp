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
  std::function<Tensor(const Tensor&)> call;
  Tensor input;
  Tensor expected;
};

inline Tensor values_like(int rank, at::IntArrayRef sizes, torch::ScalarType dtype) {
  const auto count = c10::multiply_integers(sizes);
  const auto real = torch::arange(count, torch::kDouble).add(1 + 7.5 * rank).sin().view(sizes);
  if (dtype != torch::kComplexDouble) return real;
  return torch::complex(real, real.cos());
}

inline Tensor values_of(int rank, int64_t rows, torch::ScalarType dtype) {
  return values_like(rank, {rows, 3}, dtype);
}

/// What the rank sends to each by all_to_all: matrices of a shape for each pair.
inline std::vector<Tensor> matrices(const Tensor& values, int rank, int size) {
  std::vector<Tensor> parts;
  int64_t begin = 0;
  for (int to = 0; to < size; ++to) {
    const int64_t rows = 1 + rank % 2;
    const int64_t columns = 1 + to % 3;
    parts.push_back(values.flatten().narrow(0, begin, rows * columns).view({rows, columns}));
    begin += rows * columns;
  }
  return parts;
}

inline Tensor row_of(const std::vector<Tensor>& tensors) {
  std::vector<Tensor> parts;
  for (const Tensor& tensor : tensors) parts.push_back(tensor.flatten());
  return torch::cat(parts);
}

inline std::vector<FunctionCase> function_cases(ProcessGroup& group, torch::ScalarType dtype) {
  namespace nn = tutti::torch::nn;
  const int rank = group.rank();
  const int size = group.size();
  const int root = size - 1;
  const int64_t rows = 2 * size;
  const auto block = static_cast<std::size_t>(rank);
  std::vector<Tensor> all;
  std::vector<Tensor> own_blocks;
  for (int r = 0; r < size; ++r) {
    all.push_back(values_of(r, rows, dtype));
    own_blocks.push_back(all.back().chunk(size)[block]);
  }
  const Tensor mine = all[block];
  const Tensor sum = torch::stack(all).sum(0);
  const Tensor together = torch::cat(all);
  const auto nothing = mine.slice(0, 0, 0);
  const auto here = [&](const Tensor& there, const Tensor& elsewhere) {
    return rank == root ? there : elsewhere;
  };
  // Rank s sends s + 1 rows to each rank.
  const std::vector<int64_t> to(static_cast<std::size_t>(size), rank + 1);
  std::vector<int64_t> from;
  std::vector<Tensor> received;
  for (int s = 0; s < size; ++s) {
    from.push_back(s + 1);
    received.push_back(values_of(s, size * (s + 1), dtype).narrow(0, rank * (s + 1), s + 1));
  }
  // Matrix s of rank r has 1 + r % 2 rows and 1 + s % 3 columns.
  std::vector<std::vector<int64_t>> shapes;
  std::vector<Tensor> sent_here;
  for (int s = 0; s < size; ++s) {
    shapes.push_back({1 + s % 2, 1 + rank % 3});
    sent_here.push_back(matrices(all[static_cast<std::size_t>(s)], s, size)[block]);
  }
  std::vector<Tensor> totals;
  for (const Tensor& one : all) totals.push_back(one.sum());
  return {
      {"all_reduce", [&](const Tensor& x) { return nn::all_reduce(group, x); }, mine, sum},
      {"average", [&](const Tensor& x) { return nn::all_reduce(group, x, tutti::ReduceOp::avg); },
       mine, sum / size},
      {"broadcast", [&, root](const Tensor& x) { return nn::broadcast(group, x, root); }, mine,
       all[static_cast<std::size_t>(root)]},
      {"reduce", [&, root](const Tensor& x) { return nn::reduce(group, x, root); }, mine,
       here(sum, torch::zeros_like(sum))},
      {"reduce average",
       [&, root](const Tensor& x) { return nn::reduce(group, x, root, tutti::ReduceOp::avg); },
       mine, here(sum / size, torch::zeros_like(sum))},
      {"all_gather", [&](const Tensor& x) { return nn::all_gather_single(group, x); }, mine,
       together},
      {"all_gather_list", [&](const Tensor& x) { return torch::stack(nn::all_gather(group, x)); },
       mine, torch::stack(all)},
      {"all_gather of numbers",
       [&](const Tensor& x) { return torch::stack(nn::all_gather(group, x.sum())); }, mine,
       torch::stack(totals)},
      {"gather", [&, root](const Tensor& x) { return nn::gather_single(group, x, root); }, mine,
       here(together, nothing)},
      {"gather_list",
       [&, root](const Tensor& x) { return torch::stack(nn::gather(group, x, root)); }, mine,
       here(torch::stack(all), torch::zeros_like(torch::stack(all)))},
      {"scatter", [&, root](const Tensor& x) { return nn::scatter_single(group, x, 2, root); },
       here(mine, nothing), all[static_cast<std::size_t>(root)].chunk(size)[block]},
      {"scatter_list",
       [&, root, size](const Tensor& x) { return nn::scatter(group, x.chunk(size), root); }, mine,
       all[static_cast<std::size_t>(root)].chunk(size)[block]},
      {"reduce_scatter_list",
       [&, size](const Tensor& x) { return nn::reduce_scatter(group, x.chunk(size)); }, mine,
       sum.chunk(size)[block]},
      {"reduce_scatter_list average",
       [&, size](const Tensor& x) {
         return nn::reduce_scatter(group, x.chunk(size), tutti::ReduceOp::avg);
       },
       mine, sum.chunk(size)[block] / size},
      {"all_to_all_list",
       [&, size](const Tensor& x) { return torch::cat(nn::all_to_all(group, x.chunk(size))); },
       mine, torch::cat(own_blocks)},
      {"all_to_all_list shapes",
       [&, rank, size, shapes](const Tensor& x) {
         return row_of(nn::all_to_all(group, matrices(x, rank, size), shapes));
       },
       mine, row_of(sent_here)},
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
inline Tensor product(ProcessGroup& group, const Tensor& one, const Tensor& other) {
  auto all = torch::real(torch::vdot(one.flatten(), other.flatten())).clone();
  group.all_reduce(all).wait();
  return all;
}

/// The gradient of a function, for this gradient of its output.
inline Tensor pulled_back(const FunctionCase& one, const Tensor& gradient) {
  const auto input = one.input.clone().requires_grad_();
  return torch::autograd::grad({one.call(input)}, {input}, {gradient})[0];
}

inline void check_functions(ProcessGroup& group, torch::ScalarType dtype) {
  for (const FunctionCase& one : function_cases(group, dtype)) {
    const auto input = one.input.clone().requires_grad_();
    const auto output = one.call(input);
    check(output.sizes() == one.expected.sizes(), one.name + ": sizes");
    if (output.numel() > 0) check_close(output.detach(), one.expected, one.name);
    // The map of the gradients is the transposed one, exactly if this holds for any values.
    const auto weights = values_like(group.rank() + 20, output.sizes(), dtype);
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

/// Numbers without a dimension, blocks without an element, narrow floats, and a part of the ranks.
inline void function_edges(ProcessGroup& group) {
  namespace nn = tutti::torch::nn;
  const int rank = group.rank();
  const int size = group.size();
  const auto as_many = static_cast<std::size_t>(size);
  for (const auto dtype : {torch::kFloat, torch::kBFloat16, torch::kComplexFloat}) {
    const auto options = torch::dtype(dtype).requires_grad(true);
    const auto number = torch::full({}, rank + 1, options);
    std::vector<Tensor> numbers;
    for (int r = 0; r < size; ++r) numbers.push_back(number * (r + 1));
    const auto expect = [&](const Tensor& found, double expected) {
      check(found.dim() == 0 && found.scalar_type() == dtype, "a number became something else");
      check(found.detach().equal(torch::full({}, expected, torch::dtype(dtype))), "the number");
    };
    const double all = size * (size + 1) / 2.0;
    expect(nn::all_reduce(group, number), all);
    expect(nn::scatter(group, numbers), rank + 1);
    expect(nn::reduce_scatter(group, numbers), all * (rank + 1));
    const auto received = nn::all_to_all(group, numbers);
    const auto gathered = nn::gather(group, number, size - 1);
    for (int r = 0; r < size; ++r) {
      expect(received[static_cast<std::size_t>(r)], (r + 1.0) * (rank + 1));
      expect(gathered[static_cast<std::size_t>(r)], rank == size - 1 ? r + 1 : 0);
    }
    // This rank's number goes to rank r times r + 1, and is weighed with 1.
    torch::real(torch::stack(received).sum()).backward();
    expect(number.grad(), all);
  }
  const auto empty = torch::zeros({0, 3}, torch::requires_grad());
  auto result = torch::cat(nn::all_to_all(group, std::vector<Tensor>(as_many, empty)));
  result = result + nn::reduce_scatter(group, std::vector<Tensor>(as_many, empty)) +
           nn::gather(group, empty)[0] + nn::all_gather_single(group, empty) +
           nn::reduce_scatter_single(group, empty) + nn::all_to_all_single(group, empty);
  result.sum().backward();
  check(empty.grad().sizes() == empty.sizes(), "the gradient of nothing");
  if (auto last = group.new_group({size - 1})) {
    const auto value = torch::ones({2, 3}, torch::requires_grad());
    const auto alone = nn::scatter(last, nn::gather(last, value.t()));
    (alone * 3).sum().backward();
    check(value.grad().equal(torch::full({2, 3}, 3.0)), "in a group of one");
  }
}

inline void functions(ProcessGroup& group) {
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
        [&](const Tensor& x) { return nn::all_gather_single(group, x, backward); },
        values_of(rank, 2, torch::kDouble),
        {}};
    const bool own = backward == nn::GatherBackward::own;
    check_close(pulled_back(one, weights(rank)),
                own ? weights(rank).narrow(0, 2 * rank, 2) : sum / size, "backward by option");
  }
  const auto fails = [](const auto& call, const std::vector<std::string>& words) {
    check_throws<c10::ValueError>([&] { (void)call(); }, words);
  };
  fails([&] { return nn::all_reduce(group, sum, tutti::ReduceOp::max); },
        {"nn::all_reduce", "avg"});
  fails([&] { return nn::reduce(group, sum, 0, tutti::ReduceOp::min); }, {"nn::reduce", "avg"});
  fails([&] { return nn::broadcast(group, Tensor()); }, {"nn::broadcast", "undefined"});
  fails([&] { return nn::gather(group, sum, size); }, {"gather", "root"});
  fails([&] { return nn::scatter_single(group, sum, 5); }, {"nn::scatter_single", "5"});
  const auto as_many = static_cast<std::size_t>(size);
  const std::vector<Tensor> same(as_many, sum);
  const std::vector<Tensor> more(as_many + 1, sum);
  const std::string count = std::to_string(size + 1) + " tensors";
  fails([&] { return nn::scatter(group, more); }, {"nn::scatter", count});
  fails([&] { return nn::reduce_scatter(group, more); }, {"nn::reduce_scatter", count});
  fails([&] { return nn::all_to_all(group, more); }, {"nn::all_to_all", count});
  fails([&] { return nn::reduce_scatter(group, same, tutti::ReduceOp::product); },
        {"nn::reduce_scatter", "avg"});
  fails(
      [&] {
        return nn::all_to_all(group, same, {as_many + 1, {2, 3}});
      },
      {"nn::all_to_all", "output_shapes"});
  fails(
      [&] { return nn::all_to_all(group, same, std::vector<std::vector<int64_t>>(as_many, {-1})); },
      {"nn::all_to_all", "negative"});
  std::vector<Tensor> mixed = same;
  mixed.back() = Tensor();
  fails([&] { return nn::scatter(group, mixed); }, {"nn::scatter", "undefined"});
  if (size == 1) return;
  mixed.back() = sum.to(torch::kFloat);
  fails([&] { return nn::scatter(group, mixed); }, {"nn::scatter", "one dtype", "Float"});
  mixed.back() = sum.t();
  fails([&] { return nn::reduce_scatter(group, mixed); },
        {"nn::reduce_scatter", "one shape", "[3, 2]"});
}
