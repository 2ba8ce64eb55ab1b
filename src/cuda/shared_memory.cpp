#include "cuda/shared_memory.hpp"

#include <utility>

namespace tutti::cuda {

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  if (this == &other) return *this;
  release();
  cuda_ = std::exchange(other.cuda_, nullptr);
  bytes_ = other.bytes_;
  memory_ = other.memory_;
  address_ = std::exchange(other.address_, 0);
  mapped_ = std::exchange(other.mapped_, false);
  return *this;
}

bool SharedMemory::make(Calls& calls, CudaApi& cuda, std::size_t bytes, int device) {
  if (!calls.cuda("cuMemCreate", cuda.create_memory(memory_, bytes, device))) return false;
  cuda_ = &cuda;
  bytes_ = bytes;
  return map(calls, device);
}

bool SharedMemory::share(Calls& calls, int& descriptor) {
  return calls.cuda("cuMemExportToShareableHandle", cuda_->export_memory(descriptor, memory_));
}

bool SharedMemory::open(Calls& calls, CudaApi& cuda, std::size_t bytes, int device,
                        int descriptor) {
  if (!calls.cuda("cuMemImportFromShareableHandle", cuda.import_memory(memory_, descriptor)))
    return false;
  cuda_ = &cuda;
  bytes_ = bytes;
  return map(calls, device);
}

bool SharedMemory::map(Calls& calls, int device) {
  if (!calls.cuda("cuMemAddressReserve", cuda_->reserve_address(address_, bytes_))) return false;
  mapped_ = calls.cuda("cuMemMap", cuda_->map_memory(address_, bytes_, memory_));
  return mapped_ && calls.cuda("cuMemSetAccess", cuda_->allow_access(address_, bytes_, device));
}

void SharedMemory::release() noexcept {
  if (cuda_ == nullptr) return;
  // The driver may be gone: the process ends.
  if (mapped_) (void)cuda_->unmap_memory(address_, bytes_);
  if (address_ != 0) (void)cuda_->free_address(address_, bytes_);
  (void)cuda_->release_memory(memory_);
  cuda_ = nullptr;
  address_ = 0;
  mapped_ = false;
}

}  // namespace tutti::cuda
