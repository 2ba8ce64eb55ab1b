#include "support/mock_nccl.hpp"

#include <algorithm>
#include <thread>

#include "support/mock_clique.hpp"

namespace tutti::test {

namespace {

constexpr int kNcclFailure = 3;

struct MockNcclComm {
  std::shared_ptr<MockClique> clique;
  int rank = 0;
  std::uint64_t collectives = 0;
  std::uint64_t splits = 0;
  bool aborted = false;
  bool finalized = false;
  int launches = 0;  ///< calls that have not ended
  bool slow = true;  ///< the next launch is under way for one look
  std::vector<std::pair<std::uintptr_t, MockMachine::Item>> under_way;
  int looks = 0;   ///< so many more find it under way
  int graphs = 0;  ///< calls in graphs that the program has not destroyed: no abort returns
  nccl::Comm* split_to = nullptr;
};

class MockNccl final : public nccl::Api {
 public:
  MockNccl(MockMachine& machine, MockNetwork& network, int rank)
      : machine_(machine), network_(network), rank_(rank) {}
  ~MockNccl() override {
    std::unique_lock lock(machine_.mutex);
    machine_.graphs_changed.wait(lock, [&] { return aborting_ == 0; });
  }

  int version() const noexcept override { return network_.version; }
  std::string about() const override { return "a mock of NCCL"; }
  std::string error_text(int code, nccl::Comm /*comm*/) const override {
    if (code == 6) return "a planted fault of the network (6)";
    return code == kNcclFailure ? "a planted fault of NCCL (3)"
                                : "NCCL error " + std::to_string(code);
  }
  std::chrono::nanoseconds abort_limit() const noexcept override { return network_.abort_limit; }

  int get_unique_id(nccl::UniqueId& made) noexcept override {
    const std::lock_guard lock(machine_.mutex);
    if (machine_.enter(rank_, "ncclGetUniqueId")) return kNcclFailure;
    const std::string id = "id " + std::to_string(++network_.ids);
    std::memcpy(made.bytes.data(), id.c_str(), id.size() + 1);
    return 0;
  }
  int init_rank(nccl::Comm& made, int size, const nccl::UniqueId& id, int rank) noexcept override {
    const std::lock_guard lock(machine_.mutex);
    if (machine_.enter(rank_, "ncclCommInitRankConfig")) return kNcclFailure;
    if (!std::string_view(id.bytes.data()).starts_with("id "))
      machine_.misuse("a communicator without an id");
    auto& clique = network_.cliques[id.bytes.data()];
    if (clique == nullptr) clique = std::make_shared<MockClique>();
    clique->size = size;
    if (clique->joined[rank]) machine_.misuse("two ranks of one number");
    clique->joined[rank] = true;
    made = add(clique, rank);
    return nccl::kInProgress;
  }
  int split(nccl::Comm handle, int color, int key, nccl::Comm& made) noexcept override {
    std::unique_lock lock(machine_.mutex);
    const CommPtr comm = comm_of(handle);
    if (rank_ == network_.splits_second)
      network_.a_split_began.wait(lock,
                                  [&] { return !comm->clique->splits[comm->splits].empty(); });
    if (machine_.enter(rank_, "ncclCommSplit")) return kNcclFailure;
    if (comm->launches != 0) machine_.misuse("a communicator is split while something runs on it");
    const std::uint64_t number = comm->splits++;
    auto& all = comm->clique->splits[number];
    all[comm->rank] = {color, key, nullptr, -1};
    comm->split_to = &made;
    network_.a_split_began.notify_all();
    made = nccl::Comm{};
    if (!comm->clique->is_full(all)) return nccl::kInProgress;
    std::map<int, std::vector<std::pair<int, int>>> members;
    for (const auto& [rank, one] : all) {
      if (one.color >= 0) members[one.color].emplace_back(one.key, rank);
    }
    for (auto& [its_color, list] : members) {
      std::sort(list.begin(), list.end());
      auto clique = std::make_shared<MockClique>();
      clique->size = static_cast<int>(list.size());
      for (std::size_t i = 0; i < list.size(); ++i) {
        clique->joined[static_cast<int>(i)] = true;
        auto& one = all[list[i].second];
        one.clique = clique;
        one.rank = static_cast<int>(i);
      }
    }
    return nccl::kInProgress;
  }
  int finalize(nccl::Comm handle) noexcept override {
    const std::lock_guard lock(machine_.mutex);
    if (machine_.enter(rank_, "ncclCommFinalize")) return kNcclFailure;
    if (const CommPtr comm = comm_of(handle)) {
      comm->finalized = true;
      comm->clique->finalized.insert(comm->rank);
    }
    return nccl::kInProgress;
  }
  int destroy(nccl::Comm handle) noexcept override {
    std::unique_lock lock(machine_.mutex);
    if (machine_.enter(rank_, "ncclCommDestroy")) return kNcclFailure;
    const CommPtr comm = comm_of(handle);
    if (comm == nullptr) return kNcclFailure;
    if (comm->launches != 0 || !comm->finalized)
      machine_.misuse("a communicator with work was destroyed");
    MockClique& clique = *comm->clique;
    clique.left.insert(comm->rank);
    network_.somebody_left.notify_all();
    const auto all_left = [&] { return clique.is_full(clique.left); };
    if (network_.waits_at_the_end &&
        !network_.somebody_left.wait_for(lock, std::chrono::seconds(5), all_left))
      machine_.misuse("ranks wait for each other at the end");
    comms_.erase(static_cast<std::uintptr_t>(handle));
    --machine_.alive["communicators"];
    return 0;
  }
  int abort(nccl::Comm handle) noexcept override {
    std::unique_lock lock(machine_.mutex);
    const CommPtr comm = comm_of(handle);
    if (comm == nullptr) return kNcclFailure;
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
  int async_error(nccl::Comm handle, int& error) noexcept override {
    const std::lock_guard lock(machine_.mutex);
    if (machine_.enter(rank_, "ncclCommGetAsyncError")) return kNcclFailure;
    const CommPtr comm = comm_of(handle);
    if (comm == nullptr) return kNcclFailure;
    error = network_.broken_at == rank_ ? 6 : 0;
    if (error == 0 && !goes_on(*comm)) error = nccl::kInProgress;
    return 0;
  }
  int create_premul_sum(nccl::Op& made, void* factor, nccl::Type type, bool on_device,
                        nccl::Comm comm) noexcept override {
    const std::lock_guard lock(machine_.mutex);
    if (machine_.enter(rank_, "ncclRedOpCreatePreMulSum")) return kNcclFailure;
    Made op{std::vector<std::byte>(nccl_kernel("scale", type).element), 0, comm};
    if (on_device)
      op.factor_at = reinterpret_cast<nccl::Address>(factor);
    else
      std::memcpy(op.factor.data(), factor, op.factor.size());
    made_[next_op_] = std::move(op);
    made = static_cast<nccl::Op>(next_op_++);
    ++machine_.alive["ops"];
    return 0;
  }
  int destroy_op(nccl::Op op, nccl::Comm /*comm*/) noexcept override {
    const std::lock_guard lock(machine_.mutex);
    if (made_.erase(static_cast<int>(op)) != 1) machine_.misuse("an op is destroyed that is none");
    --machine_.alive["ops"];
    return machine_.enter(rank_, "ncclRedOpDestroy") ? kNcclFailure : 0;
  }
  int group_start() noexcept override {
    const std::lock_guard lock(machine_.mutex);
    if (machine_.enter(rank_, "ncclGroupStart")) return kNcclFailure;
    ++grouped_[std::this_thread::get_id()].depth;
    ++machine_.alive["groups of calls"];
    return 0;
  }
  int group_end() noexcept override {
    const std::lock_guard lock(machine_.mutex);
    --machine_.alive["groups of calls"];
    const Grouped group = std::exchange(grouped_[std::this_thread::get_id()], {});
    if (group.depth != 1) machine_.misuse("groups of calls are nested");
    const std::vector<Queued>& calls = group.queued;
    if (machine_.enter(rank_, "ncclGroupEnd")) return kNcclFailure;
    if (calls.empty()) return 0;
    const CommPtr comm = calls.front().comm;
    MockMachine::Item item;
    for (const Queued& one : calls) {
      if (one.comm != comm || one.stream != calls.front().stream)
        machine_.misuse("a group of calls on two communicators or streams");
      for (const auto& access : comm->clique->accesses_of(*one.call, comm->rank))
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
        for (const Queued& one : calls) comm->clique->begin(comm->rank, one.call);
      }
      const bool done =
          std::ranges::all_of(calls, [](const Queued& one) { return one.call->done; });
      if (!done && !comm->aborted) return false;
      if (!done) {
        for (const Queued& one : calls) comm->clique->withdraw(comm->rank, one.call);
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
  int all_reduce(nccl::Address in, nccl::Address out, std::size_t count, nccl::Type type,
                 nccl::Op op, nccl::Comm comm, nccl::Stream stream) noexcept override {
    return queue({"ncclAllReduce", in, out, count, type, op, -1}, comm, stream);
  }
  int reduce(nccl::Address in, nccl::Address out, std::size_t count, nccl::Type type, nccl::Op op,
             int root, nccl::Comm comm, nccl::Stream stream) noexcept override {
    return queue({"ncclReduce", in, out, count, type, op, root}, comm, stream);
  }
  int broadcast(nccl::Address in, nccl::Address out, std::size_t count, nccl::Type type, int root,
                nccl::Comm comm, nccl::Stream stream) noexcept override {
    return queue({"ncclBroadcast", in, out, count, type, {}, root}, comm, stream);
  }
  int all_gather(nccl::Address in, nccl::Address out, std::size_t count, nccl::Type type,
                 nccl::Comm comm, nccl::Stream stream) noexcept override {
    return queue({"ncclAllGather", in, out, count, type, {}, -1}, comm, stream);
  }
  int reduce_scatter(nccl::Address in, nccl::Address out, std::size_t count, nccl::Type type,
                     nccl::Op op, nccl::Comm comm, nccl::Stream stream) noexcept override {
    return queue({"ncclReduceScatter", in, out, count, type, op, -1}, comm, stream);
  }
  int send(nccl::Address data, std::size_t count, nccl::Type type, int to, nccl::Comm comm,
           nccl::Stream stream) noexcept override {
    return queue({"ncclSend", data, 0, count, type, {}, to}, comm, stream);
  }
  int receive(nccl::Address data, std::size_t count, nccl::Type type, int from, nccl::Comm comm,
              nccl::Stream stream) noexcept override {
    return queue({"ncclRecv", 0, data, count, type, {}, from}, comm, stream);
  }

 private:
  using CommPtr = std::shared_ptr<MockNcclComm>;
  struct Queued {
    CommPtr comm;
    std::uintptr_t stream = 0;
    MockClique::Ptr call;
  };

  /// False: something of this communicator is still under way.
  bool goes_on(MockNcclComm& comm) {
    MockClique& clique = *comm.clique;
    if (!clique.is_full(clique.joined)) return false;
    if (network_.waits_at_the_end && comm.finalized && !clique.is_full(clique.finalized))
      return false;
    if (comm.split_to != nullptr) {
      auto& all = clique.splits[comm.splits - 1];
      if (!clique.is_full(all)) return false;
      const auto& own = all[comm.rank];
      if (own.clique != nullptr) *comm.split_to = add(own.clique, own.rank);
      comm.split_to = nullptr;
    }
    if (!comm.under_way.empty() && comm.looks-- > 0) return false;
    for (auto& [stream, item] : std::exchange(comm.under_way, {}))
      machine_.push(rank_, stream, std::move(item));
    return true;
  }
  CommPtr comm_of(nccl::Comm comm) {
    const auto at = comms_.find(static_cast<std::uintptr_t>(comm));
    if (at != comms_.end()) return at->second;
    machine_.misuse("a communicator is used that is none");
    return nullptr;
  }
  nccl::Comm add(std::shared_ptr<MockClique> clique, int rank) {
    auto comm = std::make_shared<MockNcclComm>();
    comm->clique = std::move(clique);
    comm->rank = rank;
    const std::uintptr_t handle = next_comm_++;
    comms_[handle] = std::move(comm);
    ++machine_.alive["communicators"];
    return static_cast<nccl::Comm>(handle);
  }
  int queue(MockNcclCall call, nccl::Comm handle, nccl::Stream stream) {
    const std::lock_guard lock(machine_.mutex);
    if (machine_.enter(rank_, call.function)) return kNcclFailure;
    const CommPtr comm = comm_of(handle);
    if (comm == nullptr) return kNcclFailure;
    Grouped& group = grouped_[std::this_thread::get_id()];
    if (group.depth != 1) machine_.misuse(call.function + " outside of a group of calls");
    if (!comm->clique->is_full(comm->clique->joined))
      machine_.misuse(call.function + " on a communicator that is not ready");
    if (call.element() == 0 || call.peer >= comm->clique->size) {
      machine_.misuse(call.function + " of no type of NCCL, or with a rank that is none");
      return kNcclFailure;
    }
    if (const auto at = made_.find(static_cast<int>(call.op)); at != made_.end()) {
      call.factor = at->second.factor;
      call.factor_at = at->second.factor_at;
    } else if (call.op > nccl::Op::avg) {
      machine_.misuse(call.function + " with an op that is none");
      return kNcclFailure;
    }
    for (const auto& access : comm->clique->accesses_of(call, comm->rank)) {
      if (access.begin == 0 && access.end != 0)
        machine_.misuse(call.function + " of a tensor that is nowhere");
    }
    if (call.function != "ncclSend" && call.function != "ncclRecv")
      call.number = ++comm->collectives;
    group.queued.push_back({comm, static_cast<std::uintptr_t>(stream),
                            std::make_shared<MockNcclCall>(std::move(call))});
    return 0;
  }

  MockMachine& machine_;
  MockNetwork& network_;
  int rank_;
  int aborting_ = 0;  ///< aborts that have not returned
  std::map<std::uintptr_t, CommPtr> comms_;
  std::uintptr_t next_comm_ = 1;
  struct Made {
    std::vector<std::byte> factor;
    nccl::Address factor_at = 0;  ///< on the GPU; 0: it is `factor`
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

}  // namespace

std::unique_ptr<nccl::Api> make_mock_nccl(MockMachine& machine, MockNetwork& network, int rank) {
  return std::make_unique<MockNccl>(machine, network, rank);
}

}  // namespace tutti::test
