#include "backend/mpi/mpi_calls.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>

#include <tutti/backend/kinds.hpp>
#include "kernels/pack.hpp"
#include "kernels/reduce.hpp"

namespace tutti::mpi {
namespace {

constexpr std::size_t kIntMax = std::numeric_limits<int>::max();
/// Elements of a reduction that MPI gets at once: an int has to count them.
constexpr std::size_t kMostReduced = std::size_t{1} << 30;
/// Bytes of a broadcast that MPI gets at once.
constexpr std::size_t kMostBroadcast = std::size_t{1} << 30;

/// Of blocks that no count of MPI reaches: above those of comparisons. MPI_TAG_UB is no smaller.
constexpr int kBlocksTag = 32767;
/// Above those of callers.
int monitored_barrier_tag(const Place& place) noexcept { return place.largest_tag; }

/// Begins the requests of one operation; stops at the first error.
class Starter {
 public:
  Starter(const Place& place, MpiOperation& op)
      : place_(place), api_(place.api), op_(op), element_(size_of(op.extent.dtype)) {}

  int start() {
    switch (op_.call.kind) {
      case Kind::barrier: return with([&](Request& r) { return api_.ibarrier(place_.comm, r); });
      case Kind::broadcast: return broadcast();
      case Kind::all_reduce:
      case Kind::reduce: return reduce_chunks();
      case Kind::scan:
      case Kind::exclusive_scan: return scan();
      case Kind::all_gather: return all_gather();
      case Kind::gather: return gather();
      case Kind::scatter: return scatter();
      case Kind::reduce_scatter: return reduce_scatter();
      case Kind::all_to_all: return all_to_all();
      case Kind::send: return send();
      case Kind::recv: return receive();
      case Kind::probe:  // the group looks for its message
      case Kind::new_group: break;
    }
    return 0;
  }

 private:
  /// So many bytes as MPI counts them.
  struct Bytes {
    Type type{};
    int count = 0;
  };

  template <class Begin>
  int with(const Begin& begin) {
    // Allocates first: a request that MPI has begun must not get lost.
    const int code = begin(op_.requests.emplace_back());
    if (code != 0) op_.requests.pop_back();
    return code;
  }

  int count_bytes(std::size_t bytes, Bytes& counted) {
    if (bytes <= kIntMax) {
      counted = {api_.byte(), static_cast<int>(bytes)};
      return 0;
    }
    counted.count = 1;
    const int code = api_.make_bytes(static_cast<std::int64_t>(bytes), counted.type);
    if (code == 0) op_.types.push_back(counted.type);
    return code;
  }

  [[nodiscard]] std::byte* in() const noexcept { return op_.in.data(); }
  [[nodiscard]] std::byte* out() const noexcept { return op_.out.data(); }
  [[nodiscard]] bool root() const noexcept { return place_.rank == op_.call.root; }
  [[nodiscard]] std::size_t block_bytes() const noexcept { return op_.extent.each * element_; }
  [[nodiscard]] std::size_t own_offset() const noexcept {
    return static_cast<std::size_t>(place_.rank) * block_bytes();
  }

  /// One request after the other, for at most `most` of `all`: `begin(done, how many, request)`.
  template <class Begin>
  int in_parts(std::size_t all, std::size_t most, const Begin& begin) {
    for (std::size_t done = 0; done < all; done += most) {
      const int n = static_cast<int>(std::min(all - done, most));
      const int code = with([&](Request& r) { return begin(done, n, r); });
      if (code != 0) return code;
    }
    return 0;
  }

  /// In parts that an int can count: MPICH 4.0 broadcasts no type of more than 2^31 bytes.
  int broadcast() {
    std::byte* const data = root() ? in() : out();
    return in_parts(
        op_.extent.count * element_, kMostBroadcast, [&](std::size_t done, int n, Request& r) {
          return api_.ibroadcast(data + done, n, api_.byte(), op_.call.root, place_.comm, r);
        });
  }

  /// all_reduce, or a reduce to the root, of parts that an int can count.
  int reduce_chunks() {
    const bool all = op_.call.kind == Kind::all_reduce;
    return reduce_part(0, 0, op_.extent.count, all ? -1 : op_.call.root);
  }

  /// `count` elements from number `from` of the input on, to number `to` of the output of the root
  /// (-1: of all).
  int reduce_part(std::size_t from, std::size_t to, std::size_t count, int to_rank) {
    ReductionTypes types;
    if (const int code = place_.types.reduction(op_.call.op, op_.extent.dtype, types); code != 0)
      return code;
    const bool writes = to_rank < 0 || to_rank == place_.rank;
    return in_parts(count, kMostReduced, [&](std::size_t done, int n, Request& r) {
      const void* source = in() + (from + done) * element_;
      void* const target = writes ? out() + (to + done) * element_ : nullptr;
      if (writes && source == target) source = api_.in_place();
      return to_rank < 0
                 ? api_.iall_reduce(source, target, n, types.type, types.op, place_.comm, r)
                 : api_.ireduce(source, target, n, types.type, types.op, to_rank, place_.comm, r);
    });
  }

  /// In parts, as above. Rank 0 of an exclusive one has no output: MPI says that what it is given
  /// as one is undefined then, so it gets the copy of the input.
  int scan() {
    ReductionTypes types;
    if (const int code = place_.types.reduction(op_.call.op, op_.extent.dtype, types); code != 0)
      return code;
    const bool exclusive = op_.call.kind == Kind::exclusive_scan;
    std::byte* const to = uses_output(op_.call.kind, place_.rank, 0) ? out() : in();
    return in_parts(op_.extent.count, kMostReduced, [&](std::size_t done, int n, Request& r) {
      const void* source = in() + done * element_;
      void* const target = to + done * element_;
      if (source == target) source = api_.in_place();
      return exclusive ? api_.iexscan(source, target, n, types.type, types.op, place_.comm, r)
                       : api_.iscan(source, target, n, types.type, types.op, place_.comm, r);
    });
  }

  int reduce_scatter() {
    const call::Extent& extent = op_.extent;
    if (extent.count > kIntMax) {  // MPI's counts end there: a reduce to each rank
      std::size_t from = 0;
      for (int rank = 0; rank < place_.size; ++rank) {
        const std::size_t n = extent.count_of(extent.in_ends, rank);
        if (const int code = reduce_part(from, 0, n, rank); code != 0) return code;
        from += n;
      }
      return 0;
    }
    ReductionTypes types;
    if (const int code = place_.types.reduction(op_.call.op, extent.dtype, types); code != 0)
      return code;
    if (!extent.uneven()) {
      return with([&](Request& r) {
        return api_.ireduce_scatter(in(), out(), static_cast<int>(extent.each), types.type,
                                    types.op, place_.comm, r);
      });
    }
    for (int rank = 0; rank < place_.size; ++rank)
      op_.arrays.push_back(static_cast<int>(extent.count_of(extent.in_ends, rank)));
    return with([&](Request& r) {
      return api_.ireduce_scatter_v(in(), out(), op_.arrays.data(), types.type, types.op,
                                    place_.comm, r);
    });
  }

  int all_gather() {
    const call::Extent& extent = op_.extent;
    if (extent.uneven()) {
      if (extent.count * element_ > kIntMax) return exchange_blocks();
      append(extent.out_ends);
      const std::byte* source = in();
      if (source == out() + extent.first_of(extent.out_ends, place_.rank))
        source = static_cast<const std::byte*>(api_.in_place());
      return with([&](Request& r) {
        return api_.iall_gather_v(
            source, static_cast<int>(extent.count_of(extent.out_ends, place_.rank) * element_),
            out(), op_.arrays.data(), op_.arrays.data() + place_.size, api_.byte(), place_.comm, r);
      });
    }
    Bytes bytes;
    if (const int code = count_bytes(block_bytes(), bytes); code != 0) return code;
    const void* source = in();
    if (source == out() + own_offset()) source = api_.in_place();
    return with([&](Request& r) {
      return api_.iall_gather(source, out(), bytes.count, bytes.type, place_.comm, r);
    });
  }

  int gather() {
    if (op_.extent.uneven()) return exchange_blocks();  // only the root knows all sizes
    Bytes bytes;
    if (const int code = count_bytes(block_bytes(), bytes); code != 0) return code;
    const void* source = in();
    if (root() && source == out() + own_offset()) source = api_.in_place();
    return with([&](Request& r) {
      return api_.igather(source, root() ? out() : nullptr, bytes.count, bytes.type, op_.call.root,
                          place_.comm, r);
    });
  }

  int scatter() {
    if (op_.extent.uneven()) return exchange_blocks();
    Bytes bytes;
    if (const int code = count_bytes(block_bytes(), bytes); code != 0) return code;
    void* target = out();
    if (root() && target == in() + own_offset()) target = const_cast<void*>(api_.in_place());
    return with([&](Request& r) {
      return api_.iscatter(root() ? in() : nullptr, target, bytes.count, bytes.type, op_.call.root,
                           place_.comm, r);
    });
  }

  int all_to_all() {
    const call::Extent& extent = op_.extent;
    if (!extent.uneven()) {
      Bytes bytes;
      if (const int code = count_bytes(block_bytes(), bytes); code != 0) return code;
      return with([&](Request& r) {
        return api_.iall_to_all(in(), out(), bytes.count, bytes.type, place_.comm, r);
      });
    }
    // The other ranks' totals are not known here, so which way it goes must not depend on them:
    // messages between each two ranks, which take any length.
    return exchange_blocks();
  }

  /// A message to and from each rank; with a root only the root's.
  int exchange_blocks() {
    const call::Extent& extent = op_.extent;
    const KindTraits& traits = traits_of(op_.call.kind);
    const bool one_in = traits.layout == Layout::gather;  // the input is one block
    const bool one_out = traits.layout == Layout::scatter;
    for (int step = 1; step <= place_.size; ++step) {
      const int from = (place_.rank + place_.size - step) % place_.size;
      const int to = (place_.rank + step) % place_.size;
      const bool sends = !traits.rooted || (one_in ? to == op_.call.root : root());
      const bool receives = !traits.rooted || (one_out ? from == op_.call.root : root());
      const std::size_t count = one_in ? extent.count_of(extent.out_ends, place_.rank)
                                       : extent.count_of(extent.in_ends, to);
      const std::byte* source = in();
      if (sends && !one_in) source += extent.first_of(extent.in_ends, to) * element_;
      std::byte* target = out();
      if (receives && !one_out) target += extent.first_of(extent.out_ends, from) * element_;
      if (to == place_.rank) {
        if (sends && receives && count > 0 && source != target)
          std::memcpy(target, source, count * element_);
        continue;
      }
      int code = 0;
      if (receives)
        code = receive_from(from, target,
                            extent.count_of(extent.out_ends, one_out ? place_.rank : from),
                            kBlocksTag, place_.compare);
      if (code == 0 && sends) code = send_to(to, source, count, kBlocksTag, place_.compare);
      if (code != 0) return code;
    }
    return 0;
  }

  int send_to(int to, const std::byte* from, std::size_t count, int tag, Comm comm) {
    Bytes bytes;
    if (const int code = count_bytes(count * element_, bytes); code != 0) return code;
    return with(
        [&](Request& r) { return api_.isend(from, bytes.count, bytes.type, to, tag, comm, r); });
  }
  int receive_from(int from, std::byte* to, std::size_t count, int tag, Comm comm) {
    Bytes bytes;
    if (const int code = count_bytes(count * element_, bytes); code != 0) return code;
    return with(
        [&](Request& r) { return api_.ireceive(to, bytes.count, bytes.type, from, tag, comm, r); });
  }

  int send() {
    return send_to(op_.call.root, in(), op_.extent.count, tag_of(place_, op_.call.tag),
                   place_.comm);
  }

  int receive() {
    if (!op_.found)
      return receive_from(op_.call.root, out(), op_.extent.count, op_.tag, place_.comm);
    Bytes bytes;
    if (const int code = count_bytes(op_.extent.count * element_, bytes); code != 0) return code;
    return with([&](Request& r) {
      return api_.ireceive(out(), bytes.count, bytes.type, op_.found->handle, r);
    });
  }

  /// The counts and displacements of all blocks, in bytes.
  void append(const std::vector<std::size_t>& ends) {
    for (int rank = 0; rank < place_.size; ++rank)
      op_.arrays.push_back(static_cast<int>(op_.extent.count_of(ends, rank) * element_));
    for (int rank = 0; rank < place_.size; ++rank)
      op_.arrays.push_back(static_cast<int>(op_.extent.first_of(ends, rank) * element_));
  }

  const Place& place_;
  Api& api_;
  MpiOperation& op_;
  const std::size_t element_;
};

/// The factors of PREMUL_SUM in a row.
void scale_input(MpiOperation& op, const TensorView& factor) {
  const DType dtype = op.extent.dtype;
  const std::size_t bytes = factor.count() * size_of(dtype);
  const auto row = std::make_unique_for_overwrite<std::byte[]>(bytes);
  kernels::pack(row.get(), factor, 0, factor.count());
  kernels::find_scale(dtype)(op.in.data(), op.in.data(), row.get(), factor.count() != 1,
                             op.extent.count);
}

/// MPI must not read and write the same memory, except by MPI_IN_PLACE. An all_reduce is in place
/// on all ranks, in a copy if need be: Open MPI chooses its algorithm by that, on each rank alone.
bool must_copy_input(const Collective& call, int rank) noexcept {
  if (call.kind == Kind::all_reduce &&
      (call.input.data() != call.output.data() || !call.output.contiguous()))
    return true;
  if (call.kind == Kind::exclusive_scan && rank == 0) return true;
  if (call.op == ReduceOp::premul_sum && traits_of(call.kind).reduces) return true;
  return call.kind == Kind::reduce_scatter && call.input.data() != nullptr &&
         call.output.contiguous() && call.input.contiguous() && call.output.count() > 0 &&
         call.input.data() <= call.output.data() &&
         static_cast<const std::byte*>(call.output.data()) <
             static_cast<const std::byte*>(call.input.data()) + call.input.size_bytes();
}

}  // namespace

void prepare(MpiOperation& op, int rank, int size) {
  op.extent = call::extent_of(op.call, rank, size);
  const Collective& call = op.call;
  if (traits_of(call.kind).layout == Layout::pair) {
    const TensorView& message = call.kind == Kind::recv ? call.output : call.input;
    op.extent.dtype = message.dtype();
    op.extent.count = message.count();
  }
  op.code = call::encode(call, op.extent);
  if (uses_input(call.kind, rank, call.root) && call.kind != Kind::recv)
    op.in.take_input(call, must_copy_input(call, rank));
  if (call.kind == Kind::all_reduce && op.in.is_copy())
    op.out.take_output_in(call, op.in);
  else if (uses_output(call.kind, rank, call.root) && call.kind != Kind::send)
    op.out.take_output(call);
  if (call.op == ReduceOp::premul_sum && traits_of(call.kind).reduces && call.details != nullptr)
    scale_input(op, call.details->factor);
  op.call.details = nullptr;
}

int tag_of(const Place& place, int tag) noexcept {
  if (tag == kLibraryTag) return monitored_barrier_tag(place);
  const int largest = largest_tag_of_callers(place);
  if (tag <= largest) return tag;
  if (place.largest_tag == std::numeric_limits<int>::max() || tag < kFirstPackageTag) return -1;
  return largest + 1 + tag % (largest - 1);
}

int largest_tag_of_callers(const Place& place) noexcept {
  if (place.largest_tag == std::numeric_limits<int>::max()) return place.largest_tag - 1;
  // MPI has fewer tags than we: the upper half of them is for the messages of objects.
  return place.largest_tag / 2 - 1;
}

int start(const Place& place, MpiOperation& op) { return Starter(place, op).start(); }

void finish(MpiOperation& op, int rank, int size) noexcept {
  const KindTraits& traits = traits_of(op.call.kind);
  if (!uses_output(op.call.kind, rank, op.call.root) || op.call.kind == Kind::send) return;
  if (traits.reduces) {
    std::size_t count = op.extent.count;
    if (traits.layout == Layout::scatter) count = op.extent.count_of(op.extent.in_ends, rank);
    const void* const sources[] = {op.out.data()};
    if (op.call.op == ReduceOp::avg)
      kernels::find_average(op.extent.dtype)(
          op.out.data(), sources, 1, count,
          ranks_in_result(op.call.kind, rank, op.call.root, size).count);
    else if (ranks_in_result(op.call.kind, rank, op.call.root, size).count == 1 &&
             op.extent.dtype == DType::bool_)  // MPI copies what is neither 0 nor 1
      kernels::find_reduce(op.call.op, DType::bool_)(op.out.data(), sources, 1, count);
  }
  op.out.finish();
}

}  // namespace tutti::mpi
