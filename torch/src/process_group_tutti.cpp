#include "process_group_tutti.hpp"

#include <cstdlib>
#include <optional>
#include <span>
#include <utility>

#include <tutti/init.hpp>

#include "work_tutti.hpp"

namespace tutti::torch_plugin {
namespace {

std::optional<DType> dtype_of(at::ScalarType type) noexcept {
  switch (type) {
    case at::kBool: return DType::bool_;
    case at::kByte: return DType::uint8;
    case at::kChar: return DType::int8;
    case at::kShort: return DType::int16;
    case at::kInt: return DType::int32;
    case at::kLong: return DType::int64;
    case at::kHalf: return DType::float16;
    case at::kBFloat16: return DType::bfloat16;
    case at::kFloat: return DType::float32;
    case at::kDouble: return DType::float64;
    case at::kComplexFloat: return DType::complex64;
    case at::kComplexDouble: return DType::complex128;
    default: return std::nullopt;
  }
}

TensorView view_of(const at::Tensor& tensor, const char* operation) {
  TORCH_CHECK(tensor.device().is_cpu(), "tutti: ", operation, ": the tensor is on ",
              tensor.device(), "; only CPU tensors are offered");
  const std::optional<DType> dtype = dtype_of(tensor.scalar_type());
  TORCH_CHECK_TYPE(dtype.has_value(), "tutti: ", operation, ": ", tensor.scalar_type(),
                   " is not offered");
  // More dimensions than a view has are no matter where they lie in one run.
  if (tensor.is_contiguous()) {
    return {tensor.data_ptr(), *dtype, static_cast<std::size_t>(tensor.numel())};
  }
  return {tensor.data_ptr(), *dtype, std::span(tensor.sizes().data(), tensor.sizes().size()),
          std::span(tensor.strides().data(), tensor.strides().size())};
}

const at::Tensor& single(const std::vector<at::Tensor>& tensors, const char* operation) {
  TORCH_CHECK_VALUE(tensors.size() == 1, "tutti: ", operation, ": one tensor is wanted, ",
                    tensors.size(), " are given");
  return tensors.front();
}

ReduceOp op_of(const c10d::ReduceOp& op) {
  switch (op) {
    case c10d::ReduceOp::SUM: return ReduceOp::sum;
    case c10d::ReduceOp::AVG: return ReduceOp::avg;
    case c10d::ReduceOp::PRODUCT: return ReduceOp::product;
    case c10d::ReduceOp::MIN: return ReduceOp::min;
    case c10d::ReduceOp::MAX: return ReduceOp::max;
    case c10d::ReduceOp::BAND: return ReduceOp::band;
    case c10d::ReduceOp::BOR: return ReduceOp::bor;
    case c10d::ReduceOp::BXOR: return ReduceOp::bxor;
    default: TORCH_CHECK_VALUE(false, "tutti: allreduce: this reduce op is not offered");
  }
}

std::optional<std::chrono::nanoseconds> timeout_of(std::chrono::milliseconds given) {
  if (given == c10d::kUnsetTimeout || given == kNoTimeout) return std::nullopt;
  return given;
}

Collective broadcast_call(const at::Tensor& tensor, int root) {
  Collective call;
  call.kind = Kind::broadcast;
  call.root = root;
  call.input = call.output = view_of(tensor, "broadcast");
  return call;
}

ProcessGroup join(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                  std::chrono::milliseconds timeout) {
  InitOptions options;
  options.rank = rank;
  options.size = size;
  options.timeout = timeout;
  if (const char* master = std::getenv("MASTER_ADDR")) options.master_addr = master;
  options.exchange = [&](const std::string& name,
                         const std::string& mine) -> Result<std::vector<std::string>> {
    try {
      const std::string prefix = "tutti/" + name + "/";
      store->set(prefix + std::to_string(rank),
                 std::vector<std::uint8_t>(mine.begin(), mine.end()));
      std::vector<std::string> texts;
      for (int r = 0; r < size; ++r) {
        const std::vector<std::uint8_t> text = store->get(prefix + std::to_string(r));
        texts.emplace_back(text.begin(), text.end());
      }
      return texts;
    } catch (const std::exception& problem) {
      return Status(Errc::store,
                    std::string("torch's store failed while the ranks met: ") + problem.what());
    }
  };
  options.exchange_is_private = false;  // anybody can write to torch's store
  return init_process_group(options);
}

}  // namespace

ProcessGroupTutti::ProcessGroupTutti(const c10::intrusive_ptr<c10d::Store>& store, int rank,
                                     int size, std::chrono::milliseconds timeout)
    : Backend(rank, size), group_(join(store, rank, size, timeout)) {}

c10::intrusive_ptr<c10d::Work> ProcessGroupTutti::allreduce(std::vector<at::Tensor>& tensors,
                                                            const c10d::AllreduceOptions& options) {
  Collective call;
  call.kind = Kind::all_reduce;
  call.op = op_of(options.reduceOp);
  call.input = call.output = view_of(single(tensors, "allreduce"), "allreduce");
  return WorkTutti::start(group_, {call}, timeout_of(options.timeout), tensors,
                          c10d::OpType::ALLREDUCE);
}

c10::intrusive_ptr<c10d::Work> ProcessGroupTutti::broadcast(std::vector<at::Tensor>& tensors,
                                                            const c10d::BroadcastOptions& options) {
  const Collective call =
      broadcast_call(single(tensors, "broadcast"), static_cast<int>(options.rootRank));
  return WorkTutti::start(group_, {call}, timeout_of(options.timeout), tensors,
                          c10d::OpType::BROADCAST);
}

c10::intrusive_ptr<c10d::Work> ProcessGroupTutti::allgather(
    std::vector<std::vector<at::Tensor>>& outputs, std::vector<at::Tensor>& inputs,
    const c10d::AllgatherOptions& options) {
  const at::Tensor& input = single(inputs, "allgather");
  TORCH_CHECK_VALUE(outputs.size() == 1 && outputs[0].size() == static_cast<std::size_t>(getSize()),
                    "tutti: allgather: one list with a tensor per rank is wanted");
  std::vector<Collective> calls;
  for (int r = 0; r < getSize(); ++r) {
    const at::Tensor& output = outputs[0][static_cast<std::size_t>(r)];
    if (r == getRank()) output.copy_(input);
    calls.push_back(broadcast_call(output, r));
  }
  return WorkTutti::start(group_, std::move(calls), timeout_of(options.timeout), outputs[0],
                          c10d::OpType::ALLGATHER);
}

c10::intrusive_ptr<c10d::Work> ProcessGroupTutti::barrier(const c10d::BarrierOptions& options) {
  Collective call;
  call.kind = Kind::barrier;
  return WorkTutti::start(group_, {call}, timeout_of(options.timeout), {}, c10d::OpType::BARRIER);
}

}  // namespace tutti::torch_plugin
