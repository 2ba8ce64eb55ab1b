#pragma once

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <set>
#include <tuple>
#include <utility>

#include "backend/nccl/api.hpp"
#include "cuda/kernels/elements.hpp"
#include "support/mock_gpu.hpp"

namespace tutti::test {

/// The kernel of an operation, "sum" or "scale"; none for a number that is no type of NCCL.
inline MockKernel nccl_kernel(const std::string& what, nccl::Type type) {
  static const std::string kTypes[] = {"int8",    "uint8",    "int32",       "uint32",
                                       "int64",   "uint64",   "float16",     "float32",
                                       "float64", "bfloat16", "float8_e4m3", "float8_e5m2"};
  const auto number = static_cast<std::size_t>(type);
  if (number >= std::size(kTypes)) return {};
  // These wrap, so they need no sign.
  const bool wraps = what == "sum" || what == "product" || what == "scale";
  const std::string sign = wraps && kTypes[number].starts_with("int") ? "u" : "";
  return mock_kernel("tutti_" + what + '_' + sign + kTypes[number]);
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
  nccl::Address factor_at = 0;         ///< where it is on the GPU when the call runs; 0: it is here
  bool done = false;

  [[nodiscard]] std::size_t element() const { return nccl_kernel("sum", type).element; }
  [[nodiscard]] std::size_t bytes() const { return count * element(); }
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
    if (call->factor_at != 0)
      std::memcpy(call->factor.data(), reinterpret_cast<const void*>(call->factor_at),
                  call->factor.size());
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
    if (call.factor_at != 0)
      list.push_back({call.factor_at, call.factor_at + call.factor.size(), false});
    return list;
  }

 private:
  /// The sum (and so on) of all inputs, one after the other; narrow floats are rounded each time.
  static std::vector<std::byte> reduced(const std::map<int, Ptr>& calls, std::size_t first,
                                        std::size_t count) {
    const MockNcclCall& any = *calls.begin()->second;
    const bool sums = any.op == nccl::Op::avg || !any.factor.empty();
    constexpr const char* kOps[] = {"sum", "product", "max", "min"};
    const char* const op = sums ? "sum" : kOps[static_cast<int>(any.op)];
    const auto run = [&](const char* what, const MockNcclCall& call, std::vector<std::byte>& to,
                         std::initializer_list<const void*> sources) {
      cuda::kernels::ReduceArguments all;
      all.to = to.data();
      std::copy(sources.begin(), sources.end(), all.sources);
      all.k = static_cast<std::int32_t>(sources.size());
      all.count = count;
      all.divisor = static_cast<std::int64_t>(calls.size());
      if (!call.factor.empty()) std::memcpy(all.factor, call.factor.data(), call.factor.size());
      nccl_kernel(what, call.type).run(all);
    };
    std::vector<std::byte> result;
    for (const auto& [rank, call] : calls) {
      const auto* const from =
          reinterpret_cast<const std::byte*>(call->in) + first * call->element();
      std::vector<std::byte> next(from, from + count * call->element());
      if (!call->factor.empty()) run("scale", *call, next, {next.data()});
      if (result.empty())
        result = std::move(next);
      else
        run(op, any, result, {result.data(), next.data()});
    }
    if (any.op == nccl::Op::avg) run("avg", any, result, {result.data()});
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
