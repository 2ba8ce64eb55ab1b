#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include "add_rms_norm.hpp"

// The operator `tutti::all_reduce_add_rms_norm_`: what follows an all_reduce in a decoder's layer,
// in the same call. Torch's operators for it take longer than the all_reduce.
namespace tutti::torch_plugin {
namespace {

constexpr const char* kName = "tutti: all_reduce_add_rms_norm_: ";

/// Checks the shapes and dtypes, for tensors with and without values.
void check_shapes(const at::Tensor& tensor, const at::Tensor& residual, const at::Tensor& weight) {
  TORCH_CHECK_VALUE(tensor.dim() > 0, kName, "the tensor has no last dimension to normalise");
  TORCH_CHECK_VALUE(residual.sizes() == tensor.sizes(), kName, "the residual must have the shape ",
                    tensor.sizes(), " of the tensor, not ", residual.sizes());
  TORCH_CHECK_VALUE(weight.dim() == 1 && weight.size(0) == tensor.size(-1), kName,
                    "the weight must have the shape [", tensor.size(-1), "], not ", weight.sizes());
  TORCH_CHECK_TYPE(
      residual.scalar_type() == tensor.scalar_type() &&
          weight.scalar_type() == tensor.scalar_type() && at::isFloatingType(tensor.scalar_type()),
      kName, "the three tensors must have one floating-point dtype, not ", tensor.scalar_type(),
      ", ", residual.scalar_type(), " and ", weight.scalar_type());
}

void check_memory(const at::Tensor& tensor, const at::Tensor& residual, const at::Tensor& weight) {
  for (const at::Tensor* const one : {&tensor, &residual, &weight}) {
    TORCH_CHECK_VALUE(one->device().is_cpu() && one->layout() == at::kStrided, kName,
                      "the three tensors must be dense and on the CPU");
    TORCH_CHECK_VALUE(one->is_contiguous() && !one->is_neg(), kName,
                      "the three tensors must be contiguous and no negated views; call "
                      "contiguous() and resolve_neg() first");
    TORCH_CHECK(!one->requires_grad() || !at::GradMode::is_enabled(), kName,
                "a tensor requires a gradient, and this operator has none; use torch.no_grad()");
  }
  const auto apart = [](const at::Tensor& a, const at::Tensor& b) {
    const auto* const first = static_cast<const char*>(a.const_data_ptr());
    const auto* const second = static_cast<const char*>(b.const_data_ptr());
    return first + a.nbytes() <= second || second + b.nbytes() <= first;
  };
  TORCH_CHECK_VALUE(tensor.numel() == 0 || (apart(tensor, residual) && apart(tensor, weight) &&
                                            apart(residual, weight)),
                    kName, "the three tensors must not share memory");
}

template <class T>
void each_row(const at::Tensor& tensor, const at::Tensor& residual, const at::Tensor& weight,
              double eps) {
  constexpr std::int64_t kGrain = 32768;  // elements for which another thread is worth its start
  const std::int64_t columns = tensor.size(-1);
  auto* const values = static_cast<T*>(tensor.data_ptr());
  auto* const kept = static_cast<T*>(residual.data_ptr());
  const auto* const weights = static_cast<const T*>(weight.const_data_ptr());
  at::parallel_for(0, tensor.numel() / columns, std::max<std::int64_t>(1, kGrain / columns),
                   [&](std::int64_t begin, std::int64_t end) {
                     add_rms_norm(values, kept, weights, columns, static_cast<float>(eps), begin,
                                  end);
                   });
}

void all_reduce_add_rms_norm(const at::Tensor& tensor, const at::Tensor& residual,
                             const at::Tensor& weight, double eps, const std::string& group) {
  check_shapes(tensor, residual, weight);
  check_memory(tensor, residual, weight);
  static const auto all_reduce =
      c10::Dispatcher::singleton()
          .findSchemaOrThrow("tutti::all_reduce_", "")
          .typed<void(const at::Tensor&, std::string_view, const std::string&)>();
  all_reduce.call(tensor, "sum", group);
  if (tensor.numel() == 0) return;
  if (tensor.scalar_type() == at::kBFloat16) {
    each_row<std::uint16_t>(tensor, residual, weight, eps);
  } else if (tensor.scalar_type() == at::kFloat) {
    each_row<float>(tensor, residual, weight, eps);
  } else {
    residual.add_(tensor);
    tensor.copy_(at::rms_norm(residual, {tensor.size(-1)}, weight, eps));
  }
  if (!residual.is_inference()) residual.unsafeGetTensorImpl()->bump_version();
}

void rms_norm_without_values(const at::Tensor& tensor, const at::Tensor& residual,
                             const at::Tensor& weight, double /*eps*/,
                             const std::string& /*group*/) {
  check_shapes(tensor, residual, weight);
}

}  // namespace
}  // namespace tutti::torch_plugin

TORCH_LIBRARY_FRAGMENT(tutti, library) {
  library.def(
      "all_reduce_add_rms_norm_(Tensor(a!) tensor, Tensor(b!) residual, Tensor weight, float eps, "
      "str group) -> ()",
      {at::Tag::pt2_compliant_tag});
  library.impl("all_reduce_add_rms_norm_", c10::DispatchKey::CompositeExplicitAutograd,
               TORCH_FN(tutti::torch_plugin::all_reduce_add_rms_norm));
  library.impl("all_reduce_add_rms_norm_", c10::DispatchKey::Meta,
               TORCH_FN(tutti::torch_plugin::rms_norm_without_values));
}
