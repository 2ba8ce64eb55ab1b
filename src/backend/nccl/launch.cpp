#include "backend/nccl/launch.hpp"

#include <memory>

#include <tutti/backend/kinds.hpp>
#include "backend/nccl/mapping.hpp"

namespace tutti::nccl {
namespace {

/// Gives one operation to NCCL; stops at the first error.
class Launcher {
 public:
  Launcher(const Place& place, NcclOperation& op, Calls& calls)
      : place_(place),
        nccl_(place.nccl),
        op_(op),
        calls_(calls),
        element_(size_of(op.extent.dtype)),
        in_(op.in.data()),
        out_(op.out.data()) {}

  bool run() {
    switch (op_.call.kind) {
      case Kind::broadcast: return broadcast();
      case Kind::all_reduce:
      case Kind::reduce: return reduce();
      case Kind::all_gather: return all_gather();
      case Kind::gather: return gather();
      case Kind::scatter: return scatter();
      case Kind::reduce_scatter: return reduce_scatter();
      case Kind::all_to_all: return all_to_all();
      case Kind::send: return grouped([&] { return send(1, in_, op_.extent.count); });
      case Kind::recv: return grouped([&] { return receive(0, out_, op_.extent.count); });
      case Kind::new_group:
        op_.made = std::make_shared<Comm>();
        return calls_.nccl("ncclCommSplit", nccl_.split(place_.comm, op_.color, op_.key, *op_.made),
                           place_.comm);
      case Kind::barrier:
      case Kind::probe:  // see can_probe
      case Kind::scan:
      case Kind::exclusive_scan: break;
    }
    return true;
  }

 private:
  [[nodiscard]] bool root() const noexcept { return place_.rank == op_.call.root; }
  [[nodiscard]] Address in_block(int rank) const {
    return in_ + op_.extent.first_of(op_.extent.in_ends, rank) * element_;
  }
  [[nodiscard]] Address out_block(int rank) const {
    return out_ + op_.extent.first_of(op_.extent.out_ends, rank) * element_;
  }

  template <class Action>
  bool grouped(const Action& action) {
    if (!calls_.nccl("ncclGroupStart", nccl_.group_start(), place_.comm)) return false;
    const bool begun = action();
    // Also after a failure, or the thread's next calls would belong to this group.
    return calls_.nccl("ncclGroupEnd", nccl_.group_end(), place_.comm) && begun;
  }
  /// Elements of any dtype are moved as bytes.
  bool send(int to, Address from, std::size_t count) {
    if (count == 0) return true;
    return calls_.nccl(
        "ncclSend", nccl_.send(from, count * element_, Type::uint8, to, place_.comm, place_.stream),
        place_.comm);
  }
  bool receive(int from, Address to, std::size_t count) {
    if (count == 0) return true;
    return calls_.nccl(
        "ncclRecv",
        nccl_.receive(to, count * element_, Type::uint8, from, place_.comm, place_.stream),
        place_.comm);
  }
  bool broadcast_from(int root, Address from, Address to, std::size_t count) {
    if (count == 0) return true;
    return calls_.nccl(
        "ncclBroadcast",
        nccl_.broadcast(from, to, count * element_, Type::uint8, root, place_.comm, place_.stream),
        place_.comm);
  }
  bool copy_own(Address from, Address to, std::size_t count) {
    if (from == to || count == 0) return true;
    return calls_.cuda("cuMemcpyAsync",
                       place_.cuda.copy(to, from, count * element_, place_.stream));
  }

  bool broadcast() {
    const Address data = root() ? in_ : out_;
    return grouped([&] { return broadcast_from(op_.call.root, data, data, op_.extent.count); });
  }

  /// The type and op of the reduction; makes that of a PREMUL_SUM.
  bool find_reduction() {
    reduction_ = *reduction_of(op_.call.op, op_.extent.dtype, nccl_.version());
    if (reduction_.op) return true;
    const bool on_device = op_.device_factor != nullptr;
    void* const factor = on_device ? op_.device_factor : op_.factor.data();
    Op made{};
    if (!calls_.nccl("ncclRedOpCreatePreMulSum",
                     nccl_.create_premul_sum(made, factor, reduction_.type, on_device, place_.comm),
                     place_.comm))
      return false;
    reduction_.op = made;
    op_.made_op = made;
    op_.has_made_op = true;
    return true;
  }
  [[nodiscard]] std::size_t numbers(std::size_t elements) const noexcept {
    return elements * reduction_.per_element;
  }
  bool reduce_to(int root, Address from, Address to, std::size_t count) {
    if (count == 0) return true;
    return calls_.nccl("ncclReduce",
                       nccl_.reduce(from, to, numbers(count), reduction_.type, *reduction_.op, root,
                                    place_.comm, place_.stream),
                       place_.comm);
  }
  bool reduce() {
    if (!find_reduction()) return false;
    if (op_.call.kind == Kind::reduce)
      return grouped(
          [&] { return reduce_to(op_.call.root, in_, root() ? out_ : in_, op_.extent.count); });
    return grouped([&] {
      return calls_.nccl("ncclAllReduce",
                         nccl_.all_reduce(in_, out_, numbers(op_.extent.count), reduction_.type,
                                          *reduction_.op, place_.comm, place_.stream),
                         place_.comm);
    });
  }
  bool reduce_scatter() {
    if (!find_reduction()) return false;
    if (!op_.extent.uneven())
      return grouped([&] {
        return calls_.nccl(
            "ncclReduceScatter",
            nccl_.reduce_scatter(in_, out_, numbers(op_.extent.each), reduction_.type,
                                 *reduction_.op, place_.comm, place_.stream),
            place_.comm);
      });
    return grouped([&] {
      for (int r = 0; r < place_.size; ++r) {
        const Address to = r == place_.rank ? out_ : in_block(r);
        if (!reduce_to(r, in_block(r), to, op_.extent.count_of(op_.extent.in_ends, r)))
          return false;
      }
      return true;
    });
  }

  bool all_gather() {
    if (!op_.extent.uneven())
      return grouped([&] {
        return calls_.nccl("ncclAllGather",
                           nccl_.all_gather(in_, out_, op_.extent.each * element_, Type::uint8,
                                            place_.comm, place_.stream),
                           place_.comm);
      });
    return grouped([&] {
      for (int r = 0; r < place_.size; ++r) {
        const Address from = r == place_.rank ? in_ : out_block(r);
        if (!broadcast_from(r, from, out_block(r), op_.extent.count_of(op_.extent.out_ends, r)))
          return false;
      }
      return true;
    });
  }
  bool gather() {
    const auto& ends = op_.extent.out_ends;
    const std::size_t own = op_.extent.count_of(ends, place_.rank);
    if (!root()) return grouped([&] { return send(op_.call.root, in_, own); });
    if (!copy_own(in_, out_block(place_.rank), own)) return false;
    return grouped([&] {
      for (int r = 0; r < place_.size; ++r) {
        if (r != place_.rank && !receive(r, out_block(r), op_.extent.count_of(ends, r)))
          return false;
      }
      return true;
    });
  }
  bool scatter() {
    const auto& ends = op_.extent.in_ends;
    const std::size_t own = op_.extent.count_of(ends, place_.rank);
    if (!root()) return grouped([&] { return receive(op_.call.root, out_, own); });
    if (!copy_own(in_block(place_.rank), out_, own)) return false;
    return grouped([&] {
      for (int r = 0; r < place_.size; ++r) {
        if (r != place_.rank && !send(r, in_block(r), op_.extent.count_of(ends, r))) return false;
      }
      return true;
    });
  }
  bool all_to_all() {
    const auto own = op_.extent.count_of(op_.extent.in_ends, place_.rank);
    if (!copy_own(in_block(place_.rank), out_block(place_.rank), own)) return false;
    return grouped([&] {
      for (int r = 0; r < place_.size; ++r) {
        if (r == place_.rank) continue;
        if (!send(r, in_block(r), op_.extent.count_of(op_.extent.in_ends, r))) return false;
        if (!receive(r, out_block(r), op_.extent.count_of(op_.extent.out_ends, r))) return false;
      }
      return true;
    });
  }

  const Place& place_;
  Api& nccl_;
  NcclOperation& op_;
  Calls& calls_;
  std::size_t element_;
  Address in_;
  Address out_;
  Reduction reduction_;
};

/// A message of this rank to itself: NCCL is not asked. `op` is the receive.
bool copy_to_self(const Place& place, NcclOperation& op, Calls& calls) {
  NcclOperation& sent = *op.partner;
  const std::size_t bytes = op.extent.count * size_of(op.extent.dtype);
  return calls.cuda("cuStreamWaitEvent", place.cuda.wait_event(place.stream, sent.start)) &&
         sent.in.make_copy(calls, place.cuda, place.stream, true) &&
         op.out.make_copy(calls, place.cuda, place.stream, false) &&
         (bytes == 0 || calls.cuda("cuMemcpyAsync", place.cuda.copy(op.out.data(), sent.in.data(),
                                                                    bytes, place.stream)));
}

}  // namespace

bool launch(const Place& place, NcclOperation& op, Calls& calls) {
  if (op.call.kind == Kind::new_group) return Launcher(place, op, calls).run();
  if (!op.captured &&
      !calls.cuda("cuStreamWaitEvent", place.cuda.wait_event(place.stream, op.start)))
    return false;
  if (op.partner != nullptr) return copy_to_self(place, op, calls);
  const bool reads = uses_input(op.call.kind, place.rank, op.call.root);
  const bool writes = uses_output(op.call.kind, place.rank, op.call.root);
  const bool copied = (!reads || op.in.make_copy(calls, place.cuda, place.stream, true)) &&
                      (!writes || op.out.make_copy(calls, place.cuda, place.stream, false));
  return copied && Launcher(place, op, calls).run();
}

bool end_launch(const Place& place, NcclOperation& op, Calls& calls) {
  if (op.call.kind == Kind::new_group) return true;
  if (op.has_made_op) {
    op.has_made_op = false;
    if (!calls.nccl("ncclRedOpDestroy", place.nccl.destroy_op(op.made_op, place.comm), place.comm))
      return false;
  }
  if (!op.out.write_back(calls, place.cuda, place.stream)) return false;
  for (NcclOperation* const one : {&op, op.partner}) {
    if (one == nullptr) continue;
    if (!one->in.free_copy(calls, place.cuda, place.stream) ||
        !one->out.free_copy(calls, place.cuda, place.stream))
      return false;
    if (!one->captured &&
        !calls.cuda("cuEventRecord", place.cuda.record_event(one->end, place.stream)))
      return false;
  }
  return true;
}

}  // namespace tutti::nccl
