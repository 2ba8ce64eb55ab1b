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

void check_defined(const at::Tensor& tensor, const char* operation) {
  TORCH_CHECK_VALUE(tensor.defined(), "tutti: ", operation, ": a tensor is undefined");
}

void check_rows(const at::Tensor& tensor, const char* operation) {
  TORCH_CHECK_VALUE(tensor.defined() && tensor.dim() > 0, "tutti: ", operation,
                    ": the tensor has no dimension 0, along which blocks lie");
}

enum class Shapes { equal, any };

/// A tensor for each rank, of one dtype.
void check_list(const std::vector<at::Tensor>& tensors, int size, Shapes shapes,
                const char* operation) {
  TORCH_CHECK_VALUE(tensors.size() == static_cast<std::size_t>(size), "tutti: ", operation,
                    ": the list has ", tensors.size(),
                    " tensors; it must have one for each of the ", size, " ranks");
  for (const at::Tensor& tensor : tensors) {
    check_defined(tensor, operation);
    const at::Tensor& first = tensors.front();
    TORCH_CHECK_VALUE(tensor.scalar_type() == first.scalar_type(), "tutti: ", operation,
                      ": the tensors must have one dtype, not ", first.scalar_type(), " and ",
                      tensor.scalar_type());
    TORCH_CHECK_VALUE(shapes == Shapes::any || tensor.sizes() == first.sizes(),
                      "tutti: ", operation, ": the tensors must have one shape, not ",
                      first.sizes(), " and ", tensor.sizes());
  }
}

void check_op(ReduceOp op, const char* operation) {
  TORCH_CHECK_VALUE(op == ReduceOp::sum || op == ReduceOp::avg, "tutti: ", operation,
                    ": only sum and avg have a gradient here");
}

Map broadcast_map(const ProcessGroup& group, int root, ReduceOp op);

Map reduce_map(const ProcessGroup& group, int root, ReduceOp op) {
  return {[=, ranks = group](const at::Tensor& tensor) mutable {
            at::Tensor result = tensor.clone();
            ranks.reduce(result, {.root = root, .op = op}).wait();
            return ranks.rank() == root ? result : result.zero_();
          },
          [=] { return broadcast_map(group, root, op); }};
}

/// `op` is that of the reduce which is its backward: with avg the values are divided, too.
Map broadcast_map(const ProcessGroup& group, int root, ReduceOp op) {
  return {[=, ranks = group](const at::Tensor& tensor) mutable {
            at::Tensor result = tensor.clone();
            ranks.broadcast(result, {.root = root}).wait();
            return op == ReduceOp::avg ? result.div_(ranks.size()) : result;
          },
          [=] { return reduce_map(group, root, op); }};
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

/// The result of a gather on the other ranks: nothing (0 rows), or zeros in place of all blocks.
enum class Elsewhere { nothing, zeros };

Map scatter_map(const ProcessGroup& group, std::int64_t rows, int root, Elsewhere elsewhere);

Map gather_map(const ProcessGroup& group, std::int64_t rows, int root, Elsewhere elsewhere) {
  return {[=, ranks = group](const at::Tensor& tensor) mutable {
            const bool here = ranks.rank() == root;
            const std::int64_t all = rows * ranks.size();
            at::Tensor result =
                here ? at::empty(sizes_with(tensor, all), tensor.options())
                     : at::zeros(sizes_with(tensor, elsewhere == Elsewhere::zeros ? all : 0),
                                 tensor.options());
            ranks
                .gather(here ? result.chunk(ranks.size()) : std::vector<at::Tensor>{}, tensor,
                        {.root = root})
                .wait();
            return result;
          },
          [=] { return scatter_map(group, rows, root, elsewhere); }};
}

Map scatter_map(const ProcessGroup& group, std::int64_t rows, int root, Elsewhere elsewhere) {
  return {[=, ranks = group](const at::Tensor& tensor) mutable {
            const bool here = ranks.rank() == root;
            at::Tensor result = at::empty(sizes_with(tensor, rows), tensor.options());
            ranks
                .scatter(result, here ? tensor.chunk(ranks.size()) : std::vector<at::Tensor>{},
                         {.root = root})
                .wait();
            return result;
          },
          [=] { return gather_map(group, rows, root, elsewhere); }};
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
  check_defined(tensor, "nn::all_reduce");
  check_op(op, "nn::all_reduce");
  return Apply::apply(tensor, all_reduce_map(group, op));
}

at::Tensor broadcast(ProcessGroup& group, const at::Tensor& tensor, int root) {
  check_defined(tensor, "nn::broadcast");
  return Apply::apply(tensor, broadcast_map(group, root, ReduceOp::sum));
}

at::Tensor reduce(ProcessGroup& group, const at::Tensor& tensor, int root, ReduceOp op) {
  check_defined(tensor, "nn::reduce");
  check_op(op, "nn::reduce");
  return Apply::apply(tensor, reduce_map(group, root, op));
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
  check_defined(tensor, "nn::all_gather");
  return all_gather_single(group, tensor.unsqueeze(0), backward).unbind(0);
}

at::Tensor gather_single(ProcessGroup& group, const at::Tensor& tensor, int root) {
  check_rows(tensor, "nn::gather_single");
  return Apply::apply(tensor, gather_map(group, tensor.size(0), root, Elsewhere::nothing));
}

std::vector<at::Tensor> gather(ProcessGroup& group, const at::Tensor& tensor, int root) {
  check_defined(tensor, "nn::gather");
  return Apply::apply(tensor.unsqueeze(0), gather_map(group, 1, root, Elsewhere::zeros)).unbind(0);
}

at::Tensor scatter_single(ProcessGroup& group, const at::Tensor& tensor, std::int64_t rows,
                          int root) {
  check_rows(tensor, "nn::scatter_single");
  const std::int64_t expected = group.rank() == root ? rows * group.size() : 0;
  TORCH_CHECK_VALUE(rows >= 0 && tensor.size(0) == expected,
                    "tutti: nn::scatter_single: the tensor has ", tensor.size(0),
                    " rows; with root ", root, " and blocks of ", rows,
                    " rows this rank must give ", expected);
  return Apply::apply(tensor, scatter_map(group, rows, root, Elsewhere::nothing));
}

at::Tensor scatter(ProcessGroup& group, const std::vector<at::Tensor>& tensors, int root) {
  check_list(tensors, group.size(), Shapes::equal, "nn::scatter");
  return Apply::apply(at::stack(tensors), scatter_map(group, 1, root, Elsewhere::zeros)).squeeze(0);
}

at::Tensor reduce_scatter_single(ProcessGroup& group, const at::Tensor& tensor, ReduceOp op) {
  check_rows(tensor, "nn::reduce_scatter_single");
  check_op(op, "nn::reduce_scatter_single");
  TORCH_CHECK_VALUE(tensor.size(0) % group.size() == 0,
                    "tutti: nn::reduce_scatter_single: ", tensor.size(0),
                    " rows do not divide equally among ", group.size(), " ranks");
  return Apply::apply(tensor, reduce_scatter_map(group, op));
}

at::Tensor reduce_scatter(ProcessGroup& group, const std::vector<at::Tensor>& tensors,
                          ReduceOp op) {
  check_list(tensors, group.size(), Shapes::equal, "nn::reduce_scatter");
  check_op(op, "nn::reduce_scatter");
  return Apply::apply(at::stack(tensors), reduce_scatter_map(group, op)).squeeze(0);
}

at::Tensor all_to_all_single(ProcessGroup& group, const at::Tensor& tensor,
                             const std::vector<std::int64_t>& output_splits,
                             const std::vector<std::int64_t>& input_splits) {
  check_rows(tensor, "nn::all_to_all_single");
  TORCH_CHECK_VALUE(output_splits.empty() == input_splits.empty(),
                    "tutti: nn::all_to_all_single: splits are given for both sides, or for none");
  return Apply::apply(tensor, all_to_all_map(group, output_splits, input_splits));
}

std::vector<at::Tensor> all_to_all(ProcessGroup& group, const std::vector<at::Tensor>& tensors,
                                   const std::vector<std::vector<std::int64_t>>& output_shapes) {
  check_list(tensors, group.size(), Shapes::any, "nn::all_to_all");
  TORCH_CHECK_VALUE(output_shapes.empty() || output_shapes.size() == tensors.size(),
                    "tutti: nn::all_to_all: ", output_shapes.size(),
                    " output_shapes are given; it must be one for each of the ", group.size(),
                    " ranks, or none");
  std::vector<at::Tensor> parts;
  std::vector<std::vector<std::int64_t>> shapes = output_shapes;
  std::vector<std::int64_t> sent;
  for (const at::Tensor& tensor : tensors) {
    parts.push_back(tensor.reshape({-1}));
    sent.push_back(tensor.numel());
    if (output_shapes.empty()) shapes.push_back(tensor.sizes().vec());
  }
  std::vector<std::int64_t> received;
  for (const std::vector<std::int64_t>& shape : shapes) {
    for (const std::int64_t length : shape)
      TORCH_CHECK_VALUE(length >= 0, "tutti: nn::all_to_all: output_shapes has a negative number: ",
                        at::IntArrayRef(shape));
    received.push_back(c10::multiply_integers(shape));
  }
  std::vector<at::Tensor> results =
      Apply::apply(at::cat(parts), all_to_all_map(group, received, sent))
          .split_with_sizes(received);
  for (std::size_t rank = 0; rank < results.size(); ++rank)
    results[rank] = results[rank].view(shapes[rank]);
  return results;
}

}  // namespace tutti::torch::nn
