#include "gpu/gpu_set.hpp"

#include <string>
#include <system_error>
#include <utility>

namespace tutti::gpu {

GpuSet::~GpuSet() {
  thread_.reset();
  for (auto& [index, gpu] : gpus_) {
    cuda::Calls calls(*cuda_);
    const cuda::Current current(*cuda_, *gpu.device, calls);
    gpu.pool.reset();
    if (calls.ok()) gpu.reducer.unload();
    if (calls.ok()) (void)cuda_->destroy_stream(gpu.out);
  }
}

std::string GpuSet::missing(int index) {
  const std::lock_guard lock(mutex_);
  const Result<Gpu*> found = gpu(index);
  return found ? std::string() : std::string(found.status().message());
}

Result<Gpu*> GpuSet::gpu(int index) {
  if (const auto at = gpus_.find(index); at != gpus_.end()) return &at->second;
  if (cuda_ == nullptr) {
    Result<cuda::CudaApi*> found = source_();
    if (!found) return found.status();
    cuda_ = *found;
  }
  Result<std::unique_ptr<cuda::Device>> device = cuda::Device::open(*cuda_, index);
  if (!device) return device.status();
  cuda::Stream out{};
  {
    cuda::Calls calls(*cuda_);
    const cuda::Current current(*cuda_, **device, calls);
    if (!calls.ok() || !calls.cuda("cuStreamCreate", cuda_->create_stream(out)))
      return calls.status("");
  }
  Gpu& made = gpus_[index];
  made.device = std::move(*device);
  made.out = out;
  made.pool = std::make_unique<cuda::PinnedPool>(*cuda_);
  return &made;
}

Outcome GpuSet::start() {
  if (thread_ != nullptr) return {};
  try {
    thread_ = std::make_unique<cuda::GpuProgressThread>();
  } catch (const std::system_error& error) {
    return Outcome(Errc::internal, std::string("no thread could be made: ") + error.what());
  }
  for (const auto& group : std::exchange(groups_, {})) {
    if (const auto one = group.lock()) thread_->add(one);
  }
  return {};
}

void GpuSet::add(const std::shared_ptr<cuda::Progressable>& group) {
  if (thread_ != nullptr)
    thread_->add(group);
  else
    groups_.push_back(group);
}

void GpuSet::wake() noexcept {
  if (thread_ != nullptr) thread_->wake();
}

void GpuSet::deliver(std::vector<cuda::Due> due) {
  if (thread_ != nullptr) thread_->deliver(std::move(due));
}

}  // namespace tutti::gpu
