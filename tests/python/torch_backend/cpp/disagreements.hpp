#pragma once

#include <chrono>
#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include <tutti/torch/functions.hpp>

#include "nets.hpp"

// The cases of ranks that disagree, leave something out, or are lost.

inline void mismatch(ProcessGroup& group) {
  const int last = group.size() - 1;
  if (last == 0) return;
  const std::string name = "rank " + std::to_string(last);
  const auto make = [&](const std::shared_ptr<Layers>& net, const DataParallelOptions& options) {
    return [&group, net, options] { DistributedDataParallel<Layers>(net, group, options); };
  };
  const bool odd = group.rank() == last;
  const auto wide = std::make_shared<Layers>(odd ? 65 : 64);
  check_throws<c10::ValueError>(make(wide, {}), {name, "'first.weight'", "[65, 16]", "[64, 16]"});
  const auto single = std::make_shared<Layers>();
  if (odd) single->third->to(torch::kFloat);
  check_throws<c10::ValueError>(make(single, {}), {name, "'third.weight' Float", "Double"});
  const auto more = std::make_shared<Layers>();
  if (odd) more->register_parameter("zero", torch::zeros({1}));
  check_throws<c10::ValueError>(make(more, {}), {name, "'zero'"});
  const auto fewer = std::make_shared<Layers>();
  if (odd) fewer->unregister_module("third");
  check_throws<c10::ValueError>(make(fewer, {}), {name, "nothing more", "'third.weight'"});
  const auto frozen = std::make_shared<Layers>();
  if (odd) frozen->second->bias.requires_grad_(false);
  check_throws<c10::ValueError>(make(frozen, {}), {name, "'second.bias'", "(no gradient)"});
  const auto buffered = std::make_shared<Layers>();
  buffered->register_buffer("seen", torch::zeros({odd ? 2 : 3}));
  check_throws<c10::ValueError>(make(buffered, {}), {name, "buffer 'seen'", "[2]", "[3]"});
  const auto all_but_first = std::make_shared<Layers>(group.rank() == 0 ? 64 : 65);
  check_throws<c10::ValueError>(make(all_but_first, {}), {"rank 1 ", "'first.weight'", "[65, 16]"});
  const auto plain = std::make_shared<Layers>();
  check_throws<c10::ValueError>(make(plain, {.find_unused_parameters = odd}),
                                {name, "find_unused_parameters"});
  check_throws<c10::ValueError>(make(plain, {.static_graph = odd}), {name, "static_graph 1"});
  make(plain, {})();  // the group is as good as before
}

/// The last rank brings no gradient for some parameters, or calls something else instead.
inline void skipped(ProcessGroup& group) {
  const int last = group.size() - 1;
  if (last == 0) return;
  const bool odd = group.rank() == last;
  const std::string name = "rank " + std::to_string(last);
  const Tensor batch = whole_batch();
  const auto make = [&](ProcessGroup& own) {
    const auto net = std::make_shared<Branches>();
    for (auto& parameter : net->idle->parameters()) parameter.requires_grad_(false);
    return std::make_unique<DistributedDataParallel<Branches>>(net, own);
  };
  auto hasty =
      group.new_group(all_ranks(group), {.name = "hasty", .timeout = std::chrono::seconds(2)});
  {
    const auto model = make(hasty);
    const auto loss = (*model)(batch, odd).sum();
    if (odd) {
      loss.backward();
      check_throws<c10::Error>([&] { (*model)(batch, true); },
                               {"'right.weight', 'right.bias'", "find_unused_parameters"});
    } else {
      check_throws<c10::DistBackendError>([&] { loss.backward(); },
                                          {"all_reduce", "timed out", name});
      check_throws<c10::Error>([&] { (*model)(batch, false); }, {"the last backward failed"});
    }
  }
  group.barrier().wait();
  auto strict = group.new_group(all_ranks(group), {.name = "strict"});
  const auto model = make(strict);
  const auto loss = (*model)(batch, false).sum();
  group.barrier().wait();  // all have made their models when the group breaks
  const auto other = [&] { strict.barrier().wait(); };
  if (odd)
    check_throws<c10::DistBackendError>(other, {"barrier", "rank "});
  else
    check_throws<c10::DistBackendError>([&] { loss.backward(); }, {"barrier", name});
}

inline void die_if_last(const ProcessGroup& group) {
  if (group.rank() + 1 == group.size()) std::raise(SIGKILL);
}

/// The call must end with the loss of the last rank.
template <class Call>
void check_lost(const ProcessGroup& group, const Call& call) {
  check_throws<c10::DistNetworkError>(call, {"rank " + std::to_string(group.size() - 1)});
}

/// The last rank dies in backward; the others are told so. In the step in which a static graph is
/// learnt nothing is reduced before its end.
inline void killed_in_step(ProcessGroup& group, bool learns) {
  DistributedDataParallel<Layers> model(same_layers(), group, small_buckets(learns));
  const Tensor batch = whole_batch();
  if (!learns) loss_of(model(batch), batch).backward();
  const Tensor loss = loss_of(model(batch), batch);
  model.module()->hidden_output.register_hook([&](const Tensor&) { die_if_last(group); });
  check_lost(group, [&] { loss.backward(); });
  check_throws<c10::Error>([&] { model(batch); }, {"the last backward failed"});
}

inline void killed(ProcessGroup& group) { killed_in_step(group, false); }
inline void killed_in_first_step(ProcessGroup& group) { killed_in_step(group, true); }

inline void killed_in_constructor(ProcessGroup& group) {
  die_if_last(group);
  check_lost(group, [&] { DistributedDataParallel<Layers> model(same_layers(), group); });
}

inline void killed_in_hook(ProcessGroup& group) {
  DistributedDataParallel<Layers> model(same_layers(), group, small_buckets());
  model.register_comm_hook([&](ProcessGroup& ranks, const tutti::torch::GradBucket& bucket) {
    if (bucket.is_last) die_if_last(group);
    return tutti::torch::bf16_compress_hook()(ranks, bucket);
  });
  const Tensor batch = whole_batch();
  const Tensor loss = loss_of(model(batch), batch);
  check_lost(group, [&] { loss.backward(); });
}

/// The others have no inputs any more, and serve the rank that dies.
inline void killed_in_join(ProcessGroup& group) {
  DistributedDataParallel<Layers> model(same_layers(), group, small_buckets());
  const Tensor batch = whole_batch();
  const bool last = group.rank() + 1 == group.size();
  check_lost(group, [&] {
    model.join([&] {
      for (int step = 0; step < (last ? 3 : 1); ++step) {
        const Tensor loss = loss_of(model(batch), batch);
        if (step == 2) die_if_last(group);
        loss.backward();
      }
    });
  });
}

inline void killed_in_function(ProcessGroup& group) {
  const auto values = torch::ones({3, 2}, torch::requires_grad());
  const auto all = torch::cat(tutti::torch::nn::all_gather(group, values));
  die_if_last(group);
  check_lost(group, [&] { all.sum().backward(); });
}
