#include "mock_mpi.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "kernels/reduce.hpp"

namespace tutti::test {
namespace {

using mpi::Comm;
using mpi::Op;
using mpi::Request;
using mpi::Type;

constexpr std::uintptr_t kTypeShift = 40;  // a type: its bytes, and above them its dtype + 1

std::size_t bytes_of(Type type) {
  return static_cast<std::uintptr_t>(type) & ((std::uintptr_t{1} << kTypeShift) - 1);
}

DType dtype_of_type(Type type) {
  return static_cast<DType>((static_cast<std::uintptr_t>(type) >> kTypeShift) - 1);
}

/// inout = in op inout
void combine(Op op, Type type, const std::byte* in, std::byte* inout, int count) {
  const auto word = static_cast<std::uintptr_t>(op);
  if (word > mpi::kBuiltinOpCount) {
    reinterpret_cast<mpi::UserFunction>(word)(const_cast<std::byte*>(in), inout, &count, &type);
    return;
  }
  constexpr ReduceOp kOps[] = {ReduceOp::sum,  ReduceOp::product, ReduceOp::min, ReduceOp::max,
                               ReduceOp::band, ReduceOp::bor,     ReduceOp::bxor};
  const void* const sources[] = {in, inout};
  kernels::find_reduce(kOps[word - 1], dtype_of_type(type))(inout, sources, 2,
                                                            static_cast<std::size_t>(count));
}

}  // namespace

MockMpi::MockMpi(int size) {
  std::vector<int> all(static_cast<std::size_t>(size));
  std::iota(all.begin(), all.end(), 0);
  Communicator& world = comms_[Comm{1}];
  world.members = all;
  world.calls.resize(all.size());
  world.messages.resize(all.size());
  world.receives.resize(all.size());
  for (const int rank : all) ranks_.push_back(std::make_unique<MockRank>(*this, rank));
}

MockMpi::~MockMpi() = default;

std::size_t MockMpi::left_over() {
  const std::lock_guard lock(mutex_);
  std::size_t left = requests_.size();
  for (const auto& [handle, comm] : comms_) {
    for (const auto& queue : comm.messages) left += queue.size();
  }
  return left;
}

std::size_t MockMpi::communicators() {
  const std::lock_guard lock(mutex_);
  return comms_.size() - 1;
}

Comm MockMpi::make(std::vector<int> members) {
  const Comm handle{static_cast<std::uintptr_t>(next_++)};
  Communicator& comm = comms_[handle];
  comm.calls.resize(members.size());
  comm.messages.resize(members.size());
  comm.receives.resize(members.size());
  comm.handles = static_cast<int>(members.size());
  comm.members = std::move(members);
  return handle;
}

int MockMpi::index(Comm comm, int world_rank) {
  const std::vector<int>& members = at(comm).members;
  return static_cast<int>(std::find(members.begin(), members.end(), world_rank) - members.begin());
}

std::uint64_t MockMpi::arrive(Comm handle, int rank, Part part) {
  Communicator& comm = at(handle);
  const std::uint64_t request = next_++;
  requests_[request];
  part.request = request;
  const std::uint64_t number = comm.calls[static_cast<std::size_t>(rank)]++;
  Meeting& meeting = comm.meetings[number];
  meeting.parts.resize(comm.members.size());
  meeting.parts[static_cast<std::size_t>(rank)] = std::make_unique<Part>(std::move(part));
  if (++meeting.arrived == comm.members.size()) {
    run(comm, meeting);
    comm.meetings.erase(number);
    changed_.notify_all();
  }
  return request;
}

void MockMpi::run(Communicator& comm, Meeting& meeting) {
  const std::size_t size = meeting.parts.size();
  const auto part = [&](std::size_t rank) -> Part& { return *meeting.parts[rank]; };
  const Part first = part(0);
  const auto root = static_cast<std::size_t>(first.root);
  const bool differ = std::any_of(meeting.parts.begin(), meeting.parts.end(),
                                  [&](const auto& one) { return one->what != first.what; });
  const std::size_t element = bytes_of(first.type);
  const std::size_t block = element * static_cast<std::size_t>(first.count);
  const auto copy = [](std::byte* to, const std::byte* from, std::size_t bytes) {
    if (bytes > 0 && to != from) std::memmove(to, from, bytes);
  };
  // The values of all ranks in a row, as a reduction takes them.
  const auto reduced = [&](std::size_t count) {
    std::vector<std::byte> sum(count * element + 1);
    for (std::size_t r = 0; r < size; ++r) {
      const std::byte* const from = part(r).in_place ? part(r).out : part(r).in;
      if (count == 0) continue;
      if (r == 0)
        std::memcpy(sum.data(), from, count * element);
      else
        combine(first.op, first.type, from, sum.data(), static_cast<int>(count));
    }
    return sum;
  };
  if (!differ) {
    switch (first.what) {
      case What::barrier: break;
      case What::broadcast:
        for (std::size_t r = 0; r < size; ++r) copy(part(r).out, part(root).out, block);
        break;
      case What::all_reduce: {
        const auto sum = reduced(static_cast<std::size_t>(first.count));
        for (std::size_t r = 0; r < size; ++r) copy(part(r).out, sum.data(), block);
        break;
      }
      case What::reduce:
        copy(part(root).out, reduced(static_cast<std::size_t>(first.count)).data(), block);
        break;
      case What::reduce_scatter: {
        std::vector<std::size_t> counts(size, static_cast<std::size_t>(first.count));
        for (std::size_t r = 0; r < first.out_counts.size(); ++r)
          counts[r] = static_cast<std::size_t>(first.out_counts[r]);
        const auto sum = reduced(std::accumulate(counts.begin(), counts.end(), std::size_t{0}));
        std::size_t at = 0;
        for (std::size_t r = 0; r < size; ++r) {
          copy(part(r).out, sum.data() + at * element, counts[r] * element);
          at += counts[r];
        }
        break;
      }
      case What::all_gather:
      case What::gather:
        for (std::size_t from = 0; from < size; ++from) {
          for (std::size_t to = 0; to < size; ++to) {
            if (first.what == What::gather && to != root) continue;
            if (from == to && part(from).in_place) continue;
            const bool uneven = !part(to).out_counts.empty();
            const std::size_t bytes =
                uneven ? static_cast<std::size_t>(part(to).out_counts[from]) * element : block;
            const std::size_t at =
                uneven ? static_cast<std::size_t>(part(to).out_offsets[from]) * element
                       : from * block;
            const std::byte* source = part(from).in;
            if (part(from).in_place) source = part(from).out + (uneven ? at : from * block);
            copy(part(to).out + at, source, bytes);
          }
        }
        break;
      case What::scatter:
        for (std::size_t r = 0; r < size; ++r) {
          if (!part(r).in_place) copy(part(r).out, part(root).in + r * block, block);
        }
        break;
      case What::all_to_all:
        for (std::size_t from = 0; from < size; ++from) {
          for (std::size_t to = 0; to < size; ++to)
            copy(part(to).out + from * block, part(from).in + to * block, block);
        }
        break;
      case What::duplicate: {
        const Comm made = make(comm.members);
        for (std::size_t r = 0; r < size; ++r) *part(r).made = made;
        break;
      }
      case What::split: {
        std::map<int, std::vector<std::pair<int, std::size_t>>> colors;
        for (std::size_t r = 0; r < size; ++r) {
          *part(r).made = Comm{0};
          if (part(r).color >= 0) colors[part(r).color].emplace_back(part(r).key, r);
        }
        for (auto& [color, ranks] : colors) {
          std::sort(ranks.begin(), ranks.end());
          std::vector<int> members;
          for (const auto& [key, r] : ranks) members.push_back(comm.members[r]);
          const Comm made = make(std::move(members));
          for (const auto& [key, r] : ranks) *part(r).made = made;
        }
        break;
      }
    }
  }
  for (std::size_t r = 0; r < size; ++r) {
    Pending& pending = requests_[part(r).request];
    pending.done = true;
    pending.code = differ ? MockRank::kFailure : 0;
  }
}

void MockMpi::deliver(const Receive& receive, const Message& message) {
  Pending& pending = requests_[receive.request];
  const std::size_t bytes = std::min(receive.bytes, message.bytes.size());
  if (bytes > 0) std::memcpy(receive.data, message.bytes.data(), bytes);
  pending.done = true;
  pending.code = message.bytes.size() > receive.bytes ? MockRank::kFailure : 0;
  pending.received = {message.source, static_cast<std::int64_t>(message.bytes.size())};
}

void MockMpi::send(Comm handle, int rank, int to, Message message) {
  Communicator& comm = at(handle);
  message.source = rank;
  auto& receives = comm.receives[static_cast<std::size_t>(to)];
  for (auto one = receives.begin(); one != receives.end(); ++one) {
    if (one->tag != message.tag || (one->source >= 0 && one->source != rank)) continue;
    deliver(*one, message);
    receives.erase(one);
    return;
  }
  comm.messages[static_cast<std::size_t>(to)].push_back(std::move(message));
}

void MockMpi::receive(Comm handle, int rank, Receive receive) {
  Communicator& comm = at(handle);
  auto& messages = comm.messages[static_cast<std::size_t>(rank)];
  for (auto one = messages.begin(); one != messages.end(); ++one) {
    if (one->tag != receive.tag || (receive.source >= 0 && one->source != receive.source)) continue;
    deliver(receive, *one);
    messages.erase(one);
    return;
  }
  comm.receives[static_cast<std::size_t>(rank)].push_back(receive);
}

// ---- One rank

MockRank::MockRank(MockMpi& mpi, int rank)
    : mpi_(mpi), rank_(rank), info_{"Mock MPI 1.0", "mock", "mock", 4, 0} {}

bool MockRank::fails() noexcept {
  ++calls_;
  return fail_at_ >= 0 && fail_at_-- == 0;
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
  const std::lock_guard lock(mpi_.mutex_);
  size = static_cast<int>(mpi_.at(comm).members.size());
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
  part.what = MockMpi::What::duplicate;
  part.made = &made;
  return begin(comm, std::move(part), request);
}

int MockRank::split(Comm comm, int color, int key, Comm& made) noexcept {
  if (fails()) return kFailure;
  MockMpi::Part part;
  part.what = MockMpi::What::split;
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

int MockRank::return_errors(Comm /*comm*/) noexcept { return fails() ? kFailure : 0; }

int MockRank::world_ranks(Comm comm, std::vector<int>& ranks) noexcept {
  const std::lock_guard lock(mpi_.mutex_);
  ranks = mpi_.at(comm).members;
  return 0;
}

bool MockRank::builtin(DType dtype, Type& type) noexcept {
  if (dtype == DType::bool_ || (dtype >= DType::float16 && size_of(dtype) <= 2)) return false;
  type = Type{(static_cast<std::uintptr_t>(dtype) + 1) << kTypeShift | size_of(dtype)};
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

int MockRank::ibarrier(Comm comm, Request& request) noexcept {
  return begin(comm, {.what = MockMpi::What::barrier}, request);
}

int MockRank::ibroadcast(void* data, int count, Type type, int root, Comm comm,
                         Request& request) noexcept {
  return begin(comm,
               {.what = MockMpi::What::broadcast,
                .out = written(data),
                .count = count,
                .type = type,
                .root = root},
               request);
}

int MockRank::iall_reduce(const void* in, void* out, int count, Type type, Op op, Comm comm,
                          Request& request) noexcept {
  return begin(comm,
               {.what = MockMpi::What::all_reduce,
                .in = read(in),
                .out = written(out),
                .count = count,
                .type = type,
                .op = op},
               request);
}

int MockRank::ireduce(const void* in, void* out, int count, Type type, Op op, int root, Comm comm,
                      Request& request) noexcept {
  return begin(comm,
               {.what = MockMpi::What::reduce,
                .in = read(in),
                .out = written(out),
                .count = count,
                .type = type,
                .op = op,
                .root = root},
               request);
}

int MockRank::ireduce_scatter(const void* in, void* out, int count, Type type, Op op, Comm comm,
                              Request& request) noexcept {
  return begin(comm,
               {.what = MockMpi::What::reduce_scatter,
                .in = read(in),
                .out = written(out),
                .count = count,
                .type = type,
                .op = op},
               request);
}

int MockRank::ireduce_scatter_v(const void* in, void* out, const int* counts, Type type, Op op,
                                Comm comm, Request& request) noexcept {
  int size = 0;
  --calls_;
  const int kept = std::exchange(fail_at_, -1);
  (void)this->size(comm, size);
  fail_at_ = kept;
  MockMpi::Part part{.what = MockMpi::What::reduce_scatter,
                     .in = read(in),
                     .out = written(out),
                     .type = type,
                     .op = op};
  part.out_counts.assign(counts, counts + size);
  return begin(comm, std::move(part), request);
}

int MockRank::iall_gather(const void* in, void* out, int count, Type type, Comm comm,
                          Request& request) noexcept {
  return begin(comm,
               {.what = MockMpi::What::all_gather,
                .in = read(in),
                .out = written(out),
                .count = count,
                .type = type},
               request);
}

int MockRank::iall_gather_v(const void* in, int in_count, void* out, const int* counts,
                            const int* displacements, Type type, Comm comm,
                            Request& request) noexcept {
  int size = 0;
  --calls_;
  const int kept = std::exchange(fail_at_, -1);
  (void)this->size(comm, size);
  fail_at_ = kept;
  MockMpi::Part part{.what = MockMpi::What::all_gather,
                     .in = read(in),
                     .out = written(out),
                     .count = in_count,
                     .type = type};
  part.out_counts.assign(counts, counts + size);
  part.out_offsets.assign(displacements, displacements + size);
  return begin(comm, std::move(part), request);
}

int MockRank::igather(const void* in, void* out, int count, Type type, int root, Comm comm,
                      Request& request) noexcept {
  return begin(comm,
               {.what = MockMpi::What::gather,
                .in = read(in),
                .out = written(out),
                .count = count,
                .type = type,
                .root = root},
               request);
}

int MockRank::iscatter(const void* in, void* out, int count, Type type, int root, Comm comm,
                       Request& request) noexcept {
  return begin(comm,
               {.what = MockMpi::What::scatter,
                .in = read(in),
                .out = written(out),
                .count = count,
                .type = type,
                .root = root},
               request);
}

int MockRank::iall_to_all(const void* in, void* out, int count, Type type, Comm comm,
                          Request& request) noexcept {
  return begin(comm,
               {.what = MockMpi::What::all_to_all,
                .in = read(in),
                .out = written(out),
                .count = count,
                .type = type},
               request);
}

int MockRank::isend(const void* data, int count, Type type, int to, int tag, Comm comm,
                    Request& request) noexcept {
  if (fails()) return kFailure;
  const std::lock_guard lock(mpi_.mutex_);
  const std::size_t bytes = bytes_of(type) * static_cast<std::size_t>(count);
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
  mpi_.receive(comm, mpi_.index(comm, rank_),
               {from, tag, written(data), bytes_of(type) * static_cast<std::size_t>(count), made});
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

int MockRank::cancel(Request& request) noexcept {
  const std::lock_guard lock(mpi_.mutex_);
  const auto number = static_cast<std::uint64_t>(request);
  for (auto& [handle, comm] : mpi_.comms_) {
    for (auto& receives : comm.receives)
      std::erase_if(receives, [&](const auto& one) { return one.request == number; });
  }
  mpi_.requests_.erase(number);
  return 0;
}

}  // namespace tutti::test
