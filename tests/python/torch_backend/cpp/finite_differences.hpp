#pragma once

#include <functional>
#include <string>
#include <vector>

#include <torch/csrc/autograd/autograd.h>
#include <tutti/torch/process_group.hpp>

#include "nets.hpp"

// Derivatives of functions that all ranks compute together, compared with differences of values.

using RankFunction = std::function<Tensor(const Tensor&)>;

/// A number for each rank that is no linear function of the values.
inline Tensor curved(const Tensor& values) {
  const auto real = values.is_complex() ? torch::view_as_real(values) : values;
  return (real.pow(2) + real.pow(3) / 6).sum();
}

/// Some places of an input, the last one among them.
inline std::vector<int64_t> some_places(int64_t count) {
  std::vector<int64_t> places;
  for (int64_t place = count - 1; place >= 0; place -= (count + 2) / 3) places.push_back(place);
  return places;
}

/// The gradient of the sum of what all ranks get, at some places of this rank's input.
inline Tensor from_differences(ProcessGroup& group, const RankFunction& function,
                               const Tensor& input) {
  constexpr double kStep = 1e-4;
  const auto places = some_places(input.numel());
  const auto moved = [&](bool mine, std::size_t number, c10::complex<double> step) {
    auto values = input.clone();
    if (mine)
      values.view({-1})[places[number]] +=
          input.is_complex() ? c10::Scalar(step) : c10::Scalar(step.real());
    auto sum = function(values).detach().clone();
    group.all_reduce(sum).wait();
    return sum.item<double>();
  };
  auto most = torch::full({1}, static_cast<int64_t>(places.size()));
  group.all_reduce(most, {.op = tutti::ReduceOp::max}).wait();
  const auto wanted = static_cast<std::size_t>(most.item<int64_t>());
  auto gradient = torch::zeros({static_cast<int64_t>(places.size())}, input.options());
  for (int rank = 0; rank < group.size(); ++rank)
    for (std::size_t number = 0; number < wanted; ++number)
      for (int part = 0; part < (input.is_complex() ? 2 : 1); ++part) {
        const c10::complex<double> unit(1 - part, part);
        const bool mine = rank == group.rank() && number < places.size();
        const double rise = moved(mine, number, kStep * unit) - moved(mine, number, -kStep * unit);
        const c10::complex<double> slope = rise / (2 * kStep) * unit;
        if (mine)
          gradient[static_cast<int64_t>(number)] +=
              input.is_complex() ? c10::Scalar(slope) : c10::Scalar(slope.real());
      }
  return gradient;
}

/// The first and the second derivatives of a curved function of what `call` gives.
inline void check_derivatives(ProcessGroup& group, const RankFunction& call, const Tensor& given,
                              const std::string& name) {
  const RankFunction value = [&](const Tensor& x) { return curved(call(x)); };
  const RankFunction slope = [&](const Tensor& x) {
    const auto leaf = x.requires_grad() ? x : x.clone().requires_grad_();
    return curved(torch::autograd::grad({value(leaf)}, {leaf}, {}, true, true)[0]);
  };
  const auto compare = [&](const RankFunction& function, const char* what) {
    const auto leaf = given.clone().requires_grad_();
    const auto expected = from_differences(group, function, given);
    const auto gradient = torch::autograd::grad({function(leaf)}, {leaf})[0].view({-1});
    if (given.numel() == 0) return;
    const auto found = gradient.index_select(0, torch::tensor(some_places(given.numel())));
    check_close(found, expected, name + what, 1e-6 * (1 + expected.abs().max().item<double>()));
  };
  compare(value, ": gradient");
  compare(slope, ": second gradient");
}
