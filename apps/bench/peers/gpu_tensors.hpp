#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include <tutti/stream.hpp>
#include <tutti/tensor.hpp>

#include "cuda/calls.hpp"
#include "cuda/device.hpp"

namespace tutti::bench {

/// The tensors of a measured rank in the memory of its GPU: those of the host, which it fills and
/// looks at, in as many copies as are more than a GPU's caches hold. Calls take them in turn, and
/// other memory is read and written before the first of them, so that each finds its tensors cold.
///
/// Errors: std::runtime_error with what the driver says.
class GpuTensors {
 public:
  /// On the GPU of this number, as the process counts them, and on a stream of its own.
  explicit GpuTensors(int gpu);
  ~GpuTensors();
  GpuTensors(const GpuTensors&) = delete;
  GpuTensors& operator=(const GpuTensors&) = delete;

  /// The number of GPUs that this process may use.
  [[nodiscard]] static int count();

  /// The memory of the host that stands for the tensors, until this is called again.
  void use(std::span<std::byte> input, std::span<std::byte> output);
  /// To the GPU, into the copies of so many calls that follow.
  void upload(std::uint64_t calls);
  /// From the copy of the last call.
  void fetch();
  /// The next copy is that of the calls that follow.
  void next() noexcept { ++turn_; }
  /// Floats of the memory of the host, in the current copy.
  [[nodiscard]] TensorView view(float* host, std::size_t count) const;
  /// Waits until the stream has done all that it was given.
  void finish();

  /// Measures what a copy within the GPU's memory reads and writes in a second. It is the GPU's
  /// rate only while nobody else uses that.
  void measure_copies();
  /// "cuda:0", once measured "cuda:0, copies 2410 GB/s".
  [[nodiscard]] const std::string& about() const noexcept { return about_; }
  [[nodiscard]] std::uintptr_t stream() const noexcept {
    return static_cast<std::uintptr_t>(stream_);
  }

 private:
  struct Tensor {
    std::span<std::byte> host;
    cuda::Address first = 0;
    std::size_t pitch = 0;   ///< from one copy to the next
    std::size_t copies = 0;  ///< 0: there is none
    [[nodiscard]] cuda::Address at(std::size_t turn) const noexcept {
      return first + turn % copies * pitch;
    }
  };

  void take(Tensor& tensor, std::span<std::byte> host);
  void drop(Tensor& tensor);
  void copy(cuda::Address to, cuda::Address from, std::size_t bytes);
  void expect(const char* function, int code);
  void copy_scratch();

  cuda::CudaApi& cuda_;
  cuda::Calls calls_;
  std::unique_ptr<cuda::Device> device_;
  std::unique_ptr<cuda::Current> current_;
  cuda::Stream stream_{};
  std::unique_ptr<StreamGuard> guard_;
  cuda::Address scratch_ = 0;
  std::array<Tensor, 2> tensors_;
  std::size_t turn_ = 0;
  std::string about_;
};

}  // namespace tutti::bench
