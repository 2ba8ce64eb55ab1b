#include <tutti/torch/data_parallel_core.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <torch/nn/module.h>
#include <torch/serialize/archive.h>

#include "failures.hpp"
#include "model.hpp"
#include "reducer.hpp"
#include "views.hpp"

namespace tutti::torch {

using torch_plugin::with_torchs_exceptions;

struct DataParallelCore::Turn {
  int with_input = 0;  ///< how many ranks
  int first = -1;      ///< the first of them, whose buffers are taken
};

DataParallelCore::DataParallelCore(std::shared_ptr<::torch::nn::Module> module, ProcessGroup group,
                                   const DataParallelOptions& options)
    : module_(std::move(module)), group_(std::move(group)), options_(options) {
  TORCH_CHECK_VALUE(module_ != nullptr, "tutti: DistributedDataParallel: there is no module");
  Model model = model_of(*module_);
  parameters_ = model.parameters;
  buffers_ = model.buffers;
  check_alike(group_, describe(options_) + model.description);
  broadcast(parameters_, 0);
  broadcast(buffers_, 0);
  std::vector<std::string> names;
  std::vector<at::Tensor> trained;
  for (std::size_t number = 0; number < parameters_.size(); ++number) {
    if (!parameters_[number].requires_grad()) continue;
    names.push_back(model.names[number]);
    trained.push_back(parameters_[number]);
  }
  reducer_ = std::make_shared<Reducer>(group_, std::move(names), std::move(trained), options_);
  reducer_->listen();
}

DataParallelCore::~DataParallelCore() = default;

void DataParallelCore::broadcast(const std::vector<at::Tensor>& tensors, int root) {
  const at::NoGradGuard no_grad;
  for (const std::vector<std::size_t>& alike : torch_plugin::by_dtype(tensors)) {
    std::vector<at::Tensor> some;
    for (const std::size_t number : alike) some.push_back(tensors[number]);
    group_.broadcast_coalesced(some, {.root = root}).wait();
  }
}

void DataParallelCore::before_forward() {
  if (!sync_ || !at::GradMode::is_enabled()) return;
  int root = 0;
  if (joining_) root = agree_on_turn(true).first;
  reducer_->begin_forward();
  if (options_.broadcast_buffers) broadcast(buffers_, root);
}

void DataParallelCore::after_forward(const std::vector<at::Tensor>& outputs) {
  if (!at::GradMode::is_enabled()) return;
  if (sync_)
    reducer_->prepare(outputs);
  else
    reducer_->pause();
}

bool DataParallelCore::set_sync(bool sync) noexcept {
  if (!sync) reducer_->pause_between_steps();
  return std::exchange(sync_, sync);
}

void DataParallelCore::register_comm_hook(CommHook hook) { reducer_->set_hook(std::move(hook)); }

DataParallelCore::Turn DataParallelCore::agree_on_turn(bool has_input) {
  const std::vector<std::uint8_t> mine{has_input};
  std::vector<std::uint8_t> all(static_cast<std::size_t>(group_.size()));
  with_torchs_exceptions([&] { group_.group().all_gather(all, mine).wait(); });
  Turn turn;
  turn.with_input = static_cast<int>(std::ranges::count(all, 1));
  const auto ended = std::ranges::find(all, 0);
  TORCH_CHECK(!join_.throw_on_early_termination || ended == all.end(), "tutti: join: rank ",
              ended - all.begin(), " has no more inputs");
  if (turn.with_input == 0) return turn;
  turn.first = static_cast<int>(std::ranges::find(all, 1) - all.begin());
  last_with_input_ = turn.first;
  if (!join_.divide_by_initial_world_size) reducer_->set_divisor(turn.with_input);
  return turn;
}

void DataParallelCore::join(const std::function<void()>& loop, const JoinOptions& options) {
  TORCH_CHECK(!joining_, "tutti: join: this model is in a join already");
  struct Joining {
    DataParallelCore& core;
    ~Joining() {
      core.joining_ = false;
      core.reducer_->set_divisor(std::nullopt);
    }
  };
  joining_ = true;
  const Joining ends{*this};
  join_ = options;
  last_with_input_ = -1;
  loop();
  shadow_others();
  if (last_with_input_ < 0) return;
  broadcast(parameters_, last_with_input_);
  broadcast(buffers_, last_with_input_);
}

void DataParallelCore::shadow_others() {
  for (Turn turn = agree_on_turn(false); turn.with_input > 0; turn = agree_on_turn(false)) {
    reducer_->begin_forward();
    if (options_.broadcast_buffers) broadcast(buffers_, turn.first);
    reducer_->shadow_step();
  }
}

void DataParallelCore::agree_on_problem(const std::string& problem) {
  std::string text = problem;
  std::vector<std::uint64_t> length{text.size()};
  with_torchs_exceptions([&] {
    group_.group().broadcast(length, {.root = 0}).wait();
    text.resize(length.front());
    if (!text.empty()) group_.group().broadcast(text, {.root = 0}).wait();
  });
  TORCH_CHECK(text.empty(), text);
}

void DataParallelCore::save(const std::string& path) {
  std::string problem;
  if (group_.rank() == 0) {
    const std::string unfinished = path + ".unfinished";
    try {
      ::torch::serialize::OutputArchive archive;
      module_->save(archive);
      archive.save_to(unfinished);
      // In one step, so that nobody reads half a file.
      if (std::rename(unfinished.c_str(), path.c_str()) != 0)
        problem = "tutti: rank 0 cannot write the checkpoint '" + path + "'";
    } catch (const std::exception& error) {
      (void)std::remove(unfinished.c_str());
      problem = "tutti: rank 0 cannot write the checkpoint '" + path + "': " + error.what();
    }
  }
  agree_on_problem(problem);
}

std::string DataParallelCore::load_here(const std::string& path) {
  const std::string before = model_of(*module_).description;
  std::vector<std::pair<at::Tensor, at::Tensor>> values;  // loading gives the tensors other memory
  for (const auto& tensors : {module_->parameters(), module_->buffers()})
    for (const at::Tensor& tensor : tensors) values.emplace_back(tensor, tensor.detach());
  std::string problem;
  try {
    ::torch::serialize::InputArchive archive;
    archive.load_from(path);
    module_->load(archive);
    if (model_of(*module_).description == before) return {};
    problem = "tutti: the checkpoint '" + path + "' is of another model";
  } catch (const std::exception& error) {
    problem = "tutti: rank 0 cannot read the checkpoint '" + path + "': " + error.what();
  }
  for (auto& [tensor, value] : values) tensor.set_data(value);
  return problem;
}

void DataParallelCore::load(const std::string& path) {
  const std::string problem = group_.rank() == 0 ? load_here(path) : std::string();
  agree_on_problem(problem);
  broadcast(parameters_, 0);
  broadcast(buffers_, 0);
}

StepCounts DataParallelCore::last_step() const { return reducer_->last_step(); }

std::size_t DataParallelCore::reduced_buckets() const { return reducer_->reduced_buckets(); }

}  // namespace tutti::torch
