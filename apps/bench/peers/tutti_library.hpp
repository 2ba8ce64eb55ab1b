#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include <tutti/process_group.hpp>

#include "apps/bench/peers/gpu_tensors.hpp"
#include "apps/bench/peers/performer.hpp"

namespace tutti::bench {

/// One rank of our own library, through its public face like any user's program.
class TuttiLibrary final : public Library {
 public:
  /// `device`: where the tensors are; of a GPU: that of the rank's number on its host, in turn.
  explicit TuttiLibrary(ProcessGroup world, DeviceType device = DeviceType::cpu);

  [[nodiscard]] int rank() const override { return world_.rank(); }
  [[nodiscard]] int size() const override { return world_.size(); }
  [[nodiscard]] std::string name() const override;
  void call(Operation operation, const Buffers& buffers) override;
  [[nodiscard]] bool has_memory() const override { return gpu_ != nullptr; }
  void use(std::span<std::byte> input, std::span<std::byte> output) override;
  void upload(std::uint64_t calls) override;
  void fetch() override;
  void finish() override;

  [[nodiscard]] ProcessGroup& world() { return world_; }

 private:
  [[nodiscard]] TensorView view(float* data, std::size_t count) const;
  void there_and_back(const TensorView& data);
  void send_window(const TensorView& data);

  ProcessGroup world_;
  std::unique_ptr<GpuTensors> gpu_;  ///< null: the tensors are the host's
};

}  // namespace tutti::bench
