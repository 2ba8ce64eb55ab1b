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
#include <utility>
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
  friend class MockRank;

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

/// The functions of MPI as one rank calls them.
class MockRank final : public mpi::Api {
 public:
  MockRank(MockMpi& mpi, int rank);

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

  [[nodiscard]] const mpi::LibraryInfo& info() const noexcept override { return info_; }
  [[nodiscard]] std::string error_text(int code) const override;
  [[nodiscard]] std::optional<bool> cuda_aware() noexcept override { return std::nullopt; }
  [[nodiscard]] bool initialized() noexcept override { return initialized_; }
  [[nodiscard]] bool finalized() noexcept override { return finalized_; }
  [[nodiscard]] int init(mpi::Threading wanted, mpi::Threading& provided) noexcept override;
  [[nodiscard]] int query_threading(mpi::Threading& provided) noexcept override;
  [[nodiscard]] bool is_main_thread() noexcept override { return main_thread_; }
  [[nodiscard]] int finalize() noexcept override { return 0; }
  [[nodiscard]] mpi::Comm world() noexcept override { return mpi::Comm{1}; }
  [[nodiscard]] mpi::Comm self() noexcept override { return mpi::Comm{0}; }
  [[nodiscard]] bool is_null(mpi::Comm /*comm*/) noexcept override { return false; }
  [[nodiscard]] int rank(mpi::Comm comm, int& rank) noexcept override;
  [[nodiscard]] int size(mpi::Comm comm, int& size) noexcept override;
  [[nodiscard]] int iduplicate(mpi::Comm comm, mpi::Comm& made,
                               mpi::Request& request) noexcept override;
  [[nodiscard]] int split(mpi::Comm comm, int color, int key, mpi::Comm& made) noexcept override;
  [[nodiscard]] int create_group(mpi::Comm parent, std::span<const int> ranks, int tag,
                                 mpi::Comm& made) noexcept override;
  [[nodiscard]] int free(mpi::Comm& comm) noexcept override;
  [[nodiscard]] int return_errors(mpi::Comm comm) noexcept override;
  [[nodiscard]] int largest_tag() noexcept override { return 32767; }
  [[nodiscard]] bool builtin(DType dtype, mpi::Type& type) noexcept override;
  [[nodiscard]] mpi::Type byte() noexcept override;
  [[nodiscard]] int make_bytes(std::int64_t bytes, mpi::Type& made) noexcept override;
  [[nodiscard]] int free(mpi::Type& type) noexcept override;
  [[nodiscard]] mpi::Op builtin(mpi::BuiltinOp op) noexcept override;
  [[nodiscard]] int make_op(mpi::UserFunction function, mpi::Op& made) noexcept override;
  [[nodiscard]] int free(mpi::Op& op) noexcept override;
  [[nodiscard]] const void* in_place() noexcept override { return &in_place_; }
  [[nodiscard]] int ibarrier(mpi::Comm comm, mpi::Request& request) noexcept override;
  [[nodiscard]] int ibroadcast(void* data, int count, mpi::Type type, int root, mpi::Comm comm,
                               mpi::Request& request) noexcept override;
  [[nodiscard]] int iall_reduce(const void* in, void* out, int count, mpi::Type type, mpi::Op op,
                                mpi::Comm comm, mpi::Request& request) noexcept override;
  [[nodiscard]] int ireduce(const void* in, void* out, int count, mpi::Type type, mpi::Op op,
                            int root, mpi::Comm comm, mpi::Request& request) noexcept override;
  [[nodiscard]] int iscan(const void* in, void* out, int count, mpi::Type type, mpi::Op op,
                          mpi::Comm comm, mpi::Request& request) noexcept override;
  [[nodiscard]] int iexscan(const void* in, void* out, int count, mpi::Type type, mpi::Op op,
                            mpi::Comm comm, mpi::Request& request) noexcept override;
  [[nodiscard]] int ireduce_scatter(const void* in, void* out, int count, mpi::Type type,
                                    mpi::Op op, mpi::Comm comm,
                                    mpi::Request& request) noexcept override;
  [[nodiscard]] int ireduce_scatter_v(const void* in, void* out, const int* counts, mpi::Type type,
                                      mpi::Op op, mpi::Comm comm,
                                      mpi::Request& request) noexcept override;
  [[nodiscard]] int iall_gather(const void* in, void* out, int count, mpi::Type type,
                                mpi::Comm comm, mpi::Request& request) noexcept override;
  [[nodiscard]] int iall_gather_v(const void* in, int in_count, void* out, const int* counts,
                                  const int* displacements, mpi::Type type, mpi::Comm comm,
                                  mpi::Request& request) noexcept override;
  [[nodiscard]] int igather(const void* in, void* out, int count, mpi::Type type, int root,
                            mpi::Comm comm, mpi::Request& request) noexcept override;
  [[nodiscard]] int iscatter(const void* in, void* out, int count, mpi::Type type, int root,
                             mpi::Comm comm, mpi::Request& request) noexcept override;
  [[nodiscard]] int iall_to_all(const void* in, void* out, int count, mpi::Type type,
                                mpi::Comm comm, mpi::Request& request) noexcept override;
  [[nodiscard]] int isend(const void* data, int count, mpi::Type type, int to, int tag,
                          mpi::Comm comm, mpi::Request& request) noexcept override;
  [[nodiscard]] int ireceive(void* data, int count, mpi::Type type, int from, int tag,
                             mpi::Comm comm, mpi::Request& request) noexcept override;
  [[nodiscard]] int improbe(int from, int tag, mpi::Comm comm, bool& found, mpi::Matched& message,
                            mpi::Received& described) noexcept override;
  [[nodiscard]] int ireceive(void* data, int count, mpi::Type type, mpi::Matched& message,
                             mpi::Request& request) noexcept override;
  [[nodiscard]] int test(mpi::Request& request, bool& done,
                         mpi::Received* received) noexcept override;
  [[nodiscard]] int cancel(mpi::Request& request, bool& done) noexcept override;

 private:
  [[nodiscard]] bool fails(Function called = Function::other) noexcept;
  using What = MockMpi::What;
  [[nodiscard]] static MockMpi::Part part_of(What what, const void* in, void* out, int count,
                                             mpi::Type type, mpi::Op op = {}, int root = 0);
  [[nodiscard]] int members_of(mpi::Comm comm);
  int begin(mpi::Comm comm, MockMpi::Part part, mpi::Request& request);
  int meet(mpi::Comm comm, MockMpi::Part part, mpi::Comm& made);

  MockMpi& mpi_;
  const int rank_;
  const mpi::LibraryInfo info_;
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
  char in_place_ = 0;
};

}  // namespace tutti::test
