#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <torch/csrc/autograd/custom_function.h>

#include "nets.hpp"

// The cases of models whose steps do not use all parameters.

inline void unused(ProcessGroup& group) {
  torch::manual_seed(5);
  const auto net = std::make_shared<Branches>();
  DataParallelOptions options = small_buckets();
  options.find_unused_parameters = true;
  DistributedDataParallel<Branches> model(net, group, options);
  const Tensor batch = whole_batch();
  for (int step = 0; step < 3; ++step) {
    model.zero_grad();
    // Only the last rank uses `right`; none uses it in the second step.
    const bool left_only = group.rank() + 1 != group.size() || step == 1;
    model(batch, left_only).sum().backward();
    check(!net->idle->weight.grad().defined(), "a parameter that nobody uses has a gradient");
    check(net->right->weight.grad().defined() == (step != 1), "gradients of 'right'");
    const double share_of_one = step == 1 ? 0 : 24.0 / group.size();
    if (step != 1) check_close(net->right->bias.grad()[0], torch::tensor(share_of_one), "right");
    check_close(net->left->bias.grad()[0], torch::tensor(24.0), "left");
  }
}

inline void missing(ProcessGroup& group) {
  DistributedDataParallel<Branches> model(std::make_shared<Branches>(), group);
  model(whole_batch(), true).sum().backward();
  check_throws<c10::Error>(
      [&] { model(whole_batch(), true); },
      {"'right.weight', 'right.bias', 'idle.weight', 'idle.bias'", "find_unused_parameters"});
}

/// The gradients that no_sync left on a rank are averaged, though the step does not use them.
inline void unused_no_sync(ProcessGroup& group) {
  const auto net = std::make_shared<Branches>();
  DataParallelOptions options = small_buckets();
  for (const bool fixed : {false, true}) {
    net->zero_grad();
    options.find_unused_parameters = !fixed;
    options.static_graph = fixed;
    DistributedDataParallel<Branches> model(net, group, options);
    const Tensor batch = whole_batch();
    for (int step = 0; step < 2; ++step) {
      model.zero_grad();
      {
        const auto apart = model.no_sync();
        model(batch, group.rank() + 1 != group.size()).sum().backward();
      }
      model(batch, true).sum().backward();
      check_close(net->left->bias.grad()[0], torch::tensor(48.0), "left");
      check_close(net->right->bias.grad()[0], torch::tensor(24.0 / group.size()), "right");
      check(!net->idle->weight.grad().defined(), "a parameter that nobody uses has a gradient");
    }
  }
}

/// Each rank learns in its first step what it uses, and all learn what none uses.
inline void static_graph(ProcessGroup& group) {
  const bool odd = group.rank() + 1 == group.size();
  const auto net = std::make_shared<Branches>();
  DataParallelOptions options{.first_bucket_bytes = 8, .bucket_bytes = 8};
  options.static_graph = true;
  DistributedDataParallel<Branches> model(net, group, options);
  std::vector<const void*> order;
  model.register_comm_hook([&](ProcessGroup& ranks, const tutti::torch::GradBucket& bucket) {
    for (const Tensor& parameter : bucket.parameters) order.push_back(parameter.data_ptr());
    return tutti::torch::allreduce_hook()(ranks, bucket);
  });
  for (int step = 0; step < 4; ++step) {
    order.clear();
    model.zero_grad();
    auto output = model(whole_batch(), !odd);
    // A backward that is not of the model's parameters ends no step.
    (void)torch::autograd::grad({output.sum()}, {output}, {}, true);
    check(order.empty(), "a bucket was reduced before backward");
    output.sum().backward();
    check(!net->idle->weight.grad().defined(), "a parameter that nobody uses has a gradient");
    check_close(net->right->bias.grad()[0], torch::tensor(24.0 / group.size()), "right");
    check_close(net->left->bias.grad()[0], torch::tensor(24.0), "left");
    check_identical(group, flat({net->stem->weight.grad(), net->right->weight.grad()}));
    check(order.size() == 8, "the hook did not see each parameter once");
    const auto counts = model.last_step();
    check(counts.buckets == 8, "the number of buckets");
    check((counts.overlapped > 0) == (step > 0), "overlap in step " + std::to_string(step));
    const void* bias = net->idle->bias.data_ptr();
    const bool late = std::ranges::find(order, bias) - order.begin() > 3;
    check(late == (step > 0), "the order of step " + std::to_string(step));
  }
}

/// With static_graph a step that uses other parameters than the first is refused, on each rank.
inline void changed_graph(ProcessGroup& group) {
  const DataParallelOptions options = small_buckets(true);
  const Tensor batch = whole_batch();
  for (const bool left_first : {true, false}) {
    DistributedDataParallel<Branches> model(std::make_shared<Branches>(), group, options);
    for (int step = 0; step < 2; ++step) model(batch, left_first).sum().backward();
    const auto changed = model(batch, !left_first).sum();
    if (left_first)
      check_throws<c10::Error>([&] { changed.backward(); },
                               {"'right.", "got a gradient, but none in the first step"});
    else
      check_throws<c10::Error>(
          [&] { changed.backward(); },
          {"no gradient for 'right.weight', 'right.bias', but the first step"});
    check_throws<c10::Error>([&] { model(batch, left_first); }, {"the last backward failed"});
  }
  {
    DistributedDataParallel<Branches> model(std::make_shared<Branches>(), group, options);
    model(batch, true).sum().backward();
    {
      const auto apart = model.no_sync();
      model(batch, false).sum().backward();
    }
    const auto step = model(batch, true).sum();
    check_throws<c10::Error>([&] { step.backward(); },
                             {"'right.", "got a gradient, but none in the first step"});
  }
}

/// A rank may learn its graph later than others, if it had no inputs, but use no more than they.
inline void late_graph(ProcessGroup& group) {
  const bool odd = group.rank() + 1 == group.size();
  auto hasty =
      group.new_group(all_ranks(group), {.name = "late", .timeout = std::chrono::seconds(2)});
  const DataParallelOptions options = small_buckets(true);
  const Tensor batch = whole_batch();
  for (const bool more : {false, true}) {
    DistributedDataParallel<Branches> model(std::make_shared<Branches>(), hasty, options);
    model.join([&] {
      if (odd) model(batch, true).sum().backward();
    });
    model.zero_grad();
    const auto loss = model(batch, odd || !more).sum();
    if (more && !odd) {
      check_throws<c10::Error>([&] { loss.backward(); },
                               {"'right.", "got a gradient, but none in the first step"});
    } else if (more && group.size() > 1) {
      check_throws<c10::DistBackendError>([&] { loss.backward(); }, {"timed out", "rank "});
    } else {
      loss.backward();
      check_close(model.module()->left->bias.grad()[0], torch::tensor(24.0), "left");
      check(!model.module()->right->bias.grad().defined(), "a parameter that nobody uses");
    }
  }
  group.barrier().wait();
}

/// Keeps nothing of forward, which backward runs once more.
struct Recomputed : torch::autograd::Function<Recomputed> {
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& x,
                        torch::nn::Linear layer) {
    context->save_for_backward({x});
    context->saved_data["layer"] = reinterpret_cast<std::int64_t>(layer.get());
    const torch::NoGradGuard no_grad;
    return torch::tanh(layer(x));
  }
  static std::vector<Tensor> backward(torch::autograd::AutogradContext* context,
                                      const std::vector<Tensor>& gradients) {
    auto* layer =
        reinterpret_cast<torch::nn::LinearImpl*>(context->saved_data["layer"].toInt());  // NOLINT
    const auto x = context->get_saved_variables()[0].detach().requires_grad_();
    const torch::AutoGradMode with_gradient(true);
    torch::autograd::backward({torch::tanh(layer->forward(x))}, {gradients[0]});
    return {x.grad(), Tensor()};
  }
};

/// A layer that is used twice, each time within a backward of its own.
struct Repeated : torch::nn::Module {
  Repeated() { to(torch::kDouble); }
  Tensor forward(const Tensor& x, bool recompute) {
    auto y = first(x);
    for (int k = 0; k < 2; ++k) y = recompute ? Recomputed::apply(y, again) : torch::tanh(again(y));
    return y.mean(1, true);  // so that the first gradient comes from an inner backward
  }
  torch::nn::Linear first{register_module("first", torch::nn::Linear(16, 16))};
  torch::nn::Linear again{register_module("again", torch::nn::Linear(16, 16))};
};

inline void nested_backward(ProcessGroup& group) {
  torch::manual_seed(6);
  const auto net = std::make_shared<Repeated>();
  loss_of(net->forward(whole_batch(), false), whole_batch()).backward();
  const Tensor expected = gradients(*net);
  const Tensor batch = share(whole_batch(), group.rank(), group.size());
  DataParallelOptions options = small_buckets();
  const auto step = [&](auto& model, bool recompute) {
    model.zero_grad();
    loss_of(model(batch, recompute), batch).backward();
  };
  {
    DistributedDataParallel<Repeated> model(net, group, options);
    check_throws<c10::Error>([&] { step(model, true); }, {"'again.", "twice after one forward"});
  }
  options.static_graph = true;
  {
    DistributedDataParallel<Repeated> model(net, group, options);
    for (int k = 0; k < 3; ++k) {
      step(model, true);
      check_close(gradients(*net), expected, "gradients of step " + std::to_string(k));
      check_identical(group, gradients(*net));
    }
    check_throws<c10::Error>([&] { step(model, false); }, {"no gradient for 'again."});
  }
  DistributedDataParallel<Repeated> plain(net, group, options);
  step(plain, false);
  check_throws<c10::Error>([&] { step(plain, true); }, {"'again.", "more gradients than the 1 of"});
}
