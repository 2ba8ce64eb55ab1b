#pragma once

#include <algorithm>

#include <tutti/backend/group_access.hpp>

#include "arrangement.hpp"
#include "support/called_back.hpp"
#include "support/mock_gpu.hpp"

// How tests over a mock of CUDA's driver call a group.
namespace tutti::test {

inline constexpr int kRanks = 3;
inline constexpr Device kGpu{DeviceType::cuda, 0};

/// No access was out of order, and nothing that was made is left.
inline void expect_clean(const MockMachine& machine) {
  EXPECT_EQ(machine.misuses(), "");
  EXPECT_EQ(machine.leaks(), "");
}

/// GPUs for the ranks of one process. Each rank sees `devices` of them, and may use the same one as
/// the others: the memory of each is its own all the same.
struct MockGpuWorld {
  explicit MockGpuWorld(int ranks, int devices = 1) : machine(ranks) {
    for (int rank = 0; rank < ranks; ++rank) cuda.push_back(make_mock_cuda(machine, rank, devices));
  }
  // NOLINTNEXTLINE(google-explicit-constructor): calls of a world's machine
  operator MockMachine&() { return machine; }
  [[nodiscard]] cuda::CudaApi& cuda_of(int rank) { return *cuda[static_cast<std::size_t>(rank)]; }

  MockMachine machine;
  std::vector<std::unique_ptr<cuda::CudaApi>> cuda;
};

/// The world whose ranks run now.
inline MockGpuWorld*& mock_world() {
  static MockGpuWorld* world = nullptr;
  return world;
}

/// Does it under the mutex of the machine.
template <class Action>
auto locked(MockMachine& machine, const Action& action) {
  const std::lock_guard lock(machine.mutex);
  return action();
}

/// How often a rank has called a function of CUDA or NCCL.
inline int calls_of(MockMachine& machine, const std::string& function, int rank = 0) {
  const std::lock_guard lock(machine.mutex);
  const auto& calls = machine.calls(rank);
  const auto at = calls.find(function);
  return at == calls.end() ? 0 : at->second;
}

template <class T>
TensorView on_gpu(std::vector<T>& values, int gpu = 0) {
  const Device device{DeviceType::cuda, static_cast<std::int16_t>(gpu)};
  return TensorView(values.data(), *dtype_of<T>(), values.size(), device);
}

/// Every second one of them.
inline TensorView strided_on_gpu(std::vector<float>& values) {
  const std::array shape{static_cast<std::int64_t>(values.size() / 2)};
  return TensorView(values.data(), DType::float32, shape, std::array{std::int64_t{2}}, kGpu);
}

/// For the host: what is on the GPU is over. Throws what went wrong.
inline void finish(Work work) { work.synchronize(); }

/// The host reads a tensor: a race with what a stream writes is told.
inline void read_on_host(const ProcessGroup& world, const std::vector<float>& values) {
  MockMachine& machine = mock_world()->machine;
  locked(machine,
         [&] { machine.touch(world.rank(), values.data(), values.size() * sizeof(float), false); });
}

/// Sends and receives at the same time.
inline void exchange(ProcessGroup& world, const TensorView& out, int to, const TensorView& in,
                     int from) {
  Work sent = world.isend(out, to);
  finish(world.irecv(in, from));
  finish(std::move(sent));
}

/// Submits a call on a stream.
inline Work submit_on(ProcessGroup& world, Collective call, std::uintptr_t stream,
                      std::optional<std::chrono::nanoseconds> timeout = std::nullopt,
                      const TensorView& factor = {}) {
  Details details;
  details.stream = stream;
  details.factor = factor;
  call.details = &details;
  return GroupAccess::submit(world, call, timeout, false);
}

inline Collective all_reduce_of(const TensorView& view, ReduceOp op = ReduceOp::sum) {
  return {.kind = Kind::all_reduce, .op = op, .input = view, .output = view};
}

/// An all_reduce that one rank does not join ends in 2 s with an error that names it.
inline void expect_named_in_time(ProcessGroup& world, const TensorView& tensor, int late) {
  Work work = submit_on(world, all_reduce_of(tensor), 0, std::chrono::seconds(2));
  const Outcome error = error_of<Error>([&] { finish(std::move(work)); });
  EXPECT_EQ(error.culprit(), late) << error.message();
}

inline Work reduce_on(ProcessGroup& world, const TensorView& view, std::uintptr_t stream,
                      ReduceOp op = ReduceOp::sum, const TensorView& factor = {}) {
  return submit_on(world, all_reduce_of(view, op), stream, std::nullopt, factor);
}

/// A message on a stream.
inline Work message(ProcessGroup& world, Kind kind, const TensorView& view, int other, int tag = 0,
                    std::uintptr_t stream = 0,
                    std::optional<std::chrono::nanoseconds> timeout = std::nullopt) {
  Collective call{.kind = kind, .root = other, .tag = tag, .input = {}, .output = {}};
  (kind == Kind::send ? call.input : call.output) = view;
  return submit_on(world, call, stream, timeout);
}

inline Work send_to(ProcessGroup& world, const TensorView& view, int to, int tag = 0,
                    std::uintptr_t stream = 0) {
  return message(world, Kind::send, view, to, tag, stream);
}

inline Work recv_from(ProcessGroup& world, const TensorView& view, int from, int tag = 0,
                      std::uintptr_t stream = 0) {
  return message(world, Kind::recv, view, from, tag, stream);
}

/// A stream of the caller, and work for it.
struct CallersStream {
  CallersStream(MockMachine& its_machine, int its_rank)
      : machine(its_machine),
        rank(its_rank),
        handle(locked(machine, [&] { return machine.make_stream(rank); })) {}
  explicit CallersStream(const ProcessGroup& world)
      : CallersStream(mock_world()->machine, world.rank()) {}
  ~CallersStream() {
    locked(machine, [&] { machine.drop_stream(rank, handle); });
  }
  void copy(std::vector<float>& to, std::vector<float>& from) {
    const auto at = [](std::vector<float>& values, bool writes) {
      const auto begin = reinterpret_cast<std::uintptr_t>(values.data());
      return MockMachine::Access{begin, begin + values.size() * sizeof(float), writes};
    };
    const auto run = [&to, &from] {
      std::copy(from.begin(), from.end(), to.begin());
      return true;
    };
    locked(machine, [&] {
      machine.push(rank, handle, {.run = run, .accesses = {at(from, false), at(to, true)}});
    });
  }
  void hold(bool held) {
    locked(machine, [&] { machine.hold(rank, handle, held); });
  }
  /// Runs the graph that was captured on it.
  void run_graph() {
    locked(machine, [&] { machine.run_graph(rank, handle); });
  }
  /// Waits until all is done that it was given; at most 10 s.
  void synchronize() {
    const auto done = std::make_shared<std::atomic<bool>>(false);
    const auto run = [done] {
      *done = true;
      return true;
    };
    locked(machine, [&] { machine.push(rank, handle, {.run = run}); });
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!*done && std::chrono::steady_clock::now() < until) {
      locked(machine, [&] { machine.pump(); });
      std::this_thread::yield();
    }
    EXPECT_TRUE(*done) << "the stream has not ended its work";
  }

  MockMachine& machine;
  int rank;
  std::uintptr_t handle;
};

/// While it lives, the stream that a rank has made last does nothing.
struct Hold {
  explicit Hold(const ProcessGroup& world) : machine(mock_world()->machine), rank(world.rank()) {
    const std::lock_guard lock(machine.mutex);
    stream = machine.last_stream(rank);
    machine.hold(rank, stream, true);
  }
  ~Hold() {
    locked(machine, [&] { machine.hold(rank, stream, false); });
  }
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;
  MockMachine& machine;
  int rank;
  std::uintptr_t stream = 0;
};

/// After `wait` has returned, the Work tells truly whether the GPU still works on the operation.
/// `held`: the stream that the operation ends on.
inline void expect_told_after_wait(Work work, std::unique_ptr<Hold> held) {
  work.wait();
  EXPECT_FALSE(work.done());
  EXPECT_FALSE(work.wait_for(std::chrono::nanoseconds(0)));
  Work moved = std::move(work);
  moved.wait();
  EXPECT_TRUE(moved.error().ok());
  EXPECT_FALSE(moved.done());
  EXPECT_THROW(moved.on_done({}), InvalidArgument) << "its success was told";
  std::atomic<bool> released{false};
  std::thread release([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    released = true;
    held.reset();
  });
  moved.synchronize();
  EXPECT_TRUE(released) << "the GPU still works on it";
  EXPECT_TRUE(moved.done());
  release.join();
}

/// While it lives, a graph is captured on the stream.
struct Capture {
  explicit Capture(const CallersStream& stream) : machine(stream.machine), rank(stream.rank) {
    set(stream.handle);
  }
  ~Capture() { set(0); }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  void set(std::uintptr_t stream) const {
    const std::lock_guard lock(machine.mutex);
    machine.capture(rank, stream);
  }
  MockMachine& machine;
  int rank;
};

/// Calls so that each function is called. The tensors outlive the world.
struct GpuProgram {
  std::vector<float> a = std::vector<float>(12, 1);
  std::vector<float> wide = std::vector<float>(24, 1);
  std::vector<float> all = std::vector<float>(36, 0);
  std::vector<float> from = std::vector<float>(36, 2);
  std::vector<float> got = std::vector<float>(12, 0);
  std::vector<float> factors = std::vector<float>(12, 2);

  /// Some of every kind.
  void run(ProcessGroup& world, const TensorView& factor) {
    finish(world.all_reduce(on_gpu(a)));
    finish(reduce_on(world, on_gpu(a), 0, ReduceOp::premul_sum, factor));
    finish(world.all_reduce(strided_on_gpu(wide)));
    finish(world.all_gather(on_gpu(all), on_gpu(a)));
    exchange(world, on_gpu(a), after(world), on_gpu(got), before(world));
    ProcessGroup group = world.new_subgroups(world.size());
    finish(group.all_reduce(on_gpu(a)));
  }
};

/// The functions of CUDA and NCCL that rank 0 calls in a run in which none fails.
template <class World, class Run>
std::vector<std::string> functions_of(const Run& run) {
  World mock(kRanks);
  run(mock);
  expect_clean(mock.machine);
  std::vector<std::string> all;
  for (const auto& [function, calls] : mock.machine.calls(0)) all.push_back(function);
  return all;
}

/// One call of a function that fails.
struct Fault {
  std::string function;
  int occurrence = 0;
  int rank = 0;
};

/// Each call of these in its turn fails in a world of its own. `check` is told the text of the
/// error that the run ends with; empty: it ends with none. In any case nothing is left.
template <class World, class Run, class Check>
void plant_each(const std::vector<std::string>& functions, const std::vector<int>& occurrences,
                const std::vector<int>& ranks, const Run& run, const Check& check) {
  for (const std::string& function : functions) {
    for (const int occurrence : occurrences) {
      for (const int rank : ranks) {
        SCOPED_TRACE(function + ' ' + std::to_string(occurrence) + " of " + std::to_string(rank));
        World mock(kRanks);
        mock.machine.plant(rank, function, occurrence);
        std::string text;
        try {
          run(mock);
        } catch (const Error& error) {
          text = error.what();
        }
        check(mock, Fault{function, occurrence, rank}, text);
        expect_clean(mock.machine);
      }
    }
  }
}

}  // namespace tutti::test
