#include <utility>

#include "mock_mpi.hpp"

// What one rank calls: each function of MPI is handed on to the MPI of all ranks.
namespace tutti::test {

using mpi::Comm;
using mpi::Op;
using mpi::Request;
using mpi::Type;

MockRank::MockRank(MockMpi& mpi, int rank)
    : mpi_(mpi), rank_(rank), info_{"Mock MPI 1.0", "mock", "mock", 4, 0} {}

bool MockRank::fails(Function called) noexcept {
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

std::string MockRank::error_text(int code) const {
  return code == kFailure ? "MPI_ERR_OTHER: a planted fault" : "error " + std::to_string(code);
}

int MockRank::init(mpi::Threading /*wanted*/, mpi::Threading& provided) noexcept {
  if (fails()) return kFailure;
  initialized_ = true;
  provided = threading_;
  return 0;
}

int MockRank::query_threading(mpi::Threading& provided) noexcept {
  if (fails()) return kFailure;
  provided = threading_;
  return 0;
}

int MockRank::rank(Comm comm, int& rank) noexcept {
  if (fails()) return kFailure;
  const std::lock_guard lock(mpi_.mutex_);
  rank = mpi_.index(comm, rank_);
  return 0;
}

int MockRank::size(Comm comm, int& size) noexcept {
  if (fails()) return kFailure;
  size = members_of(comm);
  return 0;
}

int MockRank::meet(Comm comm, MockMpi::Part part, Comm& made) {
  std::unique_lock lock(mpi_.mutex_);
  part.made = &made;
  const std::uint64_t request = mpi_.arrive(comm, mpi_.index(comm, rank_), std::move(part));
  mpi_.changed_.wait(lock, [&] { return mpi_.requests_[request].done; });
  const int code = mpi_.requests_[request].code;
  mpi_.requests_.erase(request);
  return code;
}

int MockRank::iduplicate(Comm comm, Comm& made, Request& request) noexcept {
  MockMpi::Part part;
  part.what = What::duplicate;
  part.made = &made;
  return begin(comm, std::move(part), request);
}

int MockRank::split(Comm comm, int color, int key, Comm& made) noexcept {
  if (fails()) return kFailure;
  MockMpi::Part part;
  part.what = What::split;
  part.color = color;
  part.key = key;
  return meet(comm, std::move(part), made);
}

int MockRank::create_group(Comm /*parent*/, std::span<const int> /*ranks*/, int /*tag*/,
                           Comm& /*made*/) noexcept {
  return kFailure;  // the backend does not call it
}

int MockRank::free(Comm& comm) noexcept {
  if (fails()) return kFailure;
  const std::lock_guard lock(mpi_.mutex_);
  if (--mpi_.at(comm).handles == 0) mpi_.comms_.erase(comm);
  comm = Comm{0};
  return 0;
}

int MockRank::return_errors(Comm comm) noexcept {
  if (comm == world()) ++changed_handlers_;
  return fails() ? kFailure : 0;
}

bool MockRank::builtin(DType dtype, Type& type) noexcept {
  if (dtype == DType::bool_ || (dtype >= DType::float16 && size_of(dtype) <= 2)) return false;
  type = Type{(static_cast<std::uintptr_t>(dtype) + 1) << MockMpi::kTypeShift | size_of(dtype)};
  return true;
}

Type MockRank::byte() noexcept { return Type{1}; }

int MockRank::make_bytes(std::int64_t bytes, Type& made) noexcept {
  if (fails()) return kFailure;
  made = Type{static_cast<std::uintptr_t>(bytes)};
  return 0;
}

int MockRank::free(Type& /*type*/) noexcept { return fails() ? kFailure : 0; }

Op MockRank::builtin(mpi::BuiltinOp op) noexcept { return Op{static_cast<std::uintptr_t>(op) + 1}; }

int MockRank::make_op(mpi::UserFunction function, Op& made) noexcept {
  if (fails()) return kFailure;
  made = Op{reinterpret_cast<std::uintptr_t>(function)};
  return 0;
}

int MockRank::free(Op& /*op*/) noexcept { return fails() ? kFailure : 0; }

int MockRank::begin(Comm comm, MockMpi::Part part, Request& request) {
  if (fails()) return kFailure;
  const std::lock_guard lock(mpi_.mutex_);
  part.in_place = part.in == reinterpret_cast<const std::byte*>(&in_place_) ||
                  part.out == reinterpret_cast<const std::byte*>(&in_place_);
  request = Request{
      static_cast<std::uintptr_t>(mpi_.arrive(comm, mpi_.index(comm, rank_), std::move(part)))};
  return 0;
}

namespace {
const std::byte* read(const void* data) { return static_cast<const std::byte*>(data); }
std::byte* written(void* data) { return static_cast<std::byte*>(data); }
}  // namespace

MockMpi::Part MockRank::part_of(What what, const void* in, void* out, int count, Type type, Op op,
                                int root) {
  MockMpi::Part part;
  part.what = what;
  part.in = read(in);
  part.out = written(out);
  part.count = count;
  part.type = type;
  part.op = op;
  part.root = root;
  return part;
}

int MockRank::members_of(Comm comm) {
  const std::lock_guard lock(mpi_.mutex_);
  return static_cast<int>(mpi_.at(comm).members.size());
}

int MockRank::ibarrier(Comm comm, Request& request) noexcept {
  return begin(comm, {.what = What::barrier}, request);
}

int MockRank::ibroadcast(void* data, int count, Type type, int root, Comm comm,
                         Request& request) noexcept {
  return begin(comm, part_of(What::broadcast, nullptr, data, count, type, Op{}, root), request);
}

int MockRank::iall_reduce(const void* in, void* out, int count, Type type, Op op, Comm comm,
                          Request& request) noexcept {
  return begin(comm, part_of(What::all_reduce, in, out, count, type, op), request);
}

int MockRank::ireduce(const void* in, void* out, int count, Type type, Op op, int root, Comm comm,
                      Request& request) noexcept {
  return begin(comm, part_of(What::reduce, in, out, count, type, op, root), request);
}

int MockRank::iscan(const void* in, void* out, int count, Type type, Op op, Comm comm,
                    Request& request) noexcept {
  return begin(comm, part_of(What::scan, in, out, count, type, op), request);
}

int MockRank::iexscan(const void* in, void* out, int count, Type type, Op op, Comm comm,
                      Request& request) noexcept {
  return begin(comm, part_of(What::exclusive_scan, in, out, count, type, op), request);
}

int MockRank::ireduce_scatter(const void* in, void* out, int count, Type type, Op op, Comm comm,
                              Request& request) noexcept {
  return begin(comm, part_of(What::reduce_scatter, in, out, count, type, op), request);
}

int MockRank::ireduce_scatter_v(const void* in, void* out, const int* counts, Type type, Op op,
                                Comm comm, Request& request) noexcept {
  MockMpi::Part part = part_of(What::reduce_scatter, in, out, 0, type, op);
  part.out_counts.assign(counts, counts + members_of(comm));
  return begin(comm, std::move(part), request);
}

int MockRank::iall_gather(const void* in, void* out, int count, Type type, Comm comm,
                          Request& request) noexcept {
  return begin(comm, part_of(What::all_gather, in, out, count, type), request);
}

int MockRank::iall_gather_v(const void* in, int in_count, void* out, const int* counts,
                            const int* displacements, Type type, Comm comm,
                            Request& request) noexcept {
  MockMpi::Part part = part_of(What::all_gather, in, out, in_count, type);
  part.out_counts.assign(counts, counts + members_of(comm));
  part.out_offsets.assign(displacements, displacements + members_of(comm));
  return begin(comm, std::move(part), request);
}

int MockRank::igather(const void* in, void* out, int count, Type type, int root, Comm comm,
                      Request& request) noexcept {
  return begin(comm, part_of(What::gather, in, out, count, type, Op{}, root), request);
}

int MockRank::iscatter(const void* in, void* out, int count, Type type, int root, Comm comm,
                       Request& request) noexcept {
  return begin(comm, part_of(What::scatter, in, out, count, type, Op{}, root), request);
}

int MockRank::iall_to_all(const void* in, void* out, int count, Type type, Comm comm,
                          Request& request) noexcept {
  return begin(comm, part_of(What::all_to_all, in, out, count, type), request);
}

int MockRank::isend(const void* data, int count, Type type, int to, int tag, Comm comm,
                    Request& request) noexcept {
  if (fails()) return kFailure;
  const std::lock_guard lock(mpi_.mutex_);
  const std::size_t bytes = MockMpi::bytes_of(type) * static_cast<std::size_t>(count);
  MockMpi::Message message;
  message.tag = tag;
  message.bytes.assign(read(data), read(data) + bytes);
  mpi_.send(comm, mpi_.index(comm, rank_), to, std::move(message));
  const std::uint64_t made = mpi_.next_++;
  mpi_.requests_[made].done = true;
  request = Request{static_cast<std::uintptr_t>(made)};
  return 0;
}

int MockRank::ireceive(void* data, int count, Type type, int from, int tag, Comm comm,
                       Request& request) noexcept {
  if (fails()) return kFailure;
  const std::lock_guard lock(mpi_.mutex_);
  const std::uint64_t made = mpi_.next_++;
  mpi_.requests_[made];
  mpi_.receive(
      comm, mpi_.index(comm, rank_),
      {from, tag, written(data), MockMpi::bytes_of(type) * static_cast<std::size_t>(count), made});
  request = Request{static_cast<std::uintptr_t>(made)};
  return 0;
}

int MockRank::improbe(int from, int tag, Comm comm, bool& found, mpi::Matched& message,
                      mpi::Received& described) noexcept {
  if (fails(Function::improbe)) return kFailure;
  const std::lock_guard lock(mpi_.mutex_);
  auto taken = mpi_.take(comm, mpi_.index(comm, rank_), from, tag);
  found = taken.has_value();
  if (!found) return 0;
  const std::uint64_t made = mpi_.next_++;
  described = {taken->source, static_cast<std::int64_t>(taken->bytes.size())};
  mpi_.matched_[made] = std::move(*taken);
  message = mpi::Matched{static_cast<std::uintptr_t>(made)};
  return 0;
}

int MockRank::ireceive(void* data, int count, Type type, mpi::Matched& message,
                       Request& request) noexcept {
  if (fails(Function::receive_found)) return kFailure;
  const std::lock_guard lock(mpi_.mutex_);
  const auto matched = mpi_.matched_.find(static_cast<std::uint64_t>(message));
  if (matched == mpi_.matched_.end()) {
    misuse_ = "a message is received that no probe has found";
    return kFailure;
  }
  const std::uint64_t made = mpi_.next_++;
  MockMpi::Receive receive;
  receive.data = written(data);
  receive.bytes = MockMpi::bytes_of(type) * static_cast<std::size_t>(count);
  receive.request = made;
  mpi_.deliver(receive, matched->second);
  mpi_.matched_.erase(matched);
  message = mpi::Matched{};
  request = Request{static_cast<std::uintptr_t>(made)};
  return 0;
}

int MockRank::test(Request& request, bool& done, mpi::Received* received) noexcept {
  if (fails()) return kFailure;
  const std::lock_guard lock(mpi_.mutex_);
  const auto pending = mpi_.requests_.find(static_cast<std::uint64_t>(request));
  done = pending->second.done;
  if (!done) return 0;
  const int code = pending->second.code;
  if (received != nullptr) *received = pending->second.received;
  mpi_.requests_.erase(pending);
  return code;
}

int MockRank::cancel(Request& request, bool& done) noexcept {
  const std::lock_guard lock(mpi_.mutex_);
  const auto number = static_cast<std::uint64_t>(request);
  done = cancels_;
  if (!mpi_.requests_.contains(number)) misuse_ = "a request is cancelled that has ended";
  if (!cancels_) return 0;
  for (auto& [handle, comm] : mpi_.comms_) {
    for (auto& receives : comm.receives)
      std::erase_if(receives, [&](const auto& one) { return one.request == number; });
  }
  mpi_.requests_.erase(number);
  return 0;
}

}  // namespace tutti::test
