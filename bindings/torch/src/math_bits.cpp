#include <algorithm>
#include <utility>

#include <ATen/core/List.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <torch/library.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

// Views that torch conjugates or negates when they are read (`conj()`, `conj().imag`). Its
// dispatcher hands c10d's operators copies of them, so what a group writes to such a tensor would
// be lost. Here a group of tutti gets the tensor that is written as it is, and refuses it with a
// ValueError. All else stays as torch has it.
namespace tutti::torch_plugin {
namespace {

at::Tensor resolved(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.resolve_conj().resolve_neg() : tensor;
}

c10::IValue resolved(const c10::IValue& value) {
  if (value.isTensor()) return resolved(value.toTensor());
  if (!value.isTensorList()) return value;
  c10::List<at::Tensor> list;
  for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(resolved(tensor));
  return list;
}

/// Where `written` is: a tensor, or the first one of a list.
c10::DeviceType type_of(const c10::IValue& written) {
  if (written.isTensor()) return written.toTensor().device().type();
  const std::vector<at::Tensor> list = written.toTensorVector();
  return list.empty() ? c10::kCPU : list.front().device().type();
}

/// Also where torch wraps the backend to debug it.
bool is_ours(c10d::ProcessGroup& group, c10::DeviceType type) {
  const std::vector<c10::Device> devices = group.getDeviceTypes();
  return std::ranges::any_of(devices, [&](const c10::Device& one) { return one.type() == type; }) &&
         group.getBackend(type)->getBackendName() == "tutti";
}

/// The boxed kernel of c10d's operators that write their first argument.
template <c10::DispatchKey kBit>
void keep_written(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                  torch::jit::Stack* stack) {
  const auto arguments = static_cast<std::ptrdiff_t>(op.schema().arguments().size());
  const auto group = op.schema().argumentIndexWithName("process_group");
  const auto begin = stack->end() - arguments;
  const bool ours = is_ours(*begin[*group].toCustomClass<c10d::ProcessGroup>(), type_of(*begin));
  for (auto value = begin + (ours ? 1 : 0); value != stack->end(); ++value)
    *value = resolved(*value);
  op.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kBit), stack);
}

template <c10::DispatchKey kBit>
void register_kernels(torch::Library& library) {
  // The dispatcher does not look into lists of lists, so what writes these needs nothing here.
  for (const char* const name :
       {"allreduce_", "allreduce_coalesced_", "broadcast_", "reduce_", "_allgather_base_",
        "allgather_into_tensor_coalesced_", "reduce_scatter_", "_reduce_scatter_base_",
        "reduce_scatter_tensor_coalesced_", "scatter_", "alltoall_", "alltoall_base_", "recv_",
        "recv_any_source_"})
    library.impl(name, torch::CppFunction::makeFromBoxedFunction<&keep_written<kBit>>());
}

}  // namespace
}  // namespace tutti::torch_plugin

TORCH_LIBRARY_IMPL(c10d, Conjugate, library) {
  tutti::torch_plugin::register_kernels<c10::DispatchKey::Conjugate>(library);
}

TORCH_LIBRARY_IMPL(c10d, Negative, library) {
  tutti::torch_plugin::register_kernels<c10::DispatchKey::Negative>(library);
}
