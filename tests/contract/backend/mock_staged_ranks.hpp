#pragma once

#include <tutti/backend/kinds.hpp>

#include "backend/native/native_backend.hpp"
#include "call/gpu_calls.hpp"
#include "gpu/gpu_backend.hpp"
#include "group/thread_ranks.hpp"
#include "mock_gpu_calls.hpp"
#include "on_gpu.hpp"
#include "support/logged_lines.hpp"
#include "support/rotation.hpp"

namespace tutti::test {

/// Our own engine with tensors of GPUs, over a mock of CUDA's driver; ranks are threads.
inline constexpr std::string_view kMockStagedBackend = "staged_mock";

/// The CPUs' backend, which tells the machine what the host reads and writes: so an access of a
/// stream that is not ordered with those of the host is a race, too.
class Witness final : public ForwardingBackend {
 public:
  /// `name`: of the group, the same on all its ranks.
  Witness(Backend* inner, MockMachine& machine, int rank, std::string name)
      : ForwardingBackend(inner), machine_(machine), rank_(rank), name_(std::move(name)) {}

  Pending submit(const Collective& call, bool asynchronous) noexcept override {
    std::vector<TensorView> outputs;
    std::string meeting;
    {
      const std::lock_guard lock(machine_.mutex);
      // No other call may be relied on where memory is shared.
      if (has_data(call.kind) && call::is_gpu_call(call.digest)) {
        meeting = name_ + ' ' + std::to_string(calls_++);
        machine_.arrive(rank_, meeting);
      }
      look(call.input, false);
      add(outputs, call.output);
      if (call.details != nullptr) {
        for (const TensorView& view : call.details->inputs) look(view, false);
        for (const TensorView& view : call.details->outputs) add(outputs, view);
        for (const Piece& piece : call.details->input_pieces) look(piece.view, false);
        for (const Piece& piece : call.details->output_pieces) add(outputs, piece.view);
      }
    }
    auto seen = std::make_unique<Seen>(*this, std::move(outputs), std::move(meeting));
    return WrappedOperation::wrap(std::move(seen), inner().submit(call, asynchronous));
  }
  [[nodiscard]] Result<Backend*> make_child(std::span<const int> ranks,
                                            std::string name) noexcept override {
    const std::string its_name = name_ + '/' + name + ' ' + std::to_string(calls_);
    return around(inner().make_child(ranks, std::move(name)),
                  [&](Backend* child) { return new Witness(child, machine_, rank_, its_name); });
  }
  [[nodiscard]] Result<Backend*> make_among(std::span<const int> ranks, std::string_view tag,
                                            std::string name) noexcept override {
    const std::string its_name = name_ + '/' + name;
    return around(inner().make_among(ranks, tag, std::move(name)),
                  [&](Backend* pair) { return new Witness(pair, machine_, rank_, its_name); });
  }

 private:
  /// A call that is looked at once, at its end, under the lock from the look to the end.
  class Seen final : public WatchedOperation {
   public:
    Seen(Witness& witness, std::vector<TensorView> outputs, std::string meeting)
        : WatchedOperation(witness),
          witness_(witness),
          outputs_(std::move(outputs)),
          meeting_(std::move(meeting)) {}

   private:
    void ended_well() noexcept override {
      const std::lock_guard lock(witness_.machine_.mutex);
      if (!meeting_.empty()) witness_.machine_.leave(witness_.rank_, std::exchange(meeting_, {}));
      for (const TensorView& view : std::exchange(outputs_, {})) witness_.look(view, true);
    }

    Witness& witness_;
    std::vector<TensorView> outputs_;
    std::string meeting_;  ///< empty: it is none
  };

  /// Under the mutex of the machine.
  void look(const TensorView& view, bool writes) {
    if (view.data() != nullptr && view.contiguous() && view.device() == Device())
      machine_.touch(rank_, view.data(), view.size_bytes(), writes);
  }
  static void add(std::vector<TensorView>& outputs, const TensorView& view) {
    if (view.data() != nullptr) outputs.push_back(view);
  }

  MockMachine& machine_;
  int rank_;
  const std::string name_;
  std::uint64_t calls_ = 0;  ///< meetings; under the mutex of the machine
};

/// From GPU to GPU, in parts that are small enough for tests to have several.
inline gpu::DirectOptions small_parts() {
  static constexpr std::byte kImage[1] = {};  // the mock has kernels of its own
  return {.on = true,
          .image = kImage,
          .slot_bytes = 1024,
          .two_rounds_from = 256,
          .message_slot_bytes = std::size_t{32} << 10,
          .host_part_bytes = 512};
}

/// Without kernels all reductions go by way of the host.
inline gpu::DirectOptions no_kernels() {
  gpu::DirectOptions options = small_parts();
  options.image = {};
  return options;
}

/// How the ranks of a MockGpuWorld run.
struct MockRun {
  bool plain = true;    ///< as it is, without OnGpu
  bool copied = false;  ///< tensors are copied to the mock's memory, as to that of a real GPU
  gpu::DirectOptions direct = {};
  /// Of operations: to make the world a rank may need longer, on a busy machine.
  std::chrono::nanoseconds timeout = kForever;
  std::string_view backend = {};              ///< empty: the usual one
  std::vector<Backend*>* backends = nullptr;  ///< gets that of each rank; absent: nobody asks
};

/// How the ranks of mock_world() run.
inline MockRun& mock_run() {
  static MockRun how;
  return how;
}

/// The backend that was made for a rank, as the tests get it.
inline Backend* wrapped(Backend* made, int rank) {
  const MockRun& how = mock_run();
  if (how.backends != nullptr) how.backends->at(static_cast<std::size_t>(rank)) = made;
  if (how.plain) return made;
  const Gpu gpu{mock_world()->cuda_of(rank), 0};
  return new OnGpu(made, how.backend, how.copied ? std::optional(gpu) : std::nullopt);
}

/// Our own engine on the GPU of this rank, with NCCL or without.
inline Result<Backend*> make_mock_staged(const WorldOptions& options,
                                         gpu::NcclOptions beside = {}) {
  const int rank = options.identity.rank;
  cuda::CudaApi& cuda = mock_world()->cuda_of(rank);
  Result<Backend*> cpus = native::factory().make_world(options);
  if (!cpus) return cpus;
  Backend* const made = gpu::GpuBackend::make(
      new Witness(*cpus, mock_world()->machine, rank, options.name), options.name,
      [&cuda]() -> Result<cuda::CudaApi*> { return &cuda; }, mock_run().direct, std::move(beside));
  return wrapped(made, rank);
}

inline void make_mock_staged_known() {
  if (is_available(kMockStagedBackend)) return;
  register_backend(
      {.name = std::string(kMockStagedBackend),
       .make_world = [](const WorldOptions& options) { return make_mock_staged(options); },
       .promises = native::factory().promises});
}

/// Runs the body on each rank, on a backend that is known. The first error of a rank is thrown.
inline void run_mock(MockGpuWorld& world, MockRun how, std::string_view usual_backend,
                     const Arrangement::Body& body) {
  if (how.backend.empty()) how.backend = usual_backend;
  mock_world() = &world;
  mock_run() = how;
  Config config = patient(how.backend);
  config.cuda_ipc = how.direct.on;
  const auto rank = [&](ProcessGroup& group) {
    group.set_timeout(how.timeout);
    body(group);
  };
  group::run_thread_ranks(static_cast<int>(world.cuda.size()), rank, [&](int) { return config; });
}

/// `world`: a MockGpuWorld, which may be a temporary.
template <class World>
void run_mock_staged(World&& world, const MockRun& how, const Arrangement::Body& body) {
  make_mock_staged_known();
  run_mock(world, how, kMockStagedBackend, body);
}
template <class World>
void run_mock_staged(World&& world, const Arrangement::Body& body) {
  run_mock_staged(world, {}, body);
}

/// The same, and nothing is left at its end. `direct`: from GPU to GPU.
template <class World>
void run_direct(World&& world, const gpu::DirectOptions& direct, const Arrangement::Body& body) {
  run_mock_staged(world, {.direct = direct}, body);
  expect_clean(world.machine);
  EXPECT_EQ(world.machine.looked_again, 0);
}
template <class World>
void run_direct(World&& world, const Arrangement::Body& body) {
  run_direct(world, small_parts(), body);
}
template <class World>
void run_staged(World&& world, const Arrangement::Body& body) {
  run_direct(world, {}, body);
}

/// A world whose tensors are on one mock of a GPU, of which nothing is left at its end and all
/// accesses are ordered. `copied`: as on a real GPU. `direct`: from GPU to GPU.
inline Arrangement mock_staged_arrangement(int size, bool copied, bool direct) {
  const auto run = [=](const Arrangement::Body& body) {
    MockGpuWorld world(size);
    const gpu::DirectOptions options = direct ? small_parts() : gpu::DirectOptions();
    run_mock_staged(world, {.plain = false, .copied = copied, .direct = options}, body);
    expect_clean(world.machine);
  };
  return {.name = (copied ? "CopiedMock" : "Mock") + std::string(direct ? "Direct" : "Staged") +
                  std::to_string(size),
          .size = size,
          .run = run,
          .backend = std::string(kMockStagedBackend),
          .foreign = std::nullopt};
}

/// Worlds of all sizes, and one of three ranks that is copied.
inline std::vector<Arrangement> mock_staged_worlds(bool direct) {
  make_mock_staged_known();
  std::vector<Arrangement> all;
  for (const int size : world_sizes()) all.push_back(mock_staged_arrangement(size, false, direct));
  all.push_back(mock_staged_arrangement(3, true, direct));
  return all;
}

}  // namespace tutti::test
