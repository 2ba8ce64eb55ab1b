#pragma once

#include <cstring>
#include <set>
#include <tuple>
#include <utility>

#include <tutti/dtype.hpp>

#include "backend/nccl/api.hpp"
#include "kernels/reduce.hpp"
#include "mock_gpu.hpp"

namespace tutti::test {

inline DType dtype_of(nccl::Type type) {
  constexpr DType kTypes[] = {DType::int8,     DType::uint8,       DType::int32,
                              DType::uint32,   DType::int64,       DType::uint64,
                              DType::float16,  DType::float32,     DType::float64,
                              DType::bfloat16, DType::float8_e4m3, DType::float8_e5m2};
  return kTypes[static_cast<int>(type)];
}

/// One call of NCCL in a group of calls, on one rank.
struct MockNcclCall {
  std::string function;
  nccl::Address in = 0;
  nccl::Address out = 0;
  std::size_t count = 0;
  nccl::Type type{};
  nccl::Op op{};
  int peer = -1;                       ///< or root
  std::uint64_t number = 0;            ///< of a collective in its communicator
  std::vector<std::byte> factor = {};  ///< of a PREMUL_SUM
  bool done = false;

  [[nodiscard]] std::size_t bytes() const { return count * size_of(dtype_of(type)); }
};

/// The ranks of a communicator, and what they do together, in the order of the ranks. An operation
/// whose calls do not fit each other never ends.
struct MockClique {
  using Ptr = std::shared_ptr<MockNcclCall>;

  int size = 0;
  std::map<int, bool> joined;
  std::set<int> finalized;  ///< ranks that have begun to leave
  std::set<int> left;
  /// Collectives that not all ranks have begun, by number: the call of each rank.
  std::map<std::uint64_t, std::map<int, Ptr>> collectives;
  /// Messages that are not matched, by (from, to).
  std::map<std::pair<int, int>, std::deque<Ptr>> sends;
  std::map<std::pair<int, int>, std::deque<Ptr>> receives;
  struct Split {
    int color = -1;
    int key = 0;
    std::shared_ptr<MockClique> clique;
    int rank = -1;
  };
  std::map<std::uint64_t, std::map<int, Split>> splits;

  /// All ranks are among these.
  template <class Ranks>
  [[nodiscard]] bool is_full(const Ranks& ranks) const {
    return ranks.size() == static_cast<std::size_t>(size);
  }
  /// The stream has come to it.
  void begin(int rank, const Ptr& call) {
    if (call->function == "ncclSend") {
      sends[{rank, call->peer}].push_back(call);
      return match({rank, call->peer});
    }
    if (call->function == "ncclRecv") {
      receives[{call->peer, rank}].push_back(call);
      return match({call->peer, rank});
    }
    auto& calls = collectives[call->number];
    calls[rank] = call;
    if (!is_full(calls)) return;
    run_collective(calls);
    if (call->done) collectives.erase(call->number);
  }
  /// Its rank has aborted: nobody touches its memory any more.
  void withdraw(int rank, const Ptr& call) {
    if (const auto at = collectives.find(call->number); at != collectives.end()) {
      if (const auto own = at->second.find(rank); own != at->second.end() && own->second == call)
        at->second.erase(own);
    }
    std::erase(sends[{rank, call->peer}], call);
    std::erase(receives[{call->peer, rank}], call);
  }
  [[nodiscard]] std::vector<MockMachine::Access> accesses_of(const MockNcclCall& call,
                                                             int rank) const {
    const std::size_t bytes = call.bytes();
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

 private:
  /// The sum (and so on) of all inputs, one after the other; narrow floats are rounded each time.
  static std::vector<std::byte> reduced(const std::map<int, Ptr>& calls, std::size_t first,
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
  static void write(nccl::Address to, const void* from, std::size_t bytes) {
    std::memmove(reinterpret_cast<void*>(to), from, bytes);
  }
  /// Of a collective that all ranks have begun; not if their calls differ.
  static void run_collective(std::map<int, Ptr>& calls) {
    const MockNcclCall& first = *calls.begin()->second;
    for (const auto& [rank, call] : calls) {
      const bool made = call->factor.empty() == first.factor.empty();
      const bool same_op = !first.factor.empty() || call->op == first.op;
      if (std::tie(call->function, call->count, call->type, call->peer) !=
              std::tie(first.function, first.count, first.type, first.peer) ||
          !made || !same_op)
        return;
    }
    const std::size_t bytes = first.bytes();
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
  void match(std::pair<int, int> pair) {
    auto& sent = sends[pair];
    auto& received = receives[pair];
    while (!sent.empty() && !received.empty()) {
      const std::size_t bytes = sent.front()->bytes();
      if (bytes != received.front()->bytes()) return;  // never ends
      write(received.front()->out, reinterpret_cast<const void*>(sent.front()->in), bytes);
      sent.front()->done = received.front()->done = true;
      sent.pop_front();
      received.pop_front();
    }
  }
};

}  // namespace tutti::test
