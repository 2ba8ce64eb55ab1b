#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "backend/nccl/api.hpp"
#include "mock_gpu.hpp"

namespace tutti::test {

/// One call of NCCL in a group of calls, on one rank.
struct MockNcclCall {
  std::string function;
  nccl::Address in = 0;
  nccl::Address out = 0;
  std::size_t count = 0;
  nccl::Type type{};
  nccl::Op op{};
  int peer = -1;                  ///< or root
  std::uint64_t number = 0;       ///< of a collective in its communicator
  std::vector<std::byte> factor;  ///< of a PREMUL_SUM
  bool done = false;
};

/// The common state of the ranks of a communicator.
struct MockClique {
  int size = 0;
  std::map<int, bool> joined;
  std::set<int> finalized;  ///< ranks that have begun to leave
  std::set<int> left;
  /// Collectives that not all ranks have begun, by number: the call of each rank.
  std::map<std::uint64_t, std::map<int, std::shared_ptr<MockNcclCall>>> collectives;
  /// Messages that are not matched, by (from, to).
  std::map<std::pair<int, int>, std::deque<std::shared_ptr<MockNcclCall>>> sends;
  std::map<std::pair<int, int>, std::deque<std::shared_ptr<MockNcclCall>>> receives;
  struct Split {
    int color = -1;
    int key = 0;
    std::shared_ptr<MockClique> clique;
    int rank = -1;
  };
  std::map<std::uint64_t, std::map<int, Split>> splits;
};

struct MockNcclComm {
  std::shared_ptr<MockClique> clique;
  int rank = 0;
  std::uint64_t collectives = 0;
  std::uint64_t splits = 0;
  bool aborted = false;
  bool finalized = false;
  int error = 0;     ///< what ncclCommGetAsyncError tells from now on
  int launches = 0;  ///< calls that have not ended
  bool slow = true;  ///< the next launch is under way for one look
  std::vector<std::pair<std::uintptr_t, MockMachine::Item>> under_way;
  int looks = 0;   ///< so many more find it under way
  int graphs = 0;  ///< calls in graphs that the program has not destroyed: no abort returns
  nccl::Comm* split_to = nullptr;
};

/// The state that all ranks see: cliques by their ids.
struct MockNetwork {
  std::map<std::string, std::shared_ptr<MockClique>> cliques;
  std::uint64_t ids = 0;
  /// A rank that leaves a communicator waits for its other ranks there, as NCCL's manual warns.
  bool waits_at_the_end = false;
  std::condition_variable somebody_left;
  int aborts = 0;
  bool aborts_hang = false;
  int splits_second = -1;  ///< this rank's splits begin after that of another rank
  std::condition_variable a_split_began;
};

/// NCCL over host memory, as one rank has it. It computes in the order of the ranks, and never ends
/// an operation whose calls do not fit each other.
class MockNccl final : public nccl::Api {
 public:
  MockNccl(MockMachine& machine, MockNetwork& network, int rank)
      : machine_(machine), network_(network), rank_(rank) {}
  ~MockNccl() override;

  static constexpr int kFailure = 3;
  int its_version = 23203;
  /// From now on ncclCommGetAsyncError tells of a failure of the network, on all communicators.
  void break_network() { broken_ = true; }

  [[nodiscard]] int version() const noexcept override { return its_version; }
  [[nodiscard]] std::string about() const override { return "a mock of NCCL"; }
  [[nodiscard]] std::string error_text(int code, nccl::Comm comm) const override;
  [[nodiscard]] int get_unique_id(nccl::UniqueId& made) noexcept override;
  [[nodiscard]] int init_rank(nccl::Comm& made, int size, const nccl::UniqueId& id,
                              int rank) noexcept override;
  [[nodiscard]] int split(nccl::Comm comm, int color, int key, nccl::Comm& made) noexcept override;
  [[nodiscard]] int finalize(nccl::Comm comm) noexcept override;
  [[nodiscard]] int destroy(nccl::Comm comm) noexcept override;
  [[nodiscard]] int abort(nccl::Comm comm) noexcept override;
  /// Aborts of the mock return, so that none outlives it; where one hangs this is 1 s.
  std::chrono::nanoseconds its_abort_limit = std::chrono::minutes(1);
  [[nodiscard]] std::chrono::nanoseconds abort_limit() const noexcept override {
    return its_abort_limit;
  }
  [[nodiscard]] int async_error(nccl::Comm comm, int& error) noexcept override;
  [[nodiscard]] int create_premul_sum(nccl::Op& made, void* factor, nccl::Type type, bool on_device,
                                      nccl::Comm comm) noexcept override;
  [[nodiscard]] int destroy_op(nccl::Op op, nccl::Comm comm) noexcept override;
  [[nodiscard]] int group_start() noexcept override;
  [[nodiscard]] int group_end() noexcept override;
  [[nodiscard]] int all_reduce(nccl::Address in, nccl::Address out, std::size_t count,
                               nccl::Type type, nccl::Op op, nccl::Comm comm,
                               nccl::Stream stream) noexcept override;
  [[nodiscard]] int reduce(nccl::Address in, nccl::Address out, std::size_t count, nccl::Type type,
                           nccl::Op op, int root, nccl::Comm comm,
                           nccl::Stream stream) noexcept override;
  [[nodiscard]] int broadcast(nccl::Address in, nccl::Address out, std::size_t count,
                              nccl::Type type, int root, nccl::Comm comm,
                              nccl::Stream stream) noexcept override;
  [[nodiscard]] int all_gather(nccl::Address in, nccl::Address out, std::size_t count,
                               nccl::Type type, nccl::Comm comm,
                               nccl::Stream stream) noexcept override;
  [[nodiscard]] int reduce_scatter(nccl::Address in, nccl::Address out, std::size_t count,
                                   nccl::Type type, nccl::Op op, nccl::Comm comm,
                                   nccl::Stream stream) noexcept override;
  [[nodiscard]] int send(nccl::Address data, std::size_t count, nccl::Type type, int to,
                         nccl::Comm comm, nccl::Stream stream) noexcept override;
  [[nodiscard]] int receive(nccl::Address data, std::size_t count, nccl::Type type, int from,
                            nccl::Comm comm, nccl::Stream stream) noexcept override;

 private:
  using CommPtr = std::shared_ptr<MockNcclComm>;
  struct Queued {
    CommPtr comm;
    std::uintptr_t stream = 0;
    std::shared_ptr<MockNcclCall> call;
  };

  [[nodiscard]] CommPtr comm_of(nccl::Comm comm);
  [[nodiscard]] nccl::Comm add(std::shared_ptr<MockClique> clique, int rank);
  int queue(MockNcclCall call, nccl::Comm comm, nccl::Stream stream);
  void end_split(MockNcclComm& comm, std::uint64_t number);

  MockMachine& machine_;
  MockNetwork& network_;
  int rank_;
  bool broken_ = false;
  int aborting_ = 0;  ///< aborts that have not returned
  std::map<std::uintptr_t, CommPtr> comms_;
  std::uintptr_t next_comm_ = 1;
  struct Made {
    std::vector<std::byte> factor;
    nccl::Comm comm{};
  };
  std::map<int, Made> made_;  ///< ops; an abort of their communicator frees them
  int next_op_ = 100;
  /// Calls between ncclGroupStart and ncclGroupEnd. NCCL counts them for each thread: the groups of
  /// a rank have their own, the caller's and those that make passes.
  struct Grouped {
    int depth = 0;
    std::vector<Queued> queued;
  };
  std::map<std::thread::id, Grouped> grouped_;
};

}  // namespace tutti::test
