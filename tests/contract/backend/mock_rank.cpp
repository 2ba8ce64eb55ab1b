#include <utility>

#include "mock_mpi.hpp"

// What one rank calls: each function of MPI is handed on to the MPI of all ranks.
namespace tutti::test {

using mpi::Comm;
using mpi::Op;
using mpi::Request;
using mpi::Type;

class MockRankFunctions final : public MockRank {
 public:
  MockRankFunctions(MockMpi& mpi, int rank) : mpi_(mpi), rank_(rank) {}

  const mpi::LibraryInfo& info() const noexcept override { return info_; }
  std::string error_text(int code) const override {
    return code == kFailure ? "MPI_ERR_OTHER: a planted fault" : "error " + std::to_string(code);
  }
  std::optional<bool> cuda_aware() noexcept override { return std::nullopt; }
  bool initialized() noexcept override { return initialized_; }
  bool finalized() noexcept override { return finalized_; }
  int init(mpi::Threading /*wanted*/, mpi::Threading& provided) noexcept override {
    if (fails()) return kFailure;
    initialized_ = true;
    provided = threading_;
    return 0;
  }
  int query_threading(mpi::Threading& provided) noexcept override {
    if (fails()) return kFailure;
    provided = threading_;
    return 0;
  }
  bool is_main_thread() noexcept override { return main_thread_; }
  int finalize() noexcept override { return 0; }
  Comm world() noexcept override { return Comm{1}; }
  Comm self() noexcept override { return Comm{0}; }
  bool is_null(Comm /*comm*/) noexcept override { return false; }
  int rank(Comm comm, int& rank) noexcept override {
    return call([&] { rank = rank_in(comm); });
  }
  int size(Comm comm, int& size) noexcept override {
    return call([&] { size = static_cast<int>(mpi_.at(comm).members.size()); });
  }
  int iduplicate(Comm comm, Comm& made, Request& request) noexcept override {
    return begin(comm, {.what = What::duplicate, .made = &made}, request);
  }
  int split(Comm comm, int color, int key, Comm& made) noexcept override {
    if (fails()) return kFailure;
    std::unique_lock lock(mpi_.mutex_);
    const std::uint64_t request = mpi_.arrive(
        comm, rank_in(comm), {.what = What::split, .color = color, .key = key, .made = &made});
    mpi_.changed_.wait(lock, [&] { return mpi_.requests_[request].done; });
    return mpi_.requests_.extract(request).mapped().code;
  }
  int create_group(Comm /*parent*/, std::span<const int> /*ranks*/, int /*tag*/,
                   Comm& /*made*/) noexcept override {
    return kFailure;  // the backend does not call it
  }
  int free(Comm& comm) noexcept override {
    return call([&] {
      if (--mpi_.at(comm).handles == 0) mpi_.comms_.erase(comm);
      comm = Comm{0};
    });
  }
  int return_errors(Comm comm) noexcept override {
    if (comm == world()) ++changed_handlers_;
    return fails() ? kFailure : 0;
  }
  int largest_tag() noexcept override { return 32767; }

  bool builtin(DType dtype, Type& type) noexcept override {
    if (dtype == DType::bool_ || (dtype >= DType::float16 && size_of(dtype) <= 2)) return false;
    type = Type{(static_cast<std::uintptr_t>(dtype) + 1) << MockMpi::kTypeShift | size_of(dtype)};
    return true;
  }
  Type byte() noexcept override { return Type{1}; }
  int make_bytes(std::int64_t bytes, Type& made) noexcept override {
    if (fails()) return kFailure;
    made = Type{static_cast<std::uintptr_t>(bytes)};
    return 0;
  }
  int free(Type& /*type*/) noexcept override { return fails() ? kFailure : 0; }
  Op builtin(mpi::BuiltinOp op) noexcept override {
    return Op{static_cast<std::uintptr_t>(op) + 1};
  }
  int make_op(mpi::UserFunction function, Op& made) noexcept override {
    if (fails()) return kFailure;
    made = Op{reinterpret_cast<std::uintptr_t>(function)};
    return 0;
  }
  int free(Op& /*op*/) noexcept override { return fails() ? kFailure : 0; }
  const void* in_place() noexcept override { return &in_place_; }

  int ibarrier(Comm comm, Request& request) noexcept override {
    return begin(comm, {.what = What::barrier}, request);
  }
  int ibroadcast(void* data, int count, Type type, int root, Comm comm,
                 Request& request) noexcept override {
    return begin(comm, part_of(What::broadcast, nullptr, data, count, type, Op{}, root), request);
  }
  int iall_reduce(const void* in, void* out, int count, Type type, Op op, Comm comm,
                  Request& request) noexcept override {
    return begin(comm, part_of(What::all_reduce, in, out, count, type, op), request);
  }
  int ireduce(const void* in, void* out, int count, Type type, Op op, int root, Comm comm,
              Request& request) noexcept override {
    return begin(comm, part_of(What::reduce, in, out, count, type, op, root), request);
  }
  int iscan(const void* in, void* out, int count, Type type, Op op, Comm comm,
            Request& request) noexcept override {
    return begin(comm, part_of(What::scan, in, out, count, type, op), request);
  }
  int iexscan(const void* in, void* out, int count, Type type, Op op, Comm comm,
              Request& request) noexcept override {
    return begin(comm, part_of(What::exclusive_scan, in, out, count, type, op), request);
  }
  int ireduce_scatter(const void* in, void* out, int count, Type type, Op op, Comm comm,
                      Request& request) noexcept override {
    return begin(comm, part_of(What::reduce_scatter, in, out, count, type, op), request);
  }
  int ireduce_scatter_v(const void* in, void* out, const int* counts, Type type, Op op, Comm comm,
                        Request& request) noexcept override {
    MockMpi::Part part = part_of(What::reduce_scatter, in, out, 0, type, op);
    part.out_counts = of_members(counts, comm);
    return begin(comm, std::move(part), request);
  }
  int iall_gather(const void* in, void* out, int count, Type type, Comm comm,
                  Request& request) noexcept override {
    return begin(comm, part_of(What::all_gather, in, out, count, type), request);
  }
  int iall_gather_v(const void* in, int in_count, void* out, const int* counts,
                    const int* displacements, Type type, Comm comm,
                    Request& request) noexcept override {
    MockMpi::Part part = part_of(What::all_gather, in, out, in_count, type);
    part.out_counts = of_members(counts, comm);
    part.out_offsets = of_members(displacements, comm);
    return begin(comm, std::move(part), request);
  }
  int igather(const void* in, void* out, int count, Type type, int root, Comm comm,
              Request& request) noexcept override {
    return begin(comm, part_of(What::gather, in, out, count, type, Op{}, root), request);
  }
  int iscatter(const void* in, void* out, int count, Type type, int root, Comm comm,
               Request& request) noexcept override {
    return begin(comm, part_of(What::scatter, in, out, count, type, Op{}, root), request);
  }
  int iall_to_all(const void* in, void* out, int count, Type type, Comm comm,
                  Request& request) noexcept override {
    return begin(comm, part_of(What::all_to_all, in, out, count, type), request);
  }

  int isend(const void* data, int count, Type type, int to, int tag, Comm comm,
            Request& request) noexcept override {
    return call([&] {
      const auto* const first = static_cast<const std::byte*>(data);
      mpi_.send(comm, rank_in(comm), to,
                {.tag = tag, .bytes = {first, first + bytes_of(count, type)}});
      request = make_request();
      mpi_.requests_[static_cast<std::uint64_t>(request)].done = true;
    });
  }
  int ireceive(void* data, int count, Type type, int from, int tag, Comm comm,
               Request& request) noexcept override {
    return call([&] {
      request = make_request();
      mpi_.receive(comm, rank_in(comm),
                   {from, tag, static_cast<std::byte*>(data), bytes_of(count, type),
                    static_cast<std::uint64_t>(request)});
    });
  }
  int improbe(int from, int tag, Comm comm, bool& found, mpi::Matched& message,
              mpi::Received& described) noexcept override {
    return call(
        [&] {
          auto taken = mpi_.take(comm, rank_in(comm), from, tag);
          found = taken.has_value();
          if (!found) return;
          const std::uint64_t made = mpi_.next_++;
          described = {taken->source, taken->tag, static_cast<std::int64_t>(taken->bytes.size())};
          mpi_.matched_[made] = std::move(*taken);
          message = mpi::Matched{static_cast<std::uintptr_t>(made)};
        },
        Function::improbe);
  }
  int ireceive(void* data, int count, Type type, mpi::Matched& message,
               Request& request) noexcept override {
    bool found = true;
    const int code = call(
        [&] {
          const auto matched = mpi_.matched_.extract(static_cast<std::uint64_t>(message));
          found = !matched.empty();
          if (!found) return;
          request = make_request();
          mpi_.deliver({.data = static_cast<std::byte*>(data),
                        .bytes = bytes_of(count, type),
                        .request = static_cast<std::uint64_t>(request)},
                       matched.mapped());
          message = mpi::Matched{};
        },
        Function::receive_found);
    if (!found) misuse_ = "a message is received that no probe has found";
    return found ? code : kFailure;
  }
  int test(Request& request, bool& done, mpi::Received* received) noexcept override {
    if (fails()) return kFailure;
    const std::lock_guard lock(mpi_.mutex_);
    const auto pending = mpi_.requests_.find(static_cast<std::uint64_t>(request));
    done = pending->second.done;
    if (!done) return 0;
    if (received != nullptr) *received = pending->second.received;
    return mpi_.requests_.extract(pending).mapped().code;
  }
  int cancel(Request& request, bool& done, mpi::Received& received) noexcept override {
    const std::lock_guard lock(mpi_.mutex_);
    const auto number = static_cast<std::uint64_t>(request);
    done = cancels_;
    if (!mpi_.requests_.contains(number)) misuse_ = "a request is cancelled that has ended";
    if (!cancels_) return 0;
    received = mpi_.requests_.at(number).received;
    for (auto& [handle, comm] : mpi_.comms_) {
      for (auto& receives : comm.receives)
        std::erase_if(receives, [&](const auto& one) { return one.request == number; });
    }
    mpi_.requests_.erase(number);
    return 0;
  }

 private:
  using What = MockMpi::What;

  [[nodiscard]] bool fails(Function called = Function::other) noexcept {
    ++calls_;
    if (finalized_) misuse_ = "a call after MPI_Finalize";
    if (threading_ < mpi::Threading::serialized && !main_thread_)
      misuse_ = "a call of another thread than that of MPI_Init";
    Function planted = called;
    const bool now = (called != Function::other &&
                      fails_next_.compare_exchange_strong(planted, Function::other)) ||
                     (fail_at_ >= 0 && fail_at_-- == 0);
    if (now) failed_ = true;
    return now;
  }
  /// Does it under the mutex, unless this is the call that fails.
  template <class Action>
  int call(const Action& action, Function called = Function::other) {
    if (fails(called)) return kFailure;
    const std::lock_guard lock(mpi_.mutex_);
    action();
    return 0;
  }
  int begin(Comm comm, MockMpi::Part part, Request& request) {
    return call([&] {
      part.in_place = part.in == reinterpret_cast<const std::byte*>(&in_place_) ||
                      part.out == reinterpret_cast<const std::byte*>(&in_place_);
      request =
          Request{static_cast<std::uintptr_t>(mpi_.arrive(comm, rank_in(comm), std::move(part)))};
    });
  }
  static MockMpi::Part part_of(What what, const void* in, void* out, int count, Type type,
                               Op op = {}, int root = 0) {
    return {.what = what,
            .in = static_cast<const std::byte*>(in),
            .out = static_cast<std::byte*>(out),
            .count = count,
            .type = type,
            .op = op,
            .root = root};
  }
  static std::size_t bytes_of(int count, Type type) {
    return MockMpi::bytes_of(type) * static_cast<std::size_t>(count);
  }
  std::vector<int> of_members(const int* first, Comm comm) {
    const std::lock_guard lock(mpi_.mutex_);
    return {first, first + mpi_.at(comm).members.size()};
  }
  // Under the mutex.
  int rank_in(Comm comm) { return mpi_.index(comm, rank_); }
  /// One that has not ended.
  Request make_request() {
    const std::uint64_t made = mpi_.next_++;
    mpi_.requests_[made];
    return Request{static_cast<std::uintptr_t>(made)};
  }

  MockMpi& mpi_;
  const int rank_;
  const mpi::LibraryInfo info_{"Mock MPI 1.0", "mock", "mock", 4, 0};
  char in_place_ = 0;
};

std::unique_ptr<MockRank> make_mock_rank(MockMpi& mpi, int rank) {
  return std::make_unique<MockRankFunctions>(mpi, rank);
}

}  // namespace tutti::test
