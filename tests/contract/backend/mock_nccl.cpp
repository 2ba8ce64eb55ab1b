#include "mock_nccl.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <tuple>
#include <utility>

#include <tutti/dtype.hpp>
#include "kernels/reduce.hpp"

namespace tutti::test {
namespace {

using Ptr = std::shared_ptr<MockNcclCall>;

DType dtype_of(nccl::Type type) {
  constexpr DType kTypes[] = {DType::int8,     DType::uint8,       DType::int32,
                              DType::uint32,   DType::int64,       DType::uint64,
                              DType::float16,  DType::float32,     DType::float64,
                              DType::bfloat16, DType::float8_e4m3, DType::float8_e5m2};
  return kTypes[static_cast<int>(type)];
}

std::size_t bytes_of(const MockNcclCall& call) { return call.count * size_of(dtype_of(call.type)); }

/// The sum (and so on) of all inputs, one after the other; narrow floats are rounded each time.
std::vector<std::byte> reduced(const std::map<int, Ptr>& calls, std::size_t first,
                               std::size_t count) {
  const MockNcclCall& any = *calls.begin()->second;
  const DType dtype = dtype_of(any.type);
  const std::size_t element = size_of(dtype);
  constexpr ReduceOp kOps[] = {ReduceOp::sum, ReduceOp::product, ReduceOp::max, ReduceOp::min};
  const bool sums = any.op == nccl::Op::avg || !any.factor.empty();
  const auto combine =
      kernels::find_reduce(sums ? ReduceOp::sum : kOps[static_cast<int>(any.op)], dtype);
  std::vector<std::byte> result(count * element);
  std::vector<std::byte> scaled(count * element);
  bool begun = false;
  for (const auto& [rank, call] : calls) {
    const void* from = reinterpret_cast<const std::byte*>(call->in) + first * element;
    if (!call->factor.empty()) {
      kernels::find_scale(dtype)(scaled.data(), from, call->factor.data(), false, count);
      from = scaled.data();
    }
    const void* sources[] = {result.data(), from};
    if (begun)
      combine(result.data(), sources, 2, count);
    else
      std::memcpy(result.data(), from, result.size());
    begun = true;
  }
  const void* sources[] = {result.data()};
  if (any.op == nccl::Op::avg)
    kernels::find_average(dtype)(result.data(), sources, 1, count,
                                 static_cast<std::int64_t>(calls.size()));
  return result;
}

void write(nccl::Address to, const void* from, std::size_t bytes) {
  std::memmove(reinterpret_cast<void*>(to), from, bytes);
}

/// Of a collective that all ranks have begun; not if their calls differ.
void run_collective(std::map<int, Ptr>& calls) {
  const MockNcclCall& first = *calls.begin()->second;
  for (const auto& [rank, call] : calls) {
    const bool made = call->factor.empty() == first.factor.empty();
    const bool same_op = !first.factor.empty() || call->op == first.op;
    if (std::tie(call->function, call->count, call->type, call->peer) !=
            std::tie(first.function, first.count, first.type, first.peer) ||
        !made || !same_op)
      return;
  }
  const std::size_t bytes = bytes_of(first);
  if (first.function == "ncclAllReduce" || first.function == "ncclReduce") {
    const std::vector<std::byte> result = reduced(calls, 0, first.count);
    for (const auto& [rank, call] : calls) {
      if (call->function == "ncclAllReduce" || rank == call->peer)
        write(call->out, result.data(), bytes);
    }
  } else if (first.function == "ncclReduceScatter") {
    std::map<int, std::vector<std::byte>> results;
    for (const auto& [rank, call] : calls)
      results[rank] = reduced(calls, static_cast<std::size_t>(rank) * first.count, first.count);
    for (const auto& [rank, call] : calls) write(call->out, results[rank].data(), bytes);
  } else if (first.function == "ncclBroadcast") {
    for (const auto& [rank, call] : calls) {
      const void* from = reinterpret_cast<const void*>(calls.at(call->peer)->in);
      if (rank != call->peer || call->out != call->in) write(call->out, from, bytes);
    }
  } else if (first.function == "ncclAllGather") {
    std::vector<std::byte> all;
    for (const auto& [rank, call] : calls) {
      const auto* from = reinterpret_cast<const std::byte*>(call->in);
      all.insert(all.end(), from, from + bytes);
    }
    for (const auto& [rank, call] : calls) write(call->out, all.data(), all.size());
  }
  for (const auto& [rank, call] : calls) call->done = true;
}

void match(MockClique& clique, std::pair<int, int> pair) {
  auto& sends = clique.sends[pair];
  auto& receives = clique.receives[pair];
  while (!sends.empty() && !receives.empty()) {
    if (bytes_of(*sends.front()) != bytes_of(*receives.front())) return;  // never ends
    write(receives.front()->out, reinterpret_cast<const void*>(sends.front()->in),
          bytes_of(*sends.front()));
    sends.front()->done = receives.front()->done = true;
    sends.pop_front();
    receives.pop_front();
  }
}

/// The stream has come to it.
void begin(MockClique& clique, int rank, const Ptr& call) {
  if (call->function == "ncclSend") {
    clique.sends[{rank, call->peer}].push_back(call);
    return match(clique, {rank, call->peer});
  }
  if (call->function == "ncclRecv") {
    clique.receives[{call->peer, rank}].push_back(call);
    return match(clique, {call->peer, rank});
  }
  auto& calls = clique.collectives[call->number];
  calls[rank] = call;
  if (calls.size() != static_cast<std::size_t>(clique.size)) return;
  run_collective(calls);
  if (call->done) clique.collectives.erase(call->number);
}

/// Its rank has aborted: nobody touches its memory any more.
void withdraw(MockClique& clique, int rank, const Ptr& call) {
  if (const auto at = clique.collectives.find(call->number); at != clique.collectives.end()) {
    if (const auto own = at->second.find(rank); own != at->second.end() && own->second == call)
      at->second.erase(own);
  }
  std::erase(clique.sends[{rank, call->peer}], call);
  std::erase(clique.receives[{call->peer, rank}], call);
}

std::vector<MockMachine::Access> accesses_of(const MockNcclCall& call, int rank, int size) {
  const std::size_t bytes = bytes_of(call);
  const auto all = static_cast<std::size_t>(size) * bytes;
  const bool gathers = call.function == "ncclAllGather";
  const bool scatters = call.function == "ncclReduceScatter";
  const bool rooted = call.function == "ncclReduce" || call.function == "ncclBroadcast";
  const bool reads =
      call.function != "ncclRecv" && (call.function != "ncclBroadcast" || rank == call.peer);
  const bool writes = call.function != "ncclSend" &&
                      (!rooted || (rank == call.peer) == (call.function == "ncclReduce"));
  std::vector<MockMachine::Access> list;
  if (reads) list.push_back({call.in, call.in + (scatters ? all : bytes), false});
  if (writes) list.push_back({call.out, call.out + (gathers ? all : bytes), true});
  return list;
}

}  // namespace

std::string MockNccl::error_text(int code, nccl::Comm /*comm*/) const {
  if (code == 6) return "a planted fault of the network (6)";
  return code == kFailure ? "a planted fault of NCCL (3)" : "NCCL error " + std::to_string(code);
}

MockNccl::CommPtr MockNccl::comm_of(nccl::Comm comm) {
  const auto at = comms_.find(static_cast<std::uintptr_t>(comm));
  if (at != comms_.end()) return at->second;
  machine_.misuse("a communicator is used that is none");
  return nullptr;
}

nccl::Comm MockNccl::add(std::shared_ptr<MockClique> clique, int rank) {
  auto comm = std::make_shared<MockNcclComm>();
  comm->clique = std::move(clique);
  comm->rank = rank;
  const std::uintptr_t handle = next_comm_++;
  comms_[handle] = std::move(comm);
  ++machine_.alive["communicators"];
  return static_cast<nccl::Comm>(handle);
}

int MockNccl::get_unique_id(nccl::UniqueId& made) noexcept {
  const std::lock_guard lock(machine_.mutex);
  if (machine_.enter(rank_, "ncclGetUniqueId")) return kFailure;
  const std::string id = "id " + std::to_string(++network_.ids);
  std::memcpy(made.bytes.data(), id.c_str(), id.size() + 1);
  return 0;
}

int MockNccl::init_rank(nccl::Comm& made, int size, const nccl::UniqueId& id, int rank) noexcept {
  const std::lock_guard lock(machine_.mutex);
  if (machine_.enter(rank_, "ncclCommInitRankConfig")) return kFailure;
  if (id.bytes[0] == '\0') machine_.misuse("a communicator without an id");
  auto& clique = network_.cliques[id.bytes.data()];
  if (clique == nullptr) clique = std::make_shared<MockClique>();
  clique->size = size;
  if (clique->joined[rank]) machine_.misuse("two ranks of one number");
  clique->joined[rank] = true;
  made = add(clique, rank);
  return nccl::kInProgress;
}

int MockNccl::split(nccl::Comm handle, int color, int key, nccl::Comm& made) noexcept {
  std::unique_lock lock(machine_.mutex);
  const CommPtr comm = comm_of(handle);
  if (rank_ == network_.splits_second)
    network_.a_split_began.wait(lock, [&] { return !comm->clique->splits[comm->splits].empty(); });
  if (machine_.enter(rank_, "ncclCommSplit")) return kFailure;
  if (comm->launches != 0) machine_.misuse("a communicator is split while something runs on it");
  const std::uint64_t number = comm->splits++;
  auto& all = comm->clique->splits[number];
  all[comm->rank] = {color, key, nullptr, -1};
  comm->split_to = &made;
  network_.a_split_began.notify_all();
  made = nccl::Comm{};
  if (all.size() != static_cast<std::size_t>(comm->clique->size)) return nccl::kInProgress;
  std::map<int, std::vector<std::tuple<int, int>>> members;
  for (const auto& [rank, one] : all) {
    if (one.color >= 0) members[one.color].emplace_back(one.key, rank);
  }
  for (auto& [its_color, list] : members) {
    std::sort(list.begin(), list.end());
    auto clique = std::make_shared<MockClique>();
    clique->size = static_cast<int>(list.size());
    for (std::size_t i = 0; i < list.size(); ++i) {
      clique->joined[static_cast<int>(i)] = true;
      auto& one = all[std::get<1>(list[i])];
      one.clique = clique;
      one.rank = static_cast<int>(i);
    }
  }
  return nccl::kInProgress;
}

int MockNccl::finalize(nccl::Comm handle) noexcept {
  const std::lock_guard lock(machine_.mutex);
  if (machine_.enter(rank_, "ncclCommFinalize")) return kFailure;
  if (const CommPtr comm = comm_of(handle)) {
    comm->finalized = true;
    comm->clique->finalized.insert(comm->rank);
  }
  return nccl::kInProgress;
}

int MockNccl::destroy(nccl::Comm handle) noexcept {
  std::unique_lock lock(machine_.mutex);
  if (machine_.enter(rank_, "ncclCommDestroy")) return kFailure;
  const CommPtr comm = comm_of(handle);
  if (comm == nullptr) return kFailure;
  if (comm->launches != 0 || !comm->finalized)
    machine_.misuse("a communicator with work was destroyed");
  MockClique& clique = *comm->clique;
  clique.left.insert(comm->rank);
  network_.somebody_left.notify_all();
  const auto all_left = [&] { return clique.left.size() == static_cast<std::size_t>(clique.size); };
  if (network_.waits_at_the_end &&
      !network_.somebody_left.wait_for(lock, std::chrono::seconds(5), all_left))
    machine_.misuse("ranks wait for each other at the end");
  comms_.erase(static_cast<std::uintptr_t>(handle));
  --machine_.alive["communicators"];
  return 0;
}

int MockNccl::abort(nccl::Comm handle) noexcept {
  std::unique_lock lock(machine_.mutex);
  const CommPtr comm = comm_of(handle);
  if (comm == nullptr) return kFailure;
  if (machine_.deinitialized) machine_.misuse("ncclCommAbort after the end of the driver");
  ++network_.aborts;
  comm->aborted = true;
  comm->under_way.clear();  // they hold the communicator
  machine_.alive["ops"] -= static_cast<int>(
      std::erase_if(made_, [&](const auto& one) { return one.second.comm == handle; }));
  comms_.erase(static_cast<std::uintptr_t>(handle));
  --machine_.alive["communicators"];
  machine_.pump();
  ++aborting_;
  machine_.graphs_changed.wait(lock, [&] { return comm->graphs == 0 && !network_.aborts_hang; });
  --aborting_;
  // As NCCL does: it writes what a split has begun to make when that ends, also by a failure.
  if (nccl::Comm* const place = std::exchange(comm->split_to, nullptr); place != nullptr) {
    if (comm->clique->splits[comm->splits - 1][comm->rank].color >= 0)
      *place = add(std::make_shared<MockClique>(), 0);
  }
  machine_.graphs_changed.notify_all();
  return 0;
}

MockNccl::~MockNccl() {
  std::unique_lock lock(machine_.mutex);
  machine_.graphs_changed.wait(lock, [&] { return aborting_ == 0; });
}

int MockNccl::async_error(nccl::Comm handle, int& error) noexcept {
  const std::lock_guard lock(machine_.mutex);
  if (machine_.enter(rank_, "ncclCommGetAsyncError")) return kFailure;
  const CommPtr comm = comm_of(handle);
  if (comm == nullptr) return kFailure;
  error = broken_ ? 6 : 0;
  if (error != 0) return 0;
  if (comm->clique->joined.size() != static_cast<std::size_t>(comm->clique->size)) {
    error = nccl::kInProgress;
    return 0;
  }
  const std::size_t finalized = comm->clique->finalized.size();
  if (network_.waits_at_the_end && comm->finalized &&
      finalized != static_cast<std::size_t>(comm->clique->size)) {
    error = nccl::kInProgress;
    return 0;
  }
  if (comm->split_to != nullptr) {
    auto& all = comm->clique->splits[comm->splits - 1];
    if (all.size() != static_cast<std::size_t>(comm->clique->size)) {
      error = nccl::kInProgress;
      return 0;
    }
    const auto& own = all[comm->rank];
    if (own.clique != nullptr) *comm->split_to = add(own.clique, own.rank);
    comm->split_to = nullptr;
  }
  if (!comm->under_way.empty() && comm->looks-- > 0) {
    error = nccl::kInProgress;
    return 0;
  }
  for (auto& [stream, item] : std::exchange(comm->under_way, {}))
    machine_.push(rank_, stream, std::move(item));
  return 0;
}

int MockNccl::create_premul_sum(nccl::Op& made, void* factor, nccl::Type type, bool on_device,
                                nccl::Comm comm) noexcept {
  const std::lock_guard lock(machine_.mutex);
  if (machine_.enter(rank_, "ncclRedOpCreatePreMulSum")) return kFailure;
  (void)on_device;
  const auto* from = static_cast<const std::byte*>(factor);
  made_[next_op_] = {{from, from + size_of(dtype_of(type))}, comm};
  made = static_cast<nccl::Op>(next_op_++);
  ++machine_.alive["ops"];
  return 0;
}

int MockNccl::destroy_op(nccl::Op op, nccl::Comm /*comm*/) noexcept {
  const std::lock_guard lock(machine_.mutex);
  if (made_.erase(static_cast<int>(op)) != 1) machine_.misuse("an op is destroyed that is none");
  --machine_.alive["ops"];
  return machine_.enter(rank_, "ncclRedOpDestroy") ? kFailure : 0;
}

int MockNccl::group_start() noexcept {
  const std::lock_guard lock(machine_.mutex);
  if (machine_.enter(rank_, "ncclGroupStart")) return kFailure;
  ++grouped_[std::this_thread::get_id()].depth;
  ++machine_.alive["groups of calls"];
  return 0;
}

int MockNccl::group_end() noexcept {
  const std::lock_guard lock(machine_.mutex);
  --machine_.alive["groups of calls"];
  const Grouped group = std::exchange(grouped_[std::this_thread::get_id()], {});
  if (group.depth != 1) machine_.misuse("groups of calls are nested");
  const std::vector<Queued>& calls = group.queued;
  if (machine_.enter(rank_, "ncclGroupEnd")) return kFailure;
  if (calls.empty()) return 0;
  const CommPtr comm = calls.front().comm;
  MockMachine::Item item;
  for (const Queued& one : calls) {
    if (one.comm != comm || one.stream != calls.front().stream)
      machine_.misuse("a group of calls on two communicators or streams");
    for (const auto& access : accesses_of(*one.call, comm->rank, comm->clique->size))
      item.accesses.push_back(access);
  }
  ++comm->launches;
  const std::uintptr_t stream = calls.front().stream;
  const bool captured = stream != 0 && machine_.captured(rank_) == stream;
  if (captured) ++comm->graphs;
  // Until the item is gone.
  const std::shared_ptr<void> launch(nullptr, [comm, captured, &machine = machine_](void*) {
    --comm->launches;
    if (!captured) return;
    --comm->graphs;
    machine.graphs_changed.notify_all();
  });
  item.run = [calls, comm, launch, begun = false]() mutable {
    if (!std::exchange(begun, true) && !comm->aborted) {
      for (const Queued& one : calls) begin(*comm->clique, comm->rank, one.call);
    }
    const bool done = std::ranges::all_of(calls, [](const Queued& one) { return one.call->done; });
    if (!done && !comm->aborted) return false;
    if (!done) {
      for (const Queued& one : calls) withdraw(*comm->clique, comm->rank, one.call);
    }
    return true;
  };
  if (!std::exchange(comm->slow, !comm->slow)) {
    machine_.push(rank_, stream, std::move(item));
    return 0;
  }
  // Every other launch is put on the stream after this call, at the second look.
  comm->looks = 1;
  comm->under_way.emplace_back(stream, std::move(item));
  return nccl::kInProgress;
}

int MockNccl::queue(MockNcclCall call, nccl::Comm handle, nccl::Stream stream) {
  const std::lock_guard lock(machine_.mutex);
  if (machine_.enter(rank_, call.function)) return kFailure;
  const CommPtr comm = comm_of(handle);
  if (comm == nullptr) return kFailure;
  Grouped& group = grouped_[std::this_thread::get_id()];
  if (group.depth != 1) machine_.misuse(call.function + " outside of a group of calls");
  if (comm->clique->joined.size() != static_cast<std::size_t>(comm->clique->size))
    machine_.misuse(call.function + " on a communicator that is not ready");
  if (const auto at = made_.find(static_cast<int>(call.op)); at != made_.end())
    call.factor = at->second.factor;
  if (call.function != "ncclSend" && call.function != "ncclRecv") call.number = ++comm->collectives;
  group.queued.push_back(
      {comm, static_cast<std::uintptr_t>(stream), std::make_shared<MockNcclCall>(std::move(call))});
  return 0;
}

int MockNccl::all_reduce(nccl::Address in, nccl::Address out, std::size_t count, nccl::Type type,
                         nccl::Op op, nccl::Comm comm, nccl::Stream stream) noexcept {
  return queue({"ncclAllReduce", in, out, count, type, op, -1, 0, {}, false}, comm, stream);
}

int MockNccl::reduce(nccl::Address in, nccl::Address out, std::size_t count, nccl::Type type,
                     nccl::Op op, int root, nccl::Comm comm, nccl::Stream stream) noexcept {
  return queue({"ncclReduce", in, out, count, type, op, root, 0, {}, false}, comm, stream);
}

int MockNccl::broadcast(nccl::Address in, nccl::Address out, std::size_t count, nccl::Type type,
                        int root, nccl::Comm comm, nccl::Stream stream) noexcept {
  return queue({"ncclBroadcast", in, out, count, type, {}, root, 0, {}, false}, comm, stream);
}

int MockNccl::all_gather(nccl::Address in, nccl::Address out, std::size_t count, nccl::Type type,
                         nccl::Comm comm, nccl::Stream stream) noexcept {
  return queue({"ncclAllGather", in, out, count, type, {}, -1, 0, {}, false}, comm, stream);
}

int MockNccl::reduce_scatter(nccl::Address in, nccl::Address out, std::size_t count,
                             nccl::Type type, nccl::Op op, nccl::Comm comm,
                             nccl::Stream stream) noexcept {
  return queue({"ncclReduceScatter", in, out, count, type, op, -1, 0, {}, false}, comm, stream);
}

int MockNccl::send(nccl::Address data, std::size_t count, nccl::Type type, int to, nccl::Comm comm,
                   nccl::Stream stream) noexcept {
  return queue({"ncclSend", data, 0, count, type, {}, to, 0, {}, false}, comm, stream);
}

int MockNccl::receive(nccl::Address data, std::size_t count, nccl::Type type, int from,
                      nccl::Comm comm, nccl::Stream stream) noexcept {
  return queue({"ncclRecv", 0, data, count, type, {}, from, 0, {}, false}, comm, stream);
}

}  // namespace tutti::test
