// Cases of tutti::torch on the ranks of a job: `torch_checks case...` says "ok case" for each, on
// rank 0.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <thread>

#include <unistd.h>

#include <tutti/torch/distributed_sampler.hpp>

#include "disagreements.hpp"
#include "functions.hpp"
#include "nets.hpp"
#include "random_steps.hpp"
#include "thread_ranks.hpp"
#include "used_parameters.hpp"

// The program of bindings/torch/README.md, in this file because torch's headers take most of the
// time.
#define main readme_program
#include "../../../../bindings/torch/cpp/examples/train.cpp"
#undef main

namespace {

std::string folder;  // for files

Tensor numbers(int64_t count, int rank) {
  return torch::arange(count, torch::kFloat) + 100 * static_cast<float>(rank);
}

void operations(ProcessGroup& group) {
  const int rank = group.rank();
  const int size = group.size();
  const auto all_ranks = static_cast<float>(size * (size - 1) / 2);

  auto sum = numbers(6, rank).view({2, 3}).t();  // with strides
  group.all_reduce(sum).wait();
  check(sum.equal((numbers(6, 0) * size + 100 * all_ranks).view({2, 3}).t()), "all_reduce");
  auto most = numbers(4, rank).to(torch::kBFloat16);
  group.all_reduce(most, {.op = tutti::ReduceOp::max}).wait();
  check(most.equal(numbers(4, size - 1).to(torch::kBFloat16)), "all_reduce max");
  auto root = numbers(4, rank);
  group.broadcast(root, {.root = size - 1}).wait();
  check(root.equal(numbers(4, size - 1)), "broadcast");

  auto gathered = torch::empty({size, 3});
  group.all_gather(gathered, numbers(3, rank)).wait();
  std::vector<Tensor> parts(static_cast<std::size_t>(size));
  for (Tensor& part : parts) part = torch::empty({3});
  group.all_gather(parts, numbers(3, rank)).wait();
  check(torch::stack(parts).equal(gathered), "all_gather: lists");
  for (int r = 0; r < size; ++r) check(gathered[r].equal(numbers(3, r)), "all_gather");

  auto mine = torch::empty({2});
  group.reduce_scatter(mine, numbers(2 * size, rank)).wait();
  check(mine.equal(numbers(2 * size, 0).slice(0, 2 * rank, 2 * rank + 2) * size + 100 * all_ranks),
        "reduce_scatter");
  auto turned = torch::empty({size});
  group.all_to_all(turned, numbers(size, rank)).wait();
  check(turned.equal(torch::arange(size) * 100.0F + rank), "all_to_all");

  group.gather(rank == 0 ? parts : std::vector<Tensor>{}, numbers(3, rank)).wait();
  auto back = torch::empty({3});
  group.scatter(back, rank == 0 ? parts : std::vector<Tensor>{}).wait();
  check(back.equal(numbers(3, rank)), "gather and scatter");

  auto received = torch::empty({5});
  auto sending = group.isend(numbers(5, rank), (rank + 1) % size);
  check(group.recv(received, (rank + size - 1) % size) == (rank + size - 1) % size, "recv");
  sending.wait();
  check(received.equal(numbers(5, (rank + size - 1) % size)), "send and recv");

  if (auto last = group.new_group({size - 1})) last.barrier().wait();
  group.barrier().wait();
  check_throws<c10::ValueError>([&] { (void)group.all_reduce(Tensor()); }, {"all_reduce"});
  check_throws<c10::ValueError>([&] { (void)group.broadcast(sum, {.root = size}); }, {"broadcast"});
}

/// One process with the whole batch: the losses of its steps.
std::vector<double> losses_alone(Layers& net, int steps) {
  torch::optim::SGD optimizer(net.parameters(), 0.1);
  std::vector<double> losses;
  for (int step = 0; step < steps; ++step) {
    const Tensor loss = loss_of(net.forward(whole_batch()), whole_batch());
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    losses.push_back(loss.item<double>());
  }
  return losses;
}

void train(ProcessGroup& group, const DataParallelOptions& options) {
  constexpr int kSteps = 5;
  const std::vector<double> expected = losses_alone(*same_layers(), kSteps);
  torch::manual_seed(3 + static_cast<std::uint64_t>(group.rank()));
  DistributedDataParallel<Layers> model(std::make_shared<Layers>(), group, options);
  check_identical(group, flat(model.parameters()));
  torch::optim::SGD optimizer(model.parameters(), 0.1);
  const Tensor batch = share(whole_batch(), group.rank(), group.size());
  for (int step = 0; step < kSteps; ++step) {
    Tensor loss = loss_of(model(batch), batch);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    Tensor mean = loss.detach().clone();
    group.all_reduce(mean, {.op = tutti::ReduceOp::avg}).wait();
    const double apart = std::abs(mean.item<double>() - expected[static_cast<std::size_t>(step)]);
    check(apart <= (group.size() == 1 ? 0 : 1e-13), "the loss of step " + std::to_string(step));
    check_identical(group, flat(model.parameters()));
    check(model.last_step().buckets > 2, "one bucket for all");
    const auto& layer = model.module()->first;  // both of its parameters lie in the last bucket
    check(layer->weight.grad().is_alias_of(layer->bias.grad()) == options.gradient_as_bucket_view,
          "where gradients lie");
  }
}

void training(ProcessGroup& group) {
  train(group, small_buckets());
  DataParallelOptions views = small_buckets();
  views.gradient_as_bucket_view = true;
  train(group, views);
  views.static_graph = true;
  train(group, views);
}

void overlap(ProcessGroup& group) {
  DistributedDataParallel<Layers> model(same_layers(), group, small_buckets());
  const Tensor batch = whole_batch();
  for (int step = 0; step < 3; ++step) {  // the second has new buckets
    model.zero_grad();
    const Tensor loss = loss_of(model(batch), batch);
    bool reduced = false;
    // Backward goes on to the first layer only after a bucket of the last layers was reduced.
    model.module()->hidden_output.register_hook([&](const Tensor& gradient) {
      const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
      while (!(reduced = model.reduced_buckets() > 0) && std::chrono::steady_clock::now() < end)
        std::this_thread::yield();
      return gradient;
    });
    loss.backward();
    check(reduced, "no bucket was reduced before the end of backward");
    check(model.last_step().overlapped > 0, "no bucket overlapped");
  }
}

void arrival(ProcessGroup& group) {
  const auto net = std::make_shared<Turned>();
  // In the first order all of `early` are one bucket, and the rest is another.
  DistributedDataParallel<Turned> model(net, group,
                                        {.first_bucket_bytes = 600, .bucket_bytes = 4096});
  std::vector<const void*> order;
  model.register_comm_hook([&](ProcessGroup& ranks, const tutti::torch::GradBucket& bucket) {
    for (const Tensor& parameter : bucket.parameters) order.push_back(parameter.data_ptr());
    check(model.reduced_buckets() == 0, "a hook's buckets are counted");
    return tutti::torch::allreduce_hook()(ranks, bucket);
  });
  for (int step = 0; step < 3; ++step) {
    order.clear();
    model(whole_batch()).sum().backward();
    check(model.last_step().buckets == 2, "the number of buckets");
    check(order.size() == 4, "the hook did not see each parameter once");
    check(model.last_step().overlapped == (step == 0 ? 0 : 1), "overlap by the order of buckets");
    const auto late = step == 0 ? order.end() - 2 : order.begin();
    const std::vector<const void*> found(late, late + 2);
    check(std::is_permutation(
              found.begin(), found.end(),
              std::vector<const void*>{net->late->weight.data_ptr(), net->late->bias.data_ptr()}
                  .begin()),
          "the order of step " + std::to_string(step));
  }
}

void no_sync(ProcessGroup& group) {
  const auto alone = same_layers();
  DistributedDataParallel<Layers> model(same_layers(), group, small_buckets());
  const Tensor batch = share(whole_batch(), group.rank(), group.size());
  for (int step = 0; step < 2; ++step) {
    model.zero_grad();
    {
      const auto apart = model.no_sync();
      loss_of(model(batch), batch).backward();
    }
    const Tensor own = gradients(*model.module());
    alone->zero_grad();
    loss_of(alone->forward(batch), batch).backward();
    check(own.equal(gradients(*alone)), "no_sync changed gradients");
    loss_of(model(batch), batch).backward();
    alone->zero_grad();
    loss_of(alone->forward(whole_batch()), whole_batch()).backward();
    check_close(gradients(*model.module()), 2 * gradients(*alone), "accumulated gradients");
    check_identical(group, gradients(*model.module()));
  }
}

void twice(ProcessGroup& group) {
  const Tensor batch = share(whole_batch(), group.rank(), group.size());
  const auto fails = [&](const Tensor& loss) {
    check_throws<c10::Error>([&] { loss.backward(); }, {"twice after one forward", "no_sync"});
  };
  {
    DistributedDataParallel<Layers> model(same_layers(), group);
    const Tensor loss = loss_of(model(batch), batch);
    loss.backward({}, /*retain_graph=*/true);
    fails(loss);
  }
  DistributedDataParallel<Layers> model(same_layers(), group);
  const Tensor first = loss_of(model(batch), batch);
  loss_of(model(batch), batch).backward();
  {
    const auto apart = model.no_sync();  // this rank's own gradients are allowed here
    loss_of(model.module()->forward(batch), batch).backward();
  }
  loss_of(model(batch), batch).backward();
  fails(first);
}

void buffers(ProcessGroup& group) {
  DistributedDataParallel<Counting> model(std::make_shared<Counting>(), group);
  const Tensor batch = whole_batch();
  for (int step = 1; step <= 3; ++step) {
    model(batch, group.rank() + 1.0).sum().backward();
    // All begin with rank 0's, which has added 1 in each step before.
    check(model.module()->seen.equal(torch::full({3}, step + group.rank(), torch::kDouble)),
          "the buffer of step " + std::to_string(step));
  }
  if (group.rank() != 0) return;
  const torch::NoGradGuard no_grad;  // a rank may look at its module alone
  model(batch, 0.0);
}

void hooks(ProcessGroup& group) {
  const auto alone = same_layers();
  loss_of(alone->forward(whole_batch()), whole_batch()).backward();
  const Tensor batch = share(whole_batch(), group.rank(), group.size());
  const auto run = [&](const tutti::torch::CommHook& hook, double least, double most) {
    DistributedDataParallel<Layers> model(same_layers(), group, small_buckets());
    model.register_comm_hook(hook);
    check_throws<c10::Error>([&] { model.register_comm_hook(hook); }, {"once"});
    loss_of(model(batch), batch).backward();
    check_identical(group, gradients(*model.module()));
    const Tensor apart = (gradients(*model.module()) - gradients(*alone)).abs().max();
    check(apart.item<double>() >= least && apart.item<double>() <= most,
          "a hook's gradients are " + std::to_string(apart.item<double>()) + " apart");
  };
  run(tutti::torch::allreduce_hook(), 0, 1e-13);
  run(tutti::torch::fp16_compress_hook(), 1e-9, 1e-3);
  run(tutti::torch::bf16_compress_hook(), 1e-9, 1e-2);
  std::size_t parameters = 0;
  std::size_t last = 0;
  run(
      [&](ProcessGroup& ranks, const tutti::torch::GradBucket& bucket) {
        parameters += bucket.parameters.size();
        last += bucket.is_last ? 1 : 0;
        Tensor sum = bucket.buffer.clone();
        ranks.all_reduce(sum).wait();
        return [sum, size = ranks.size()] { return sum / size; };
      },
      0, 1e-13);
  check(parameters == 6 && last == 1, "the own hook did not see each parameter once");
}

/// What `join` does, in one process: in step s only the ranks from s on have a batch.
Tensor joined_alone(int size, bool divide_by_all) {
  const auto net = same_layers();
  torch::optim::SGD optimizer(net->parameters(), 0.1);
  for (int step = 0; step < size; ++step) {
    optimizer.zero_grad();
    for (int rank = step; rank < size; ++rank) {
      const Tensor batch = share(whole_batch(), rank, size);
      (loss_of(net->forward(batch), batch) / (divide_by_all ? size : size - step)).backward();
    }
    optimizer.step();
  }
  return flat(net->parameters());
}

void join(ProcessGroup& group) {
  const Tensor batch = share(whole_batch(), group.rank(), group.size());
  for (const bool divide_by_all : {true, false}) {
    DistributedDataParallel<Layers> model(same_layers(), group, small_buckets());
    torch::optim::SGD optimizer(model.parameters(), 0.1);
    model.join(
        [&] {
          for (int step = 0; step <= group.rank(); ++step) {
            optimizer.zero_grad();
            loss_of(model(batch), batch).backward();
            optimizer.step();
          }
        },
        {.divide_by_initial_world_size = divide_by_all});
    check_identical(group, flat(model.parameters()));
    check_close(flat(model.parameters()), joined_alone(group.size(), divide_by_all), "join");
  }
  if (group.size() == 1) return;
  DistributedDataParallel<Layers> model(same_layers(), group);
  const auto uneven = [&] {
    for (int step = 0; step <= group.rank(); ++step) loss_of(model(batch), batch).backward();
  };
  check_throws<c10::Error>([&] { model.join(uneven, {.throw_on_early_termination = true}); },
                           {"rank 0", "no more inputs"});
}

void checkpoint(ProcessGroup& group) {
  const std::string path = folder + "/model.pt";
  torch::manual_seed(8);
  DistributedDataParallel<Layers> written(std::make_shared<Layers>(), group);
  written.save_checkpoint(path);
  torch::manual_seed(9);
  DistributedDataParallel<Layers> read(std::make_shared<Layers>(), group);
  check(!flat(read.parameters()).equal(flat(written.parameters())), "equal before");
  read.load_checkpoint(path);
  check(flat(read.parameters()).equal(flat(written.parameters())), "not what was written");
  Layers alone;  // as torch::load does it
  torch::serialize::InputArchive archive;
  archive.load_from(path);
  alone.load(archive);
  check(flat(alone.parameters()).equal(flat(written.parameters())), "not what torch reads");
  check_throws<c10::Error>([&] { read.load_checkpoint(folder + "/none.pt"); },
                           {"rank 0", "none.pt"});
  check_throws<c10::Error>([&] { written.save_checkpoint(folder + "/none/model.pt"); },
                           {"rank 0", "none/model.pt"});
  DistributedDataParallel<Layers> other(std::make_shared<Layers>(32), group);
  const Tensor before = flat(other.parameters());
  check_throws<c10::Error>([&] { other.load_checkpoint(path); }, {"another model"});
  check(flat(other.parameters()).equal(before), "a checkpoint of another model was taken");
  other.module()->first->weight.requires_grad_(false);
  other.save_checkpoint(path);
  other.load_checkpoint(path);
}

/// Bytes of memory that this process has.
std::int64_t resident_bytes() {
  std::int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages >> pages;
  return pages * sysconf(_SC_PAGESIZE);
}

/// Many steps, which must not need more memory than some.
void memory(ProcessGroup& group) {
  for (const bool fixed : {false, true}) {
    DataParallelOptions options{.first_bucket_bytes = 600, .bucket_bytes = 4096};
    options.find_unused_parameters = !fixed;
    options.static_graph = fixed;
    options.gradient_as_bucket_view = !fixed;
    DistributedDataParallel<Turned> model(std::make_shared<Turned>(), group, options);
    torch::optim::SGD optimizer(model.parameters(), 0.01);
    const Tensor batch = whole_batch();
    std::int64_t before = 0;
    for (int step = 0; step < 10'000; ++step) {
      if (step == 1'000) before = resident_bytes();  // until then rings and caches are first used
      optimizer.zero_grad();
      loss_of(model(batch), batch).backward();
      optimizer.step();
    }
    const std::int64_t grown = resident_bytes() - before;
    // Less than 32 bytes for each step, so that no object of a step is left.
    check(grown < 9'000 * 32, "9,000 steps needed " + std::to_string(grown) + " bytes more");
  }
}

/// A line of indices for each rank of some samplers; tests/python/torch_backend/cpp_test.py
/// compares with torch's.
void print_samplers() {
  for (const std::size_t size : {0, 1, 3, 10, 1001})
    for (const int replicas : {1, 2, 3, 4, 8})
      for (const bool shuffle : {true, false})
        for (const bool drop_last : {true, false})
          for (int rank = 0; rank < replicas; ++rank) {
            tutti::torch::DistributedSampler sampler(
                size, replicas, rank, {.shuffle = shuffle, .seed = 11, .drop_last = drop_last});
            sampler.set_epoch(static_cast<std::uint64_t>(replicas));
            std::printf("%zu %d %d %d %d:", size, replicas, rank, shuffle, drop_last);
            while (const auto batch = sampler.next(7))
              for (const std::size_t index : *batch) std::printf(" %zu", index);
            std::printf("\n");
          }
}

const std::map<std::string, std::function<void(ProcessGroup&)>> kCases = {
    {"operations", operations},
    {"training", training},
    {"overlap", overlap},
    {"no_sync", no_sync},
    {"arrival", arrival},
    {"mismatch", mismatch},
    {"skipped", skipped},
    {"buffers", buffers},
    {"hooks", hooks},
    {"unused", unused},
    {"missing", missing},
    {"static_graph", static_graph},
    {"changed_graph", changed_graph},
    {"late_graph", late_graph},
    {"nested_backward", nested_backward},
    {"unused_no_sync", unused_no_sync},
    {"join", join},
    {"killed", killed},
    {"killed_in_constructor", killed_in_constructor},
    {"killed_in_first_step", killed_in_first_step},
    {"killed_in_function", killed_in_function},
    {"killed_in_hook", killed_in_hook},
    {"killed_in_join", killed_in_join},
    {"checkpoint", checkpoint},
    {"functions", functions},
    {"function_edges", function_edges},
    {"memory", memory},
    {"other_thread", other_thread},
    {"random_steps", random_steps},
    {"thread_ranks", thread_ranks},
    {"two_models", two_models},
    {"twice", twice}};

}  // namespace

int main(int count, char** words) {
  torch::set_num_threads(1);
  const std::vector<std::string> arguments(words + 1, words + count);
  if (arguments.front() == "samplers") {
    print_samplers();
    return 0;
  }
  if (arguments.front() == "readme") return readme_program();
  folder = arguments.front();
  ProcessGroup group = tutti::torch::init_process_group({.timeout = std::chrono::seconds(60)});
  for (std::size_t k = 1; k < arguments.size(); ++k) {
    try {
      kCases.at(arguments[k])(group);
    } catch (const std::exception& error) {
      std::printf("rank %d: %s: %s\n", group.rank(), arguments[k].c_str(), error.what());
      std::fflush(stdout);
      std::_Exit(1);
    }
    std::printf("ok %d %s\n", group.rank(), arguments[k].c_str());
  }
}
