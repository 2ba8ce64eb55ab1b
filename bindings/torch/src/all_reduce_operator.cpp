#include <array>
#include <string>
#include <string_view>
#include <utility>

#include <torch/library.h>
#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>

#include "process_group_tutti.hpp"

// The operator `tutti::all_reduce_`, for programs in which each microsecond counts: it is done when
// it returns, and makes no Work and no future.
namespace tutti::torch_plugin {
namespace {

c10d::ReduceOp::RedOpType op_named(std::string_view name) {
  using Named = std::pair<std::string_view, c10d::ReduceOp::RedOpType>;
  constexpr std::array<Named, 8> kOps = {{{"sum", c10d::ReduceOp::SUM},
                                          {"avg", c10d::ReduceOp::AVG},
                                          {"product", c10d::ReduceOp::PRODUCT},
                                          {"min", c10d::ReduceOp::MIN},
                                          {"max", c10d::ReduceOp::MAX},
                                          {"band", c10d::ReduceOp::BAND},
                                          {"bor", c10d::ReduceOp::BOR},
                                          {"bxor", c10d::ReduceOp::BXOR}}};
  for (const auto& [known, op] : kOps)
    if (known == name) return op;
  TORCH_CHECK_VALUE(false,
                    "tutti: all_reduce_: op is 'sum', 'avg', 'product', 'min', 'max', "
                    "'band', 'bor' or 'bxor', not '",
                    name, "'");
}

c10::intrusive_ptr<c10d::ProcessGroup> group_named(const std::string& name) {
  try {
    return c10d::resolve_process_group(name);
  } catch (const c10::Error&) {
    TORCH_CHECK_VALUE(false, "tutti: all_reduce_: this rank is in no group with the name '", name,
                      "'");
  }
}

void all_reduce(const at::Tensor& tensor, std::string_view op, const std::string& group) {
  const auto how = op_named(op);
  TORCH_CHECK(!tensor.requires_grad() || !at::GradMode::is_enabled(),
              "tutti: all_reduce_: the tensor requires a gradient, and this operator has none; use "
              "tutti.torch.nn.all_reduce, or torch.no_grad()");
  if (tensor.is_conj() || tensor.is_neg()) {  // a view: the memory holds other values
    const at::Tensor values = tensor.resolve_conj().resolve_neg();
    all_reduce(values, op, group);
    tensor.copy_(values);
    return;
  }
  const auto found = group_named(group);
  const auto backend = found->hasBackends() ? found->getBackend(tensor.device().type()) : nullptr;
  if (auto* const ours = dynamic_cast<ProcessGroupTutti*>(backend.get())) {
    ours->all_reduce_now(tensor, how);
  } else {  // of another device, a group in Python, or wrapped by torch to be debugged
    std::vector<at::Tensor> tensors = {tensor};
    c10d::AllreduceOptions options;
    options.reduceOp = how;
    found->allreduce(tensors, options)->wait();
  }
  if (!tensor.is_inference()) tensor.unsafeGetTensorImpl()->bump_version();
}

void all_reduce_without_values(const at::Tensor& /*tensor*/, std::string_view op,
                               const std::string& /*group*/) {
  (void)op_named(op);
}

}  // namespace
}  // namespace tutti::torch_plugin

TORCH_LIBRARY_FRAGMENT(tutti, library) {
  library.def("all_reduce_(Tensor(a!) tensor, str op, str group) -> ()",
              {at::Tag::pt2_compliant_tag});
  library.impl("all_reduce_", c10::DispatchKey::CompositeExplicitAutograd,
               TORCH_FN(tutti::torch_plugin::all_reduce));
  library.impl("all_reduce_", c10::DispatchKey::Meta,
               TORCH_FN(tutti::torch_plugin::all_reduce_without_values));
}

// Torch's own kernels for conjugated and negated views write back what an operator returns, and
// read memory that is no value where it returns nothing. So these views come to our operators as
// they are.
TORCH_LIBRARY_IMPL(tutti, Conjugate, library) {
  library.impl("all_reduce_", torch::CppFunction::makeFallthrough());
  library.impl("all_reduce_add_rms_norm_", torch::CppFunction::makeFallthrough());
}

TORCH_LIBRARY_IMPL(tutti, Negative, library) {
  library.impl("all_reduce_", torch::CppFunction::makeFallthrough());
  library.impl("all_reduce_add_rms_norm_", torch::CppFunction::makeFallthrough());
}
