#include <tutti/torch/functions.hpp>

#include <functional>
#include <numeric>
#include <utility>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "views.hpp"

namespace tutti::torch::nn {
namespace {

/// A linear map of the ranks' tensors, and the one that backward applies to the gradients.
struct Map {
  std::function<at::Tensor(const at::Tensor&)> apply;
  std::function<Map()> backward;
};

struct HeldMap : ::torch::CustomClassHolder {
  explicit HeldMap(Map given) : map(std::move(given)) {}
  Map map;
};

/// All functions are this one, with maps of their own. So the backward of a backward is one, too.
struct Apply : ::torch::autograd::Function<Apply> {
  using Context = ::torch::autograd::AutogradContext;

  static at::Tensor forward(Context* context, const at::Tensor& tensor, const Map& map) {
    context->saved_data["map"] = c10::IValue::make_capsule(c10::make_intrusive<HeldMap>(map));
    return map.apply(tensor.resolve_conj().resolve_neg().contiguous());
  }

  static std::vector<at::Tensor> backward(Context* context,
                                          const std::vector<at::Tensor>& gradients) {
    const auto held = context->saved_data["map"].toCapsule();
    const Map map = static_cast<const HeldMap&>(*held).map.backward();
    return {apply(gradients.front(), map), at::Tensor()};
  }
};

std::vector<std::int64_t> sizes_with(const at::Tensor& tensor, std::int64_t rows) {
  std::vector<std::int64_t> sizes = tensor.sizes().vec();
  sizes.front() = rows;
  return sizes;
}

void check_rows(const at::Tensor& tensor, const char* operation) {
  TORCH_CHECK_VALUE(tensor.defined() && tensor.dim() > 0, "tutti: ", operation,
                    ": the tensor has no dimension 0, along which blocks lie");
}

void check_op(ReduceOp op, const char* operation) {
  TORCH_CHECK_VALUE(op == ReduceOp::sum || op == ReduceOp::avg, "tutti: ", operation,
                    ": only sum and avg have a gradient here");
}

Map broadcast_map(const ProcessGroup& group, int root);

Map reduce_map(const ProcessGroup& group, int root) {
  return {[=, ranks = group](const at::Tensor& tensor) mutable {
            at::Tensor result = tensor.clone();
            ranks.reduce(result, {.root = root}).wait();
            return ranks.rank() == root ? result : result.zero_();
          },
          [=] { return broadcast_map(group, root); }};
}

Map broadcast_map(const ProcessGroup& group, int root) {
  return {[=, ranks = group](const at::Tensor& tensor) mutable {
            at::Tensor result = tensor.clone();
            ranks.broadcast(result, {.root = root}).wait();
            return result;
          },
          [=] { return reduce_map(group, root); }};
}

Map all_reduce_map(const ProcessGroup& group, ReduceOp op) {
  return {[=, ranks = group](const at::Tensor& tensor) mutable {
            at::Tensor result = tensor.clone();
            ranks.all_reduce(result, {.op = op}).wait();
            return result;
          },
          [=] { return all_reduce_map(group, op); }};
}

Map reduce_scatter_map(const ProcessGroup& group, ReduceOp op);

/// `op` is that of the reduce_scatter which is its backward: with avg the values are divided, too,
/// if `divided`.
Map all_gather_map(const ProcessGroup& group, ReduceOp op, bool divided) {
  return {[=, ranks = group](const at::Tensor& tensor) mutable {
            at::Tensor result =
                at::empty(sizes_with(tensor, tensor.size(0) * ranks.size()), tensor.options());
            ranks.all_gather(result, tensor).wait();
            return divided ? result.div_(ranks.size()) : result;
          },
          [=] { return reduce_scatter_map(group, op); }};
}

Map reduce_scatter_map(const ProcessGroup& group, ReduceOp op) {
  return {[=, ranks = group](const at::Tensor& tensor) mutable {
            at::Tensor result =
                at::empty(sizes_with(tensor, tensor.size(0) / ranks.size()), tensor.options());
            ranks.reduce_scatter(result, tensor, {.op = op}).wait();
            return result;
          },
          [=] { return all_gather_map(group, op, op == ReduceOp::avg); }};
}

Map own_block_map(const ProcessGroup& group);

/// Zeros but for the rank's own block.
Map padded_map(const ProcessGroup& group) {
  return {[group](const at::Tensor& tensor) {
            at::Tensor result =
                at::zeros(sizes_with(tensor, tensor.size(0) * group.size()), tensor.options());
            result.narrow(0, tensor.size(0) * group.rank(), tensor.size(0)).copy_(tensor);
            return result;
          },
          [group] { return own_block_map(group); }};
}

Map own_block_map(const ProcessGroup& group) {
  return {[group](const at::Tensor& tensor) {
            const std::int64_t rows = tensor.size(0) / group.size();
            return tensor.narrow(0, rows * group.rank(), rows).clone();
          },
          [group] { return padded_map(group); }};
}

Map scatter_map(const ProcessGroup& group, std::int64_t rows, int root);

Map gather_map(const ProcessGroup& group, std::int64_t rows, int root) {
  return {[=, ranks = group](const at::Tensor& tensor) mutable {
            const bool here = ranks.rank() == root;
            at::Tensor result =
                at::empty(sizes_with(tensor, here ? rows * ranks.size() : 0), tensor.options());
            ranks
                .gather(here ? result.chunk(ranks.size()) : std::vector<at::Tensor>{}, tensor,
                        {.root = root})
                .wait();
            return result;
          },
          [=] { return scatter_map(group, rows, root); }};
}

Map scatter_map(const ProcessGroup& group, std::int64_t rows, int root) {
  return {[=, ranks = group](const at::Tensor& tensor) mutable {
            const bool here = ranks.rank() == root;
            at::Tensor result = at::empty(sizes_with(tensor, rows), tensor.options());
            ranks
                .scatter(result, here ? tensor.chunk(ranks.size()) : std::vector<at::Tensor>{},
                         {.root = root})
                .wait();
            return result;
          },
          [=] { return gather_map(group, rows, root); }};
}

Map all_to_all_map(const ProcessGroup& group, const std::vector<std::int64_t>& output_splits,
                   const std::vector<std::int64_t>& input_splits) {
  return {[=, ranks = group](const at::Tensor& tensor) mutable {
            const std::int64_t rows =
                output_splits.empty()
                    ? tensor.size(0)
                    : std::accumulate(output_splits.begin(), output_splits.end(), std::int64_t{0});
            at::Tensor result = at::empty(sizes_with(tensor, rows), tensor.options());
            if (output_splits.empty()) {
              ranks.all_to_all(result, tensor).wait();
              return result;
            }
            using torch_plugin::split_counts;
            const auto out = split_counts(result, output_splits, ranks.size(), "output");
            const auto in = split_counts(tensor, input_splits, ranks.size(), "input");
            ranks.all_to_all(result, tensor, {.output_splits = out, .input_splits = in}).wait();
            return result;
          },
          [=] { return all_to_all_map(group, input_splits, output_splits); }};
}

}  // namespace

at::Tensor all_reduce(ProcessGroup& group, const at::Tensor& tensor, ReduceOp op) {
  check_op(op, "nn::all_reduce");
  return Apply::apply(tensor, all_reduce_map(group, op));
}

at::Tensor broadcast(ProcessGroup& group, const at::Tensor& tensor, int root) {
  return Apply::apply(tensor, broadcast_map(group, root));
}

at::Tensor reduce(ProcessGroup& group, const at::Tensor& tensor, int root) {
  return Apply::apply(tensor, reduce_map(group, root));
}

at::Tensor all_gather_single(ProcessGroup& group, const at::Tensor& tensor,
                             GatherBackward backward) {
  check_rows(tensor, "nn::all_gather_single");
  Map map =
      all_gather_map(group, backward == GatherBackward::avg ? ReduceOp::avg : ReduceOp::sum, false);
  if (backward == GatherBackward::own) map.backward = [group] { return own_block_map(group); };
  return Apply::apply(tensor, map);
}

std::vector<at::Tensor> all_gather(ProcessGroup& group, const at::Tensor& tensor,
                                   GatherBackward backward) {
  return all_gather_single(group, tensor.unsqueeze(0), backward).unbind(0);
}

at::Tensor gather(ProcessGroup& group, const at::Tensor& tensor, int root) {
  check_rows(tensor, "nn::gather");
  return Apply::apply(tensor, gather_map(group, tensor.size(0), root));
}

at::Tensor scatter(ProcessGroup& group, const at::Tensor& tensor, std::int64_t rows, int root) {
  check_rows(tensor, "nn::scatter");
  const std::int64_t expected = group.rank() == root ? rows * group.size() : 0;
  TORCH_CHECK_VALUE(rows >= 0 && tensor.size(0) == expected, "tutti: nn::scatter: the tensor has ",
                    tensor.size(0), " rows; with root ", root, " and blocks of ", rows,
                    " rows this rank must give ", expected);
  return Apply::apply(tensor, scatter_map(group, rows, root));
}

at::Tensor reduce_scatter_single(ProcessGroup& group, const at::Tensor& tensor, ReduceOp op) {
  check_rows(tensor, "nn::reduce_scatter_single");
  check_op(op, "nn::reduce_scatter_single");
  TORCH_CHECK_VALUE(tensor.size(0) % group.size() == 0,
                    "tutti: nn::reduce_scatter_single: ", tensor.size(0),
                    " rows do not divide equally among ", group.size(), " ranks");
  return Apply::apply(tensor, reduce_scatter_map(group, op));
}

at::Tensor all_to_all_single(ProcessGroup& group, const at::Tensor& tensor,
                             const std::vector<std::int64_t>& output_splits,
                             const std::vector<std::int64_t>& input_splits) {
  check_rows(tensor, "nn::all_to_all_single");
  TORCH_CHECK_VALUE(output_splits.empty() == input_splits.empty(),
                    "tutti: nn::all_to_all_single: splits are given for both sides, or for none");
  return Apply::apply(tensor, all_to_all_map(group, output_splits, input_splits));
}

}  // namespace tutti::torch::nn
