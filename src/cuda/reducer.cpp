#include "cuda/reducer.hpp"

#include <algorithm>
#include <cstring>

namespace tutti::cuda {
namespace {

constexpr unsigned kThreads = 256;
/// More than any GPU runs at once; each thread then takes several vectors.
constexpr std::size_t kMostBlocks = 1024;

}  // namespace

bool Reducer::load(Calls& calls, CudaApi& cuda, std::span<const std::byte> image) {
  if (cuda_ != nullptr) return true;
  if (image.empty())
    return calls.fail("loading kernels", "this library was built without nvcc, and has none");
  if (!calls.cuda("cuModuleLoadData", cuda.load_module(module_, image.data()))) return false;
  cuda_ = &cuda;
  return true;
}

bool Reducer::run(Calls& calls, ReduceOp op, DType dtype, Address to,
                  std::span<const Address> sources, std::size_t count, std::int64_t divisor,
                  Stream stream) {
  if (count == 0) return calls.ok();
  // One source is its own sum and mean, but any byte of a bool is true.
  if (sources.size() == 1 && (op != ReduceOp::avg || divisor == 1) && dtype != DType::bool_) {
    return to == sources[0] ||
           calls.cuda("cuMemcpyAsync", cuda_->copy(to, sources[0], count * size_of(dtype), stream));
  }
  const kernels::Kernel kernel = *kernels::kernel_of(op, dtype);
  kernels::ReduceArguments all;
  all.to = reinterpret_cast<void*>(to);
  for (const Address source : sources) all.sources[all.k++] = reinterpret_cast<const void*>(source);
  all.divisor = divisor;
  all.count = count * kernel.per_count;
  return launch(calls, kernel, all, count * size_of(dtype), stream);
}

bool Reducer::scale(Calls& calls, DType dtype, Address to, Address from, const Factors& factors,
                    std::size_t count, Stream stream) {
  if (count == 0) return calls.ok();
  kernels::ReduceArguments all;
  all.to = reinterpret_cast<void*>(to);
  all.sources[all.k++] = reinterpret_cast<const void*>(from);
  all.factors = reinterpret_cast<const void*>(factors.first);
  if (factors.first == 0) std::memcpy(all.factor, factors.one, size_of(dtype));
  all.step = factors.step;
  all.count = count;
  return launch(calls, *kernels::scale_kernel_of(dtype), all, count * size_of(dtype), stream);
}

/// `bytes`: of each source.
bool Reducer::launch(Calls& calls, const kernels::Kernel& kernel, kernels::ReduceArguments& all,
                     std::size_t bytes, Stream stream) {
  const auto [at, made] = functions_.try_emplace(kernel.name);
  if (made && !calls.cuda("cuModuleGetFunction",
                          cuda_->find_function(at->second, module_, kernel.name.c_str()))) {
    functions_.erase(at);
    return false;
  }
  const std::size_t vectors = bytes / 16 + 1;
  const auto blocks =
      static_cast<unsigned>(std::min((vectors + kThreads - 1) / kThreads, kMostBlocks));
  void* arguments[] = {&all};
  return calls.cuda("cuLaunchKernel",
                    cuda_->launch(at->second, blocks, kThreads, arguments, stream));
}

void Reducer::unload() noexcept {
  if (cuda_ != nullptr) (void)cuda_->unload_module(module_);
  cuda_ = nullptr;
  functions_.clear();
}

}  // namespace tutti::cuda
