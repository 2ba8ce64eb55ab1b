#include "mock_mpi.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "kernels/reduce.hpp"

namespace tutti::test {
namespace {

using mpi::Comm;
using mpi::Op;
using mpi::Type;

DType dtype_of_type(Type type) {
  return static_cast<DType>((static_cast<std::uintptr_t>(type) >> MockMpi::kTypeShift) - 1);
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
  for (const int rank : all) ranks_.push_back(make_mock_rank(*this, rank));
}

MockMpi::~MockMpi() = default;

std::size_t MockMpi::left_over() {
  const std::lock_guard lock(mutex_);
  std::size_t left = requests_.size() + matched_.size();
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
  Match& match = comm.matches[number];
  match.parts.resize(comm.members.size());
  match.parts[static_cast<std::size_t>(rank)] = std::make_unique<Part>(std::move(part));
  if (++match.arrived == comm.members.size()) {
    run(comm, match);
    comm.matches.erase(number);
    changed_.notify_all();
  }
  return request;
}

void MockMpi::run(Communicator& comm, Match& match) {
  const std::size_t size = match.parts.size();
  const auto part = [&](std::size_t rank) -> Part& { return *match.parts[rank]; };
  const Part first = part(0);
  const auto root = static_cast<std::size_t>(first.root);
  // As in Open MPI, where the ranks then use different algorithms.
  const auto differs_in_place = [&](const Part& one) {
    return first.what == What::all_reduce && one.in_place != first.in_place;
  };
  const bool differ = std::any_of(match.parts.begin(), match.parts.end(), [&](const auto& one) {
    return one->what != first.what || differs_in_place(*one);
  });
  const std::size_t element = MockMpi::bytes_of(first.type);
  const std::size_t block = element * static_cast<std::size_t>(first.count);
  const auto copy = [](std::byte* to, const std::byte* from, std::size_t bytes) {
    if (bytes > 0 && to != from) std::memmove(to, from, bytes);
  };
  // The values of all ranks in a row, as a reduction takes them.
  const auto reduced_of = [&](std::size_t ranks, std::size_t count) {
    std::vector<std::byte> sum(count * element + 1);
    for (std::size_t r = 0; r < ranks; ++r) {
      const std::byte* const from = part(r).in_place ? part(r).out : part(r).in;
      if (count == 0) continue;
      if (r == 0)
        std::memcpy(sum.data(), from, count * element);
      else
        combine(first.op, first.type, from, sum.data(), static_cast<int>(count));
    }
    return sum;
  };
  const auto reduced = [&](std::size_t count) { return reduced_of(size, count); };
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
      case What::scan:
      case What::exclusive_scan: {
        // From the last one on: in place, the results go over the inputs. MPI leaves open what
        // rank 0 of an exclusive one gets; here it is something else than before.
        const std::size_t own = first.what == What::scan ? 1 : 0;
        for (std::size_t r = size; r-- > 0;) {
          const auto sum = reduced_of(r + own, static_cast<std::size_t>(first.count));
          if (r + own > 0)
            copy(part(r).out, sum.data(), block);
          else if (block > 0)
            std::memset(part(r).out, 0x5a, block);
        }
        break;
      }
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
  pending.received = {message.source, message.tag, static_cast<std::int64_t>(message.bytes.size())};
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
  if (const auto message = take(handle, rank, receive.source, receive.tag))
    deliver(receive, *message);
  else
    at(handle).receives[static_cast<std::size_t>(rank)].push_back(receive);
}

std::optional<MockMpi::Message> MockMpi::take(Comm handle, int rank, int source, int tag) {
  auto& messages = at(handle).messages[static_cast<std::size_t>(rank)];
  for (auto one = messages.begin(); one != messages.end(); ++one) {
    if ((tag >= 0 && one->tag != tag) || (source >= 0 && one->source != source)) continue;
    std::optional<Message> taken = std::move(*one);
    messages.erase(one);
    return taken;
  }
  return std::nullopt;
}

}  // namespace tutti::test
