#include <tutti/torch/process_group.hpp>

#include "failures.hpp"
#include "views.hpp"

namespace tutti::torch {
namespace {

using torch_plugin::view_to_move;
using torch_plugin::view_to_reduce;
using torch_plugin::views_to_move;
using torch_plugin::views_to_reduce;
using torch_plugin::with_torchs_exceptions;

/// Starts an operation whose Work keeps these tensors.
template <class Start>
Work started(std::vector<at::Tensor> tensors, const Start& start) {
  return {with_torchs_exceptions(start), std::move(tensors)};
}

std::vector<at::Tensor> with(std::vector<at::Tensor> tensors, const at::Tensor& one) {
  tensors.push_back(one);
  return tensors;
}

}  // namespace

Work& Work::operator=(Work&& other) noexcept {
  work_ = std::move(other.work_);  // first: it waits for the operation that it replaces
  tensors_ = std::move(other.tensors_);
  return *this;
}

void Work::wait() {
  with_torchs_exceptions([&] {
    try {
      work_.wait();
    } catch (const Error& problem) {
      torch_plugin::keep_if_in_use(problem.status(), tensors_);
      throw;
    }
  });
}

bool Work::wait_for(std::chrono::nanoseconds limit) { return work_.wait_for(limit); }

bool Work::done() const { return work_.done(); }

int Work::source_rank() const noexcept { return work_.source_rank(); }

Work ProcessGroup::all_reduce(const at::Tensor& tensor, const AllReduceOptions& options) {
  const TensorView view = view_to_reduce(tensor, "all_reduce");
  return started({tensor}, [&] { return group_.all_reduce(view, options); });
}

Work ProcessGroup::all_reduce_coalesced(const std::vector<at::Tensor>& tensors,
                                        const AllReduceOptions& options) {
  const auto views = views_to_reduce(tensors, "all_reduce_coalesced");
  return started(tensors, [&] { return group_.all_reduce_coalesced(views, options); });
}

Work ProcessGroup::broadcast(const at::Tensor& tensor, const BroadcastOptions& options) {
  const TensorView view = view_to_move(tensor, "broadcast");
  return started({tensor}, [&] { return group_.broadcast(view, options); });
}

Work ProcessGroup::broadcast_coalesced(const std::vector<at::Tensor>& tensors,
                                       const BroadcastOptions& options) {
  const auto views = views_to_move(tensors, "broadcast_coalesced");
  return started(tensors, [&] { return group_.broadcast_coalesced(views, options); });
}

Work ProcessGroup::reduce(const at::Tensor& tensor, const ReduceOptions& options) {
  const TensorView view = view_to_reduce(tensor, "reduce");
  return started({tensor}, [&] { return group_.reduce(view, options); });
}

Work ProcessGroup::all_gather(const at::Tensor& output, const at::Tensor& input,
                              const AllGatherOptions& options) {
  const TensorView to = view_to_move(output, "all_gather");
  const TensorView from = view_to_move(input, "all_gather");
  return started({output, input}, [&] { return group_.all_gather(to, from, options); });
}

Work ProcessGroup::all_gather(const std::vector<at::Tensor>& outputs, const at::Tensor& input,
                              const AllGatherOptions& options) {
  const auto to = views_to_move(outputs, "all_gather");
  const TensorView from = view_to_move(input, "all_gather");
  return started(with(outputs, input),
                 [&] { return group_.all_gather(std::span(to), from, options); });
}

Work ProcessGroup::gather(const std::vector<at::Tensor>& outputs, const at::Tensor& input,
                          const GatherOptions& options) {
  const auto to = views_to_move(outputs, "gather");
  const TensorView from = view_to_move(input, "gather");
  return started(with(outputs, input), [&] { return group_.gather(std::span(to), from, options); });
}

Work ProcessGroup::scatter(const at::Tensor& output, const std::vector<at::Tensor>& inputs,
                           const ScatterOptions& options) {
  const TensorView to = view_to_move(output, "scatter");
  const auto from = views_to_move(inputs, "scatter");
  return started(with(inputs, output),
                 [&] { return group_.scatter(to, std::span(from), options); });
}

Work ProcessGroup::reduce_scatter(const at::Tensor& output, const at::Tensor& input,
                                  const ReduceScatterOptions& options) {
  const TensorView to = view_to_reduce(output, "reduce_scatter");
  const TensorView from = view_to_reduce(input, "reduce_scatter");
  return started({output, input}, [&] { return group_.reduce_scatter(to, from, options); });
}

Work ProcessGroup::reduce_scatter(const at::Tensor& output, const std::vector<at::Tensor>& inputs,
                                  const ReduceScatterOptions& options) {
  const TensorView to = view_to_reduce(output, "reduce_scatter");
  const auto from = views_to_reduce(inputs, "reduce_scatter");
  return started(with(inputs, output),
                 [&] { return group_.reduce_scatter(to, std::span(from), options); });
}

Work ProcessGroup::all_to_all(const at::Tensor& output, const at::Tensor& input,
                              const AllToAllOptions& options) {
  const TensorView to = view_to_move(output, "all_to_all");
  const TensorView from = view_to_move(input, "all_to_all");
  return started({output, input}, [&] { return group_.all_to_all(to, from, options); });
}

Work ProcessGroup::all_to_all(const std::vector<at::Tensor>& outputs,
                              const std::vector<at::Tensor>& inputs,
                              const AllToAllOptions& options) {
  const auto to = views_to_move(outputs, "all_to_all");
  const auto from = views_to_move(inputs, "all_to_all");
  std::vector<at::Tensor> tensors = outputs;
  tensors.insert(tensors.end(), inputs.begin(), inputs.end());
  return started(std::move(tensors),
                 [&] { return group_.all_to_all(std::span(to), std::span(from), options); });
}

Work ProcessGroup::barrier(const BarrierOptions& options) {
  return started({}, [&] { return group_.barrier(options); });
}

void ProcessGroup::monitored_barrier(const MonitoredBarrierOptions& options) {
  with_torchs_exceptions([&] { group_.monitored_barrier(options); });
}

void ProcessGroup::send(const at::Tensor& tensor, int dst, const SendOptions& options) {
  const TensorView view = view_to_move(tensor, "send");
  with_torchs_exceptions([&] { group_.send(view, dst, options); });
}

int ProcessGroup::recv(const at::Tensor& tensor, int src, const RecvOptions& options) {
  const TensorView view = view_to_move(tensor, "recv");
  return with_torchs_exceptions([&] { return group_.recv(view, src, options); });
}

Work ProcessGroup::isend(const at::Tensor& tensor, int dst, const SendOptions& options) {
  const TensorView view = view_to_move(tensor, "isend");
  return started({tensor}, [&] { return group_.isend(view, dst, options); });
}

Work ProcessGroup::irecv(const at::Tensor& tensor, int src, const RecvOptions& options) {
  const TensorView view = view_to_move(tensor, "irecv");
  return started({tensor}, [&] { return group_.irecv(view, src, options); });
}

ProcessGroup ProcessGroup::new_group(std::span<const int> ranks, const NewGroupOptions& options) {
  return ProcessGroup(with_torchs_exceptions([&] { return group_.new_group(ranks, options); }));
}

void ProcessGroup::abort(std::string_view reason) { group_.abort(reason); }

ProcessGroup init_process_group(const InitOptions& options) {
  return ProcessGroup(with_torchs_exceptions([&] { return tutti::init_process_group(options); }));
}

}  // namespace tutti::torch
