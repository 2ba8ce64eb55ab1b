#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <tutti/backends.hpp>
#include <tutti/kinds.hpp>
#include <tutti/tutti.hpp>

#include "backend/native/native_backend.hpp"
#include "backend/staged/staged_backend.hpp"
#include "engine/gpu_calls.hpp"
#include "group/thread_ranks.hpp"
#include "mock_gpu_calls.hpp"
#include "on_gpu.hpp"

namespace tutti::test {

/// Our own engine with tensors of GPUs, over a mock of CUDA's driver; ranks are threads.
inline constexpr std::string_view kMockStagedBackend = "staged_mock";

/// GPUs for the ranks of one process. Each rank sees `devices` of them, and may use the same one as
/// the others: the memory of each is its own all the same.
struct MockGpuWorld {
  explicit MockGpuWorld(int ranks, int devices = 1) : machine(ranks) {
    for (int rank = 0; rank < ranks; ++rank)
      cuda.push_back(std::make_unique<MockCuda>(machine, rank, devices));
  }
  MockMachine machine;
  std::vector<std::unique_ptr<MockCuda>> cuda;
};

/// The CPUs' backend, which tells the machine what the host reads and writes: so an access of a
/// stream that is not ordered with those of the host is a race, too.
class Witness final : public Backend {
 public:
  /// `name`: of the group, the same on all its ranks.
  Witness(Backend* inner, MockMachine& machine, int rank, std::string name)
      : inner_(inner), machine_(machine), machine_rank_(rank), name_(std::move(name)) {}
  ~Witness() override { inner_->drop_reference(); }

  [[nodiscard]] std::string_view name() const noexcept override { return inner_->name(); }
  [[nodiscard]] int rank() const noexcept override { return inner_->rank(); }
  [[nodiscard]] int size() const noexcept override { return inner_->size(); }
  [[nodiscard]] std::string unsupported(const Collective& call) const override {
    return inner_->unsupported(call);
  }
  std::uint64_t submit(const Collective& call, bool asynchronous) noexcept override {
    std::vector<TensorView> outputs;
    std::string meeting;
    {
      const std::lock_guard lock(machine_.mutex);
      // No other call may be relied on where memory is shared.
      if (has_data(call.kind) && engine::is_gpu_call(call.digest)) {
        meeting = name_ + ' ' + std::to_string(calls_++);
        machine_.arrive(machine_rank_, meeting);
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
    const std::uint64_t ticket = inner_->submit(call, asynchronous);
    const std::lock_guard lock(mutex_);
    begun_[ticket] = {std::move(outputs), std::move(meeting)};
    return ticket;
  }
  [[nodiscard]] bool wait(std::uint64_t ticket, std::optional<std::chrono::nanoseconds> limit,
                          Status& outcome) noexcept override {
    if (!inner_->wait(ticket, limit, outcome)) return false;
    if (outcome.ok()) written(ticket);
    return true;
  }
  [[nodiscard]] std::optional<Status> poll(std::uint64_t ticket) noexcept override {
    std::optional<Status> outcome = inner_->poll(ticket);
    if (outcome && outcome->ok()) written(ticket);
    return outcome;
  }
  void on_done(std::uint64_t ticket, Callback callback) noexcept override {
    inner_->on_done(ticket, callback);
  }
  [[nodiscard]] int source(std::uint64_t ticket) noexcept override {
    return inner_->source(ticket);
  }
  [[nodiscard]] bool can_probe() const noexcept override { return inner_->can_probe(); }
  [[nodiscard]] std::optional<ProbedMessage> probed(std::uint64_t ticket) noexcept override {
    return inner_->probed(ticket);
  }
  int release(std::uint64_t ticket) noexcept override { return inner_->release(ticket); }
  void abort(const Status& cause) noexcept override { inner_->abort(cause); }
  [[nodiscard]] Status health() noexcept override { return inner_->health(); }
  [[nodiscard]] Result<Backend*> make_child(std::span<const int> ranks,
                                            std::string name) noexcept override {
    const std::string its_name = name_ + '/' + name + ' ' + std::to_string(calls_);
    Result<Backend*> child = inner_->make_child(ranks, std::move(name));
    if (!child || *child == nullptr) return child;
    return static_cast<Backend*>(new Witness(*child, machine_, machine_rank_, its_name));
  }
  [[nodiscard]] Result<Backend*> make_pair(int first, int second,
                                           std::string name) noexcept override {
    const std::string its_name = name_ + '/' + name;
    Result<Backend*> pair = inner_->make_pair(first, second, std::move(name));
    if (!pair) return pair;
    return static_cast<Backend*>(new Witness(*pair, machine_, machine_rank_, its_name));
  }
  void close(std::chrono::nanoseconds drain) noexcept override { inner_->close(drain); }
  [[nodiscard]] std::string location(int rank) const override { return inner_->location(rank); }

 private:
  /// Under the mutex of the machine.
  void look(const TensorView& view, bool writes) {
    if (view.data() != nullptr && view.contiguous() && view.device() == Device())
      machine_.touch(machine_rank_, view.data(), view.size_bytes(), writes);
  }
  static void add(std::vector<TensorView>& outputs, const TensorView& view) {
    if (view.data() != nullptr) outputs.push_back(view);
  }
  /// Before anybody else is told: under the lock from the look to the end.
  void written(std::uint64_t ticket) {
    const std::lock_guard lock(mutex_);
    const auto at = begun_.find(ticket);
    if (at == begun_.end()) return;
    const std::lock_guard machine_lock(machine_.mutex);
    if (!at->second.meeting.empty()) machine_.leave(machine_rank_, at->second.meeting);
    for (const TensorView& view : at->second.outputs) look(view, true);
    begun_.erase(at);
  }

  Backend* inner_;  ///< a reference is held
  MockMachine& machine_;
  int machine_rank_;
  std::mutex mutex_;
  struct Begun {
    std::vector<TensorView> outputs;
    std::string meeting;  ///< empty: it is none
  };
  std::map<std::uint64_t, Begun> begun_;
  const std::string name_;
  std::uint64_t calls_ = 0;  ///< meetings; under the mutex of the machine
};

/// From GPU to GPU, in parts that are small enough for tests to have several.
inline staged::DirectOptions small_parts() {
  static constexpr std::byte kImage[1] = {};  // the mock has kernels of its own
  return {.on = true,
          .image = kImage,
          .slot_bytes = 1024,
          .two_rounds_from = 256,
          .message_slot_bytes = std::size_t{32} << 10,
          .host_part_bytes = 512};
}

/// Without kernels all reductions go by way of the host.
inline staged::DirectOptions no_kernels() {
  staged::DirectOptions options = small_parts();
  options.image = {};
  return options;
}

/// How the ranks of a MockGpuWorld run.
struct MockStagedRun {
  bool plain = true;    ///< as it is, without OnGpu
  bool copied = false;  ///< tensors are copied to the mock's memory, as to that of a real GPU
  staged::DirectOptions direct = {};
};

/// The GPUs of the world that is made next, and how its ranks run.
struct MockStagedChoice {
  MockGpuWorld* world = nullptr;
  MockStagedRun how;
};
inline MockStagedChoice& mock_staged_choice() {
  static MockStagedChoice choice;
  return choice;
}

inline void make_mock_staged_known() {
  static std::once_flag once;
  std::call_once(once, [] {
    BackendFactory factory;
    factory.name = kMockStagedBackend;
    factory.make_world = [](const WorldOptions& options) -> Result<Backend*> {
      const MockStagedChoice choice = mock_staged_choice();
      const int rank = options.identity.rank;
      MockCuda& cuda = *choice.world->cuda[static_cast<std::size_t>(rank)];
      Result<Backend*> cpus = native::factory().make_world(options);
      if (!cpus) return cpus;
      Backend* const made = staged::StagedBackend::make(
          new Witness(*cpus, choice.world->machine, rank, options.name), options.name,
          [&cuda]() -> Result<cuda::CudaApi*> { return &cuda; }, choice.how.direct);
      if (choice.how.plain) return made;
      return static_cast<Backend*>(
          new OnGpu(made, kMockStagedBackend,
                    choice.how.copied ? std::optional(Gpu{cuda, 0}) : std::nullopt));
    };
    factory.promises = native::factory().promises;
    register_backend(std::move(factory));
  });
}

/// Runs the body on each rank. The first error of a rank is thrown.
inline void run_mock_staged(MockGpuWorld& world, const MockStagedRun& how,
                            const Arrangement::Body& body) {
  make_mock_staged_known();
  mock_staged_choice() = {&world, how};
  Config config = patient();
  config.backend = kMockStagedBackend;
  config.cuda_ipc = how.direct.on;
  group::run_thread_ranks(static_cast<int>(world.cuda.size()), body, [&](int) { return config; });
}
inline void run_mock_staged(MockGpuWorld& world, const Arrangement::Body& body) {
  run_mock_staged(world, {}, body);
}

/// The same, and nothing is left at its end. `direct`: from GPU to GPU.
inline void run_direct(MockGpuWorld& world, const staged::DirectOptions& direct,
                       const Arrangement::Body& body) {
  run_mock_staged(world, {.direct = direct}, body);
  expect_clean(world.machine);
  EXPECT_EQ(world.machine.looked_again, 0);
}
inline void run_direct(MockGpuWorld& world, const Arrangement::Body& body) {
  run_direct(world, small_parts(), body);
}
inline void run_staged(MockGpuWorld& world, const Arrangement::Body& body) {
  run_direct(world, {}, body);
}

}  // namespace tutti::test
