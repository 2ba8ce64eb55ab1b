#include "views.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <utility>

#include <torch/version.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

namespace tutti::torch_plugin {
namespace {

#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 13
using PremulSumFactor = c10d::PreMulSumSupplement;
#else
using PremulSumFactor = c10d::NCCLPreMulSumSupplement;
#endif

std::optional<DType> dtype_of(at::ScalarType type) noexcept {
  switch (type) {
    case at::kBool: return DType::bool_;
    case at::kByte: return DType::uint8;
    case at::kChar: return DType::int8;
    case at::kUInt16: return DType::uint16;
    case at::kShort: return DType::int16;
    case at::kUInt32: return DType::uint32;
    case at::kInt: return DType::int32;
    case at::kUInt64: return DType::uint64;
    case at::kLong: return DType::int64;
    case at::kHalf: return DType::float16;
    case at::kBFloat16: return DType::bfloat16;
    case at::kFloat: return DType::float32;
    case at::kDouble: return DType::float64;
    case at::kFloat8_e4m3fn: return DType::float8_e4m3;
    case at::kFloat8_e5m2: return DType::float8_e5m2;
    case at::kComplexFloat: return DType::complex64;
    case at::kComplexDouble: return DType::complex128;
    default: return std::nullopt;
  }
}

/// A dtype of as many bytes.
std::optional<DType> as_wide_as(at::ScalarType type) noexcept {
  switch (c10::elementSize(type)) {
    case 1: return DType::uint8;
    case 2: return DType::uint16;
    case 4: return DType::uint32;
    case 8: return DType::uint64;
    case 16: return DType::complex128;
    default: return std::nullopt;
  }
}

void check(const at::Tensor& tensor, const char* operation) {
  TORCH_CHECK_VALUE(tensor.defined(), "tutti: ", operation, ": a tensor is undefined");
  TORCH_CHECK_VALUE(tensor.device().is_cpu() || tensor.device().is_cuda(), "tutti: ", operation,
                    ": the tensor is on ", tensor.device(),
                    ", and this backend takes tensors of the CPU and of NVIDIA GPUs");
  TORCH_CHECK_VALUE(tensor.layout() == at::kStrided, "tutti: ", operation, ": the tensor is ",
                    tensor.layout(), "; in torch.distributed only all_reduce takes sparse ones");
  TORCH_CHECK_VALUE(!tensor.is_conj() && !tensor.is_neg(), "tutti: ", operation,
                    ": the tensor is a conjugated or negated view; call resolve_conj() and "
                    "resolve_neg() first");
}

Device place_of(const at::Tensor& tensor) {
  if (tensor.device().is_cpu()) return {};
  return {DeviceType::cuda, tensor.device().index()};
}

/// Dimensions that lie in a row as one, so that most tensors of many dimensions have few.
struct Layout {
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> strides;

  explicit Layout(const at::Tensor& tensor) {
    for (std::int64_t d = 0; d < tensor.dim(); ++d) {
      const std::int64_t size = tensor.size(d);
      const std::int64_t stride = tensor.stride(d);
      if (size == 1) continue;
      if (!sizes.empty() && strides.back() == size * stride) {
        sizes.back() *= size;
        strides.back() = stride;
      } else {
        sizes.push_back(size);
        strides.push_back(stride);
      }
    }
  }
};

TensorView view_as(const at::Tensor& tensor, DType dtype, const char* operation) {
  if (tensor.is_contiguous()) {
    return {tensor.data_ptr(), dtype, static_cast<std::size_t>(tensor.numel()), place_of(tensor)};
  }
  const Layout layout(tensor);
  TORCH_CHECK_VALUE(layout.sizes.size() <= static_cast<std::size_t>(kMaxDims), "tutti: ", operation,
                    ": the tensor has strides in ", layout.sizes.size(),
                    " dimensions, and at most ", kMaxDims, " are taken; call contiguous() first");
  return {tensor.data_ptr(), dtype, std::span(layout.sizes), std::span(layout.strides),
          place_of(tensor)};
}

}  // namespace

TensorView view_to_reduce(const at::Tensor& tensor, const char* operation) {
  check(tensor, operation);
  const std::optional<DType> dtype = dtype_of(tensor.scalar_type());
  TORCH_CHECK_TYPE(dtype.has_value(), "tutti: ", operation, ": values of ", tensor.scalar_type(),
                   " cannot be combined");
  return view_as(tensor, *dtype, operation);
}

TensorView view_to_move(const at::Tensor& tensor, const char* operation) {
  check(tensor, operation);
  std::optional<DType> dtype = dtype_of(tensor.scalar_type());
  if (!dtype) dtype = as_wide_as(tensor.scalar_type());
  TORCH_CHECK_TYPE(dtype.has_value(), "tutti: ", operation, ": tensors of ", tensor.scalar_type(),
                   " cannot be sent");
  return view_as(tensor, *dtype, operation);
}

std::vector<TensorView> views_to_reduce(const std::vector<at::Tensor>& tensors,
                                        const char* operation) {
  std::vector<TensorView> views;
  views.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) views.push_back(view_to_reduce(tensor, operation));
  return views;
}

std::vector<TensorView> views_to_move(const std::vector<at::Tensor>& tensors,
                                      const char* operation) {
  std::vector<TensorView> views;
  views.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) views.push_back(view_to_move(tensor, operation));
  return views;
}

const at::Tensor& single(const std::vector<at::Tensor>& tensors, const char* operation) {
  TORCH_CHECK_VALUE(tensors.size() == 1, "tutti: ", operation, ": one tensor is wanted, ",
                    tensors.size(), " are given");
  return tensors.front();
}

const std::vector<at::Tensor>& one_per_rank(const std::vector<std::vector<at::Tensor>>& lists,
                                            int size, const char* operation) {
  TORCH_CHECK_VALUE(lists.size() == 1, "tutti: ", operation, ": one list of tensors is wanted, ",
                    lists.size(), " are given");
  TORCH_CHECK_VALUE(lists.front().size() == static_cast<std::size_t>(size), "tutti: ", operation,
                    ": the list has ", lists.front().size(),
                    " tensors; it must have one for each "
                    "of the ",
                    size, " ranks");
  return lists.front();
}

Reduction reduction_of(const c10d::ReduceOp& op, const char* operation) {
  switch (op) {
    case c10d::ReduceOp::SUM: return {ReduceOp::sum};
    case c10d::ReduceOp::AVG: return {ReduceOp::avg};
    case c10d::ReduceOp::PRODUCT: return {ReduceOp::product};
    case c10d::ReduceOp::MIN: return {ReduceOp::min};
    case c10d::ReduceOp::MAX: return {ReduceOp::max};
    case c10d::ReduceOp::BAND: return {ReduceOp::band};
    case c10d::ReduceOp::BOR: return {ReduceOp::bor};
    case c10d::ReduceOp::BXOR: return {ReduceOp::bxor};
    case c10d::ReduceOp::PREMUL_SUM: {
      const auto* given = dynamic_cast<const PremulSumFactor*>(op.supplement_.get());
      TORCH_CHECK_VALUE(given != nullptr, "tutti: ", operation, ": PREMUL_SUM without a factor");
      if (!given->tensor_factor.defined()) return {ReduceOp::premul_sum, given->double_factor};
      TORCH_CHECK_TYPE(!given->tensor_factor.is_complex(), "tutti: ", operation,
                       ": the factor of PREMUL_SUM must be real");
      return {ReduceOp::premul_sum, given->tensor_factor.item<double>()};
    }
    default:
      TORCH_CHECK_VALUE(false, "tutti: ", operation, ": there is no reduce op ",
                        static_cast<int>(op.op_));
  }
}

int root_of(std::int64_t rank, const char* operation) {
  TORCH_CHECK_VALUE(std::in_range<int>(rank), "tutti: ", operation,
                    ": the root must be a rank of the group, not ", rank);
  return static_cast<int>(rank);
}

std::chrono::milliseconds bounded(std::chrono::milliseconds timeout) {
  constexpr std::chrono::milliseconds kCentury = std::chrono::hours(100 * 365 * 24);
  return std::min(timeout, kCentury);
}

std::optional<std::chrono::nanoseconds> timeout_of(std::chrono::milliseconds given) {
  if (given == c10d::kUnsetTimeout || given == kNoTimeout) return std::nullopt;
  return bounded(given);
}

std::vector<std::size_t> split_counts(const at::Tensor& tensor,
                                      const std::vector<std::int64_t>& splits, int size,
                                      const char* side) {
  TORCH_CHECK_VALUE(tensor.dim() > 0, "tutti: all_to_all_single: the ", side,
                    " has no dimension that could be split");
  const std::int64_t rows = tensor.size(0);
  const auto row = static_cast<std::size_t>(rows > 0 ? tensor.numel() / rows : 0);
  if (splits.empty()) {
    TORCH_CHECK_VALUE(rows % size == 0,
                      "tutti: all_to_all_single: Tensor's dim 0 does not divide "
                      "equally across group size: the ",
                      side, " has ", rows, " rows, and there are ", size, " ranks");
    return std::vector<std::size_t>(static_cast<std::size_t>(size),
                                    row * static_cast<std::size_t>(rows / size));
  }
  TORCH_CHECK_VALUE(splits.size() == static_cast<std::size_t>(size),
                    "tutti: all_to_all_single: Number of tensor splits not equal to group size: ",
                    splits.size(), " for the ", side, ", and there are ", size, " ranks");
  std::vector<std::size_t> counts;
  std::int64_t sum = 0;
  for (const std::int64_t split : splits) {
    TORCH_CHECK_VALUE(split >= 0 && split <= rows - sum,
                      "tutti: all_to_all_single: Split sizes doesn't match total dim 0 size: the ",
                      side, " has ", rows, " rows");
    sum += split;
    counts.push_back(row * static_cast<std::size_t>(split));
  }
  TORCH_CHECK_VALUE(sum == rows,
                    "tutti: all_to_all_single: Split sizes doesn't match total dim 0 size: the ",
                    side, " has ", rows, " rows, and the splits add up to ", sum);
  return counts;
}

std::vector<std::vector<std::size_t>> by_dtype(const std::vector<at::Tensor>& tensors) {
  std::vector<std::vector<std::size_t>> groups;
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    const auto same = std::ranges::find_if(groups, [&](const auto& group) {
      return tensors[group.front()].scalar_type() == tensors[t].scalar_type();
    });
    if (same == groups.end())
      groups.push_back({t});
    else
      same->push_back(t);
  }
  return groups;
}

}  // namespace tutti::torch_plugin
