#pragma once

#include <functional>
#include <future>
#include <memory>
#include <vector>

#include <tutti/launch.hpp>

#include "nets.hpp"

// The cases of models that train at the same time in one process.

/// Trains some steps, and compares the gradients with those of one process.
inline void train_beside_others(ProcessGroup& group, std::shared_ptr<Layers> net,
                                const DataParallelOptions& options) {
  Layers alone;
  DistributedDataParallel<Layers> model(std::move(net), group, options);
  torch::optim::SGD optimizer(model.parameters(), 0.1);
  const Tensor batch = share(whole_batch(), group.rank(), group.size());
  for (int step = 0; step < 5; ++step) {
    {
      const torch::NoGradGuard no_grad;
      const auto theirs = model.parameters();
      for (std::size_t k = 0; k < theirs.size(); ++k) alone.parameters()[k].copy_(theirs[k]);
    }
    alone.zero_grad();
    loss_of(alone.forward(whole_batch()), whole_batch()).backward();
    optimizer.zero_grad();
    loss_of(model(batch), batch).backward();
    check_close(gradients(*model.module()), gradients(alone), "gradients");
    optimizer.step();
    check_identical(group, flat(model.parameters()));
  }
}

/// Runs the calls at the same time; throws what one of them threw.
inline void run_at_once(const std::vector<std::function<void()>>& calls) {
  std::vector<std::future<void>> ends;
  for (const auto& call : calls) ends.push_back(std::async(std::launch::async, call));
  for (std::future<void>& end : ends) end.get();
}

/// Each rank is a thread with a model of its own.
inline void thread_ranks(ProcessGroup& /*group*/) {
  constexpr int kRanks = 3;
  std::vector<std::shared_ptr<Layers>> nets;
  for (int rank = 0; rank < kRanks; ++rank) nets.push_back(std::make_shared<Layers>());
  tutti::run_threads(kRanks, [&](tutti::ProcessGroup& ranks) {
    ProcessGroup own(ranks);
    train_beside_others(own, nets[static_cast<std::size_t>(own.rank())], small_buckets());
  });
}

/// Two threads of each rank train a model each, in groups of their own.
inline void two_models(ProcessGroup& group) {
  std::vector<std::function<void()>> calls;
  for (const bool fixed : {false, true}) {
    DataParallelOptions options = small_buckets();
    options.static_graph = fixed;
    options.gradient_as_bucket_view = fixed;
    calls.emplace_back(
        [own = group.new_group(all_ranks(group), {.name = fixed ? "fixed" : "free"}), options,
         net = std::make_shared<Layers>()]() mutable { train_beside_others(own, net, options); });
  }
  run_at_once(calls);
}

/// Backward, and with it all that the reducer does, runs in another thread than forward.
inline void other_thread(ProcessGroup& group) {
  DistributedDataParallel<Layers> model(same_layers(), group, small_buckets());
  const Tensor batch = whole_batch();
  for (int step = 0; step < 3; ++step) {
    const Tensor loss = loss_of(model(batch), batch);
    run_at_once({[&] { loss.backward(); }});
    check(model.last_step().buckets > 2, "one bucket for all");
    check_identical(group, gradients(*model.module()));
  }
}
