#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "cuda/cuda_api.hpp"

namespace tutti::cuda::kernels {
struct ReduceArguments;
}

namespace tutti::test {

/// A kernel of GPUs as the host runs it. By its name, "tutti_sum_float32"; null: there is none.
struct MockKernel {
  void (*run)(const cuda::kernels::ReduceArguments& all) = nullptr;
  std::size_t element = 0;  ///< bytes
};
[[nodiscard]] MockKernel mock_kernel(std::string_view name);

/// GPUs in host memory, one for each rank of this process, with streams whose work is done when
/// somebody asks for it. Every access to memory has a time of its stream, and every event carries
/// the times of what was before it: an access that is not ordered behind an earlier one of the same
/// memory is a race, whether or not it did harm.
///
/// Threads: any; one mutex for all.
class MockMachine {
 public:
  explicit MockMachine(int ranks);
  /// Of one rank, for a library that stands in for a driver. Its streams do their work at once, so
  /// no accesses are compared. The library may be called until the process ends: this one is not
  /// destroyed.
  [[nodiscard]] static MockMachine& of_process();

  using Clock = std::map<std::uint64_t, std::uint64_t>;  ///< by stream: what is known of its time
  struct Mark {                                          ///< what an event has recorded
    bool done = false;
    Clock clock;
    bool seen = false;
  };
  struct Access {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    bool writes = false;
  };
  /// The next action of a stream. `run` is called until it is true; its accesses are known by then.
  struct Item {
    std::function<bool()> run = {};
    std::function<void()> ended = {};  ///< called behind its accesses
    std::vector<Access> accesses = {};
    std::shared_ptr<Mark> waits = {};
    std::shared_ptr<Mark> records = {};
    Clock host = {};  ///< of the host that has given it
  };

  std::mutex mutex;

  // Under the mutex.
  /// Counts a call of a function by a rank. True: it is the one that fails.
  [[nodiscard]] bool enter(int rank, const std::string& function);
  void plant(int rank, std::string function, int occurrence = 0);
  /// Called by each rank that loads its kernels, when its socket for descriptors is there.
  std::function<void()> at_load;
  [[nodiscard]] bool was_hit() const noexcept { return hit_; }
  [[nodiscard]] const std::map<std::string, int>& calls(int rank) { return calls_[rank]; }
  void misuse(const std::string& text);
  [[nodiscard]] std::string misuses() const { return misuses_; }
  /// Those since it was asked last.
  [[nodiscard]] std::string new_misuses();

  void push(int rank, std::uintptr_t stream, Item item);
  /// Does all work that can be done.
  void pump();
  /// A graph is captured on this stream of the rank, and what it is given does not run. Meanwhile
  /// no thread of the rank may call most functions, unless its mode is relaxed. 0: none is.
  void capture(int rank, std::uintptr_t stream) { captured_[rank] = stream; }
  [[nodiscard]] std::uintptr_t captured(int rank) { return captured_[rank]; }
  /// Runs what was captured, once, on that stream. The graph is gone then, as with its stream.
  void run_graph(int rank, std::uintptr_t stream);
  std::condition_variable graphs_changed;
  /// Looks at events that the host had seen to pass before, which cost as much as the first.
  int looked_again = 0;
  /// The driver is gone, as at the end of a process: nothing may be called.
  bool deinitialized = false;
  /// Of a rank: its device 0 is this GPU of the host; else 0.
  std::map<int, int> first_gpu;
  /// Work of this stream waits until it is let go.
  void hold(int rank, std::uintptr_t stream, bool held);
  void join_host(int rank, const Clock& clock);
  /// Memory that was given back: who gets it next begins anew.
  void forget(int rank, std::uintptr_t begin, std::uintptr_t end);
  /// The host reads or writes memory: a race is told as of streams.
  void touch(int rank, const void* data, std::size_t bytes, bool writes);

  // Memory that ranks share: a memfd, which every rank maps for itself. Accesses of all ranks are
  // compared there.
  [[nodiscard]] cuda::Memory make_shared(std::size_t bytes);
  void map_shared(cuda::Address address, std::size_t bytes, cuda::Memory memory);
  void unmap_shared(cuda::Address address, std::size_t bytes);
  /// Ranks have met on their CPUs: each knows then what the others knew before. `meeting`: which.
  void arrive(int rank, const std::string& meeting);
  void leave(int rank, const std::string& meeting);

  [[nodiscard]] std::uintptr_t make_stream(int rank);
  void drop_stream(int rank, std::uintptr_t stream);
  /// The stream that a rank has made last.
  [[nodiscard]] std::uintptr_t last_stream(int rank) const { return last_.at(rank); }
  /// All that was made and not given back: streams, events, contexts, allocations, communicators.
  std::map<std::string, int> alive;
  [[nodiscard]] std::string leaks() const;

 private:
  struct Stream {
    int rank = 0;
    std::uint64_t key = 0;
    bool held = false;
    Clock clock;
    std::deque<Item> items;
  };
  struct Seen {
    Access access;
    std::uint64_t stream = 0;
    std::uint64_t time = 0;
  };
  struct Shared {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    std::uint64_t file = 0;
  };
  Stream& stream_of(int rank, std::uintptr_t stream);
  /// The same memory has one place, wherever it is mapped.
  [[nodiscard]] bool place_shared(Access& access) const;
  void see(int rank, const Access& access, std::uint64_t stream, const Clock& clock);
  bool step(Stream& stream);

  bool finds_races_ = true;
  std::vector<std::map<std::string, int>> calls_;
  int fault_rank_ = -1;
  std::string fault_;
  int occurrence_ = 0;
  bool hit_ = false;
  std::string misuses_;
  std::size_t asked_ = 0;  ///< so much of the misuses was asked for
  std::map<std::pair<int, std::uintptr_t>, Stream> streams_;
  std::map<int, std::uintptr_t> last_;  ///< by rank
  std::map<int, std::uintptr_t> captured_;
  std::map<std::pair<int, std::uintptr_t>, std::vector<Item>> graphs_;
  std::vector<Clock> hosts_;
  std::vector<std::vector<Seen>> seen_;  ///< by rank; the last one: of what they share
  std::vector<Shared> shared_;
  std::map<std::string, Clock> meetings_;
  std::uint64_t next_ = 1;
};

/// The driver as one rank has it, which sees so many devices.
[[nodiscard]] std::unique_ptr<cuda::CudaApi> make_mock_cuda(MockMachine& machine, int rank,
                                                            int devices);

}  // namespace tutti::test
