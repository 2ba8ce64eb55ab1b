#include "reducer.hpp"

#include <algorithm>
#include <numeric>
#include <unordered_set>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/variable.h>

#include "failures.hpp"

namespace tutti::torch {

using torch_plugin::with_torchs_exceptions;

/// Tells the reducer that autograd has added up the gradient of a parameter.
class Reducer::Listener final : public ::torch::autograd::FunctionPostHook {
 public:
  Listener(std::weak_ptr<Reducer> reducer, std::size_t number)
      : reducer_(std::move(reducer)), number_(number) {}

  std::vector<at::Tensor> operator()(const std::vector<at::Tensor>& outputs,
                                     const std::vector<at::Tensor>& /*inputs*/) override {
    if (const auto reducer = reducer_.lock()) reducer->on_gradient(number_);
    return outputs;
  }

 private:
  std::weak_ptr<Reducer> reducer_;
  std::size_t number_;
};

Reducer::Reducer(ProcessGroup group, std::vector<std::string> names,
                 std::vector<at::Tensor> parameters, const DataParallelOptions& options)
    : group_(std::move(group)),
      names_(std::move(names)),
      parameters_(std::move(parameters)),
      options_(options),
      places_(parameters_.size()),
      ready_(parameters_.size()),
      used_(parameters_.size()),
      usage_(parameters_.size()),
      // The order may change with each step if the used parameters do.
      rebuilt_(options.find_unused_parameters && !options.static_graph) {
  if (options_.static_graph) graph_.emplace(names_);
  std::vector<std::size_t> order(parameters_.size());
  std::iota(order.rbegin(), order.rend(), std::size_t{0});
  buckets_ = make_buckets(parameters_, order, options_.first_bucket_bytes, options_.bucket_bytes);
  place_members();
}

Reducer::~Reducer() {
  for (std::size_t number = 0; number < listeners_.size(); ++number)
    accumulators_[number]->del_post_hook(listeners_[number]);
}

void Reducer::listen() {
  for (std::size_t number = 0; number < parameters_.size(); ++number) {
    // A parameter holds its accumulator weakly, and it must not lose the listener.
    accumulators_.push_back(::torch::autograd::impl::grad_accumulator(parameters_[number]));
    listeners_.push_back(
        accumulators_.back()->add_post_hook(std::make_unique<Listener>(weak_from_this(), number)));
  }
}

void Reducer::place_members() {
  for (std::size_t index = 0; index < buckets_.size(); ++index)
    for (std::size_t k = 0; k < buckets_[index].members.size(); ++k)
      places_[buckets_[index].members[k]] = {index, k};
}

void Reducer::begin_forward() {
  const std::lock_guard lock(mutex_);
  TORCH_CHECK(!failed_ && (!begun_ || left_ > 0),
              "tutti: DistributedDataParallel: the last backward failed; make the group and this "
              "object anew");
  TORCH_CHECK(!begun_,
              "tutti: DistributedDataParallel: the last backward has brought no gradient for ",
              names_without_gradient(),
              ", so the other ranks wait for them. If outputs do not always depend on all "
              "parameters, set find_unused_parameters");
  if (stepped_ && !rebuilt_) rebuild();
}

std::string Reducer::names_without_gradient() const {
  constexpr std::size_t kMost = 10;
  std::string names;
  std::size_t count = 0;
  for (std::size_t number = 0; number < parameters_.size(); ++number) {
    if (ready_[number]) continue;
    if (++count > kMost) return names + " and others";
    names += (names.empty() ? "'" : ", '") + names_[number] + "'";
  }
  return names;
}

void Reducer::rebuild() {
  rebuilt_ = true;
  std::vector<std::uint64_t> order;
  // Rank 0 may have had no step of its own; then the buckets stay as they are.
  if (arrivals_.size() == parameters_.size())
    order.assign(arrivals_.begin(), arrivals_.end());
  else
    order.assign(parameters_.size(), parameters_.size());
  with_torchs_exceptions([&] { group_.group().broadcast(order, {.root = 0}).wait(); });
  if (order.empty() || order.front() == parameters_.size()) return;
  buckets_ = make_buckets(parameters_, {order.begin(), order.end()}, options_.first_bucket_bytes,
                          options_.bucket_bytes);
  place_members();
}

void Reducer::prepare(const std::vector<at::Tensor>& outputs) {
  const std::lock_guard lock(mutex_);
  unused_.clear();
  if (graph_) {
    unused_ = graph_->unused();
    for (const at::Tensor& output : outputs)
      if (output.defined() && output.requires_grad())
        output.register_hook([weak = weak_from_this()](const at::Tensor&) {
          if (const auto reducer = weak.lock()) reducer->await_end();
        });
  } else if (options_.find_unused_parameters) {
    find_unused(outputs);
  }
  begin_step();
  awaits_ = parameters_.empty() ? Awaits::nothing : Awaits::gradients;
}

void Reducer::pause() {
  const std::lock_guard lock(mutex_);
  awaits_ = Awaits::nothing;
}

void Reducer::pause_between_steps() {
  const std::lock_guard lock(mutex_);
  if (awaits_ == Awaits::forward) awaits_ = Awaits::nothing;
}

void Reducer::begin_step() {
  for (Bucket& bucket : buckets_) bucket.missing = bucket.members.size();
  ready_.assign(ready_.size(), false);
  if (graph_) graph_->begin_step();
  end_awaited_ = false;
  arrivals_.clear();
  next_ = 0;
  left_ = parameters_.size();
  counts_ = {buckets_.size(), 0};
}

void Reducer::find_unused(const std::vector<at::Tensor>& outputs) {
  std::unordered_set<const ::torch::autograd::Node*> seen;
  std::vector<const ::torch::autograd::Node*> waiting;
  const auto visit = [&](const ::torch::autograd::Node* node) {
    if (node != nullptr && seen.insert(node).second) waiting.push_back(node);
  };
  for (const at::Tensor& output : outputs)
    if (output.defined() && output.requires_grad())
      visit(::torch::autograd::impl::gradient_edge(output).function.get());
  while (!waiting.empty()) {
    const ::torch::autograd::Node* node = waiting.back();
    waiting.pop_back();
    for (const auto& edge : node->next_edges()) visit(edge.function.get());
  }
  for (std::size_t number = 0; number < parameters_.size(); ++number)
    if (!seen.contains(accumulators_[number].get())) unused_.push_back(number);
}

template <class Part>
void Reducer::in_step(const Part& part) {
  const std::lock_guard lock(mutex_);
  const at::NoGradGuard no_grad;
  try {
    part();
  } catch (...) {
    failed_ = true;
    throw;
  }
}

void Reducer::on_gradient(std::size_t number) {
  in_step([&] {
    used_[number] = 1;
    if (awaits_ != Awaits::nothing) accept(number);
  });
}

void Reducer::await_end() {
  const std::lock_guard lock(mutex_);
  if (awaits_ != Awaits::gradients || end_awaited_) return;
  end_awaited_ = true;
  ::torch::autograd::Engine::get_default_engine().queue_callback([weak = weak_from_this()] {
    if (const auto reducer = weak.lock()) reducer->end_backward();
  });
}

void Reducer::end_backward() {
  in_step([&] {
    end_awaited_ = false;
    if (!begun_) return;  // this backward was for other tensors
    if (!graph_->learned()) learn_graph();
    TORCH_CHECK(left_ == 0,
                "tutti: DistributedDataParallel: this backward has brought no gradient for ",
                names_without_gradient(),
                ", but the first step had them; with static_graph all steps must use the same "
                "parameters. If they change, set find_unused_parameters instead");
    finish();
  });
}

void Reducer::learn_graph() {
  graph_->learn();
  arrivals_.insert(arrivals_.end(), graph_->unused().begin(), graph_->unused().end());
  for (std::size_t number = 0; number < parameters_.size(); ++number) {
    // If the other ranks had their first step without this one, it is too late for more.
    if (stepped_ && used_[number] != 0 && usage_[number] == 0) graph_->refuse(number);
    take(number);
  }
  left_ = 0;
  while (next_ < buckets_.size()) launch(next_++);
  if (exchanges_usage()) launch_usage();
}

void Reducer::accept(std::size_t number) {
  TORCH_CHECK(awaits_ == Awaits::gradients && (graph_ || !ready_[number]),
              "tutti: DistributedDataParallel: '", names_[number],
              "' got its gradient twice after one forward; use no_sync() for all but the last "
              "backward");
  if (!begun_) {
    begun_ = true;
    for (const std::size_t one : unused_) {
      // With static_graph, in a backward of its own that no_sync let stay here.
      if (graph_ && used_[one] != 0 && usage_[one] == 0) graph_->refuse(one);
      mark(one);
    }
  }
  if (graph_) {
    await_end();
    if (!graph_->learned() && !ready_[number]) {
      ready_[number] = true;
      arrivals_.push_back(number);
    }
    if (graph_->count(number)) mark(number);
    return;
  }
  arrivals_.push_back(number);
  mark(number);
  if (left_ > 0) return;
  if (exchanges_usage()) launch_usage();
  ::torch::autograd::Engine::get_default_engine().queue_callback([weak = weak_from_this()] {
    if (const auto reducer = weak.lock()) reducer->finish();
  });
}

void Reducer::mark(std::size_t number) {
  TORCH_CHECK(!ready_[number], "tutti: DistributedDataParallel: '", names_[number],
              "' got a gradient, though the outputs of forward do not depend on it");
  take(number);
  ready_[number] = true;
  --left_;
  --buckets_[places_[number].first].missing;
  while (next_ < buckets_.size() && buckets_[next_].missing == 0) launch(next_++);
}

void Reducer::take(std::size_t number) {
  const auto [index, position] = places_[number];
  const at::Tensor& view = buckets_[index].views[position];
  at::Tensor& gradient = parameters_[number].mutable_grad();
  if (!gradient.defined()) {
    view.zero_();
    return;
  }
  TORCH_CHECK_VALUE(gradient.layout() == at::kStrided, "tutti: DistributedDataParallel: '",
                    names_[number], "' has a sparse gradient, which cannot be averaged");
  if (gradient.data_ptr() == view.data_ptr() && gradient.strides() == view.strides()) return;
  view.copy_(gradient);
  if (options_.gradient_as_bucket_view) gradient = view;
}

void Reducer::launch(std::size_t index) {
  Bucket& bucket = buckets_[index];
  if (left_ > 0) ++counts_.overlapped;
  if (hook_) {
    GradBucket given{index, index + 1 == buckets_.size(), bucket.flat, bucket.views, {}};
    for (const std::size_t member : bucket.members) given.parameters.push_back(parameters_[member]);
    bucket.finish = hook_(group_, given);
    TORCH_CHECK_VALUE(bucket.finish != nullptr,
                      "tutti: DistributedDataParallel: the hook returned no function that "
                      "finishes its bucket");
    return;
  }
  bucket.work = group_.all_reduce(bucket.flat, {.op = divisor_ ? ReduceOp::sum : ReduceOp::avg});
}

bool Reducer::tracks_usage() const noexcept {
  return options_.find_unused_parameters || graph_.has_value();
}

bool Reducer::exchanges_usage() const noexcept { return graph_ ? !stepped_ : tracks_usage(); }

void Reducer::launch_usage() {
  usage_ = used_;
  usage_work_ = with_torchs_exceptions([&] { return group_.group().all_reduce(usage_); });
}

void Reducer::finish() {
  in_step([&] {
    wait_for_all();
    for (const Bucket& bucket : buckets_)
      for (std::size_t k = 0; k < bucket.members.size(); ++k)
        hand_out(bucket.members[k], bucket.views[k]);
    std::ranges::fill(used_, 0);
    last_ = counts_;
    awaits_ = Awaits::forward;
    begun_ = false;
    stepped_ = true;
  });
}

void Reducer::wait_for_all() {
  for (Bucket& bucket : buckets_) {
    if (bucket.finish) {
      const at::Tensor result = std::exchange(bucket.finish, nullptr)();
      TORCH_CHECK_VALUE(result.defined() && result.numel() == bucket.flat.numel(),
                        "tutti: DistributedDataParallel: a hook gave back a tensor of another "
                        "number of elements than its bucket has");
      if (result.data_ptr() != bucket.flat.data_ptr())
        bucket.flat.copy_(result.reshape({bucket.flat.numel()}));
    } else {
      bucket.work.wait();
    }
    if (divisor_) bucket.flat.div_(*divisor_);
  }
  if (exchanges_usage()) with_torchs_exceptions([&] { usage_work_.wait(); });
}

void Reducer::hand_out(std::size_t number, const at::Tensor& view) {
  // A parameter that no rank has used keeps the gradient that it had: optimizers then leave it
  // alone.
  if (tracks_usage() && usage_[number] == 0) return;
  at::Tensor& gradient = parameters_[number].mutable_grad();
  if (options_.gradient_as_bucket_view)
    gradient = view;
  else if (gradient.defined())
    gradient.copy_(view);
  else
    gradient = view.clone();
}

void Reducer::shadow_step() {
  in_step([&] {
    begin_step();
    std::ranges::fill(used_, 0);
    left_ = 0;
    for (Bucket& bucket : buckets_) bucket.flat.zero_();
    for (std::size_t index = 0; index < buckets_.size(); ++index) launch(index);
    if (exchanges_usage()) launch_usage();
    wait_for_all();
    stepped_ = true;
  });
}

void Reducer::set_divisor(std::optional<int> divisor) {
  const std::lock_guard lock(mutex_);
  TORCH_CHECK_VALUE(!divisor || !hook_,
                    "tutti: join: a hook divides by the size of the group, so "
                    "divide_by_initial_world_size must be true");
  divisor_ = divisor;
}

void Reducer::set_hook(CommHook hook) {
  const std::lock_guard lock(mutex_);
  TORCH_CHECK_VALUE(hook != nullptr, "tutti: register_comm_hook: the hook is empty");
  TORCH_CHECK(!hook_ && !stepped_ && !begun_,
              "tutti: register_comm_hook: a hook is registered once, before the first step");
  hook_ = std::move(hook);
}

StepCounts Reducer::last_step() const {
  const std::lock_guard lock(mutex_);
  return last_;
}

std::size_t Reducer::reduced_buckets() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::size_t>(
      std::count_if(buckets_.begin(), buckets_.begin() + static_cast<std::ptrdiff_t>(next_),
                    [this](const Bucket& bucket) { return !hook_ && bucket.work.done(); }));
}

}  // namespace tutti::torch
