#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "backend/mpi/api.hpp"

namespace tutti::test {

class MockRank;

/// An MPI whose ranks are threads of this process: it does what the standard says, in plain code,
/// so that the backend above it is tested without any MPI. A call of a rank can be made to fail.
class MockMpi {
 public:
  explicit MockMpi(int size);
  ~MockMpi();
  /// A Type is its number of bytes, and above this bit its dtype + 1.
  static constexpr std::uintptr_t kTypeShift = 40;
  [[nodiscard]] static std::size_t bytes_of(mpi::Type type) {
    return static_cast<std::uintptr_t>(type) & ((std::uintptr_t{1} << kTypeShift) - 1);
  }
  [[nodiscard]] MockRank& rank(int rank) { return *ranks_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] int size() const { return static_cast<int>(ranks_.size()); }
  /// Requests and messages that nobody has ended.
  [[nodiscard]] std::size_t left_over();
  /// Communicators beside MPI_COMM_WORLD that have not been freed.
  [[nodiscard]] std::size_t communicators();

 private:
  friend class MockRankFunctions;

  enum class What {
    barrier,
    broadcast,
    all_reduce,
    reduce,
    scan,
    exclusive_scan,
    reduce_scatter,
    all_gather,
    gather,
    scatter,
    all_to_all,
    duplicate,
    split,
  };
  /// A rank's part of a collective. Blocks of equal size have no counts.
  struct Part {
    What what = What::barrier;
    const std::byte* in = nullptr;
    std::byte* out = nullptr;
    bool in_place = false;
    int count = 0;
    mpi::Type type{};
    mpi::Op op{};
    int root = 0;
    int color = 0;
    int key = 0;
    std::vector<int> out_counts = {};
    std::vector<int> out_offsets = {};
    std::uint64_t request = 0;
    mpi::Comm* made = nullptr;
  };
  struct Match {
    std::vector<std::unique_ptr<Part>> parts;
    std::size_t arrived = 0;
    std::size_t taken = 0;
  };
  struct Message {
    int source = 0;
    int tag = 0;
    std::vector<std::byte> bytes;
  };
  struct Receive {
    int source = 0;
    int tag = 0;
    std::byte* data = nullptr;
    std::size_t bytes = 0;
    std::uint64_t request = 0;
  };
  struct Communicator {
    std::vector<int> members;
    std::vector<std::uint64_t> calls;  ///< of each member
    std::map<std::uint64_t, Match> matches;
    std::vector<std::deque<Message>> messages;  ///< to each member
    std::vector<std::deque<Receive>> receives;  ///< of each member
    int handles = 0;
  };
  struct Pending {
    bool done = false;
    int code = 0;
    mpi::Received received;
  };

  [[nodiscard]] mpi::Comm make(std::vector<int> members);
  std::uint64_t arrive(mpi::Comm comm, int rank, Part part);
  void run(Communicator& comm, Match& match);
  void send(mpi::Comm comm, int rank, int to, Message message);
  void receive(mpi::Comm comm, int rank, Receive receive);
  /// The first message to this rank, which no longer stands in its queue; absent: there is none.
  [[nodiscard]] std::optional<Message> take(mpi::Comm comm, int rank, int source, int tag);
  void deliver(const Receive& receive, const Message& message);
  [[nodiscard]] Communicator& at(mpi::Comm comm) { return comms_.at(comm); }
  [[nodiscard]] int index(mpi::Comm comm, int world_rank);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<mpi::Comm, Communicator> comms_;
  std::map<std::uint64_t, Pending> requests_;
  std::map<std::uint64_t, Message> matched_;  ///< found by a probe, not received
  std::uint64_t next_ = 2;
  std::vector<std::unique_ptr<MockRank>> ranks_;
};

/// The functions of MPI as one rank calls them (mock_rank.cpp), and what a test does to them.
class MockRank : public mpi::Api {
 public:
  /// Its call with this number from now on fails (0: the next one); -1: none does. A thread that
  /// makes progress calls, too.
  void fail_at(int call) { fail_at_ = call; }
  /// A call has failed.
  [[nodiscard]] bool failed() const { return failed_; }
  /// The functions that fail_next tells apart.
  enum class Function { other, improbe, receive_found };
  /// The next call of this function fails.
  void fail_next(Function function) { fails_next_ = function; }
  /// How many calls have been counted that can fail.
  [[nodiscard]] int calls() const { return calls_; }
  void set_threading(mpi::Threading threading) { threading_ = threading; }
  /// The program has called MPI_Init already, or MPI_Finalize.
  void set_initialized() { initialized_ = true; }
  void set_finalized() { finalized_ = true; }
  /// How often the error handler of MPI_COMM_WORLD was changed.
  [[nodiscard]] int changed_handlers() const { return changed_handlers_; }
  void set_main_thread(bool main) { main_thread_ = main; }
  /// Whether a receive can be cancelled: not when its message is under way.
  void set_cancels(bool cancels) { cancels_ = cancels; }
  /// Calls that the standard forbids; empty: there was none.
  [[nodiscard]] const std::string& misuse() const { return misuse_; }
  static constexpr int kFailure = 15;

 protected:
  mpi::Threading threading_ = mpi::Threading::serialized;
  bool initialized_ = false;
  bool finalized_ = false;
  int changed_handlers_ = 0;
  bool main_thread_ = true;
  bool cancels_ = true;
  std::string misuse_;
  std::atomic<int> fail_at_{-1};
  std::atomic<bool> failed_{false};
  std::atomic<Function> fails_next_{Function::other};
  std::atomic<int> calls_{0};
};

[[nodiscard]] std::unique_ptr<MockRank> make_mock_rank(MockMpi& mpi, int rank);

}  // namespace tutti::test
