// Trains a small network on all ranks: tuttirun --nproc-per-node 4 train
#include <cstdio>

#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>
#include <tutti/torch/distributed_data_parallel.hpp>
#include <tutti/torch/distributed_sampler.hpp>

struct Net : torch::nn::Module {
  torch::nn::Linear first{register_module("first", torch::nn::Linear(8, 32))};
  torch::nn::Linear second{register_module("second", torch::nn::Linear(32, 1))};
  torch::Tensor forward(const torch::Tensor& x) { return second(torch::relu(first(x))); }
};

int main() {
  auto group = tutti::torch::init_process_group();
  const auto inputs = torch::linspace(-1, 1, 64 * 8).view({64, 8});
  const auto targets = inputs.pow(2).sum(1, true);

  tutti::torch::DistributedDataParallel<Net> model(std::make_shared<Net>(), group);
  tutti::torch::DistributedSampler sampler(64, group, {.seed = 1});
  torch::optim::SGD optimizer(model.parameters(), 0.05);
  for (int epoch = 0; epoch < 20; ++epoch) {
    sampler.set_epoch(epoch);
    auto loss_of_epoch = torch::zeros({});
    while (const auto batch = sampler.next(8)) {
      const auto rows = torch::tensor(std::vector<int64_t>(batch->begin(), batch->end()));
      const auto output = model(inputs.index_select(0, rows));
      const auto loss = torch::mse_loss(output, targets.index_select(0, rows));
      optimizer.zero_grad();
      loss.backward();  // ends with the average of all ranks' gradients
      optimizer.step();
      loss_of_epoch += loss.detach();
    }
    group.all_reduce(loss_of_epoch, {.op = tutti::ReduceOp::avg}).wait();
    if (group.rank() == 0) std::printf("epoch %d: loss %.4f\n", epoch, loss_of_epoch.item<float>());
  }
  model.save_checkpoint("train.pt");  // rank 0 writes it, as torch::save does
  return 0;
}
