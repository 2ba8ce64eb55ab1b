#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tutti/arguments.hpp>
#include <tutti/blocks.hpp>
#include <tutti/buffers.hpp>
#include <tutti/export.hpp>
#include <tutti/options.hpp>
#include <tutti/owning_work.hpp>
#include <tutti/secret_bytes.hpp>
#include <tutti/serialise.hpp>
#include <tutti/shared_array.hpp>
#include <tutti/tensor.hpp>
#include <tutti/user_op.hpp>
#include <tutti/work.hpp>

namespace tutti {
inline namespace TUTTI_EXPORT v0 {

class GroupAccess;
class Guard;
class Message;
class Store;

/// How far a world trusts that its ranks belong to the job.
enum class Trust : std::uint8_t {
  none,     ///< anybody may have joined
  pickles,  ///< the same, and all ranks unpickle what comes (TUTTI_INSECURE=pickle)
  proven,   ///< every rank has proved that it belongs to the job
};

/// A group of ranks that call the same operations in the same order.
///
/// A handle: copies mean the same group. It may have none: see `operator bool`. Ranks are the
/// group's own, 0 .. size()-1.
///
/// Collectives begin in the order of their calls, at most 8 of a group at a time, on native also
/// one after the other where one writes memory that the other uses. They give a Work, whose `wait`
/// returns when this rank's buffers are usable. The destructor of a Work waits, too (see Work), so
/// a call whose Work is dropped blocks.
///
/// Lifetime: the group lives as long as a handle or a Work of it. Its end is local: it does not
///           wait for other ranks, except that the end of the last group of a world may take up to
///           a second. Messages that this rank has sent still arrive.
/// Buffers:  are the caller's, in the memory that the backend takes. Until the Work is done, what
///           is read must not be written to and what is written not be touched; afterwards nobody
///           else touches them, however it ended. Lists of tensors and of counts are read during
///           the call only. Counts and strides are in elements; counts for a range of structs,
///           which move as bytes, are numbers of structs.
/// Threads:  any thread may call; the order of the calls is the order of the operations, so two
///           threads that call without an order of their own disagree with other ranks.
/// Errors:   every operation throws InvalidArgument at the call for what is wrong with the call;
///           then nothing was sent and the group is usable. Everything else comes through the Work
///           (DisagreementError, TimeoutError, NetworkError, BackendError), on every member, and
///           leaves the group broken: see `health`. docs/reference/semantics.md and
///           docs/reference/errors.md have all.
class ProcessGroup {
 public:
  /// Without a group.
  ProcessGroup() noexcept = default;
  /// False for a handle without a group: default-made, moved from, or what `new_group` and `split`
  /// give to a rank that is no member. Its functions throw InvalidArgument.
  explicit operator bool() const noexcept { return static_cast<bool>(impl_); }

  [[nodiscard]] int rank() const;               ///< ours, 0 .. size() - 1
  [[nodiscard]] int size() const;               ///< how many ranks there are
  [[nodiscard]] std::string_view name() const;  ///< as error texts show it
  /// Name of the backend: "native".
  [[nodiscard]] std::string_view backend() const;
  /// Rank of the world for a rank of this group. InvalidArgument if it is out of range.
  [[nodiscard]] int global_rank(int rank) const;
  /// Rank of this group for a rank of the world; absent for a non-member.
  [[nodiscard]] std::optional<int> group_rank(int global_rank) const;
  /// The timeout of operations that give none.
  [[nodiscard]] std::chrono::nanoseconds get_timeout() const;
  /// Sets it for operations that this rank starts from now on; operations that run keep theirs.
  /// Local: ranks may differ. InvalidArgument unless it is positive.
  void set_timeout(std::chrono::nanoseconds timeout);
  /// A part of the store of the rendezvous for the program's own keys. All groups of the world
  /// share it. Null if the rendezvous had no store (ranks as threads, an
  /// exchange). It lives as long as the world, or as a reference to it.
  [[nodiscard]] std::shared_ptr<Store> store() const;
  /// `count` elements of zero in memory that the other ranks of this host can read: there
  /// broadcast, all_gather, gather, scatter and all_to_all read an input of more than 32 KiB where
  /// it lies, and copy it once and not twice. Any other call takes it, too, as any buffer. On other
  /// backends it is ordinary memory, and also beyond 29 GiB on a rank, which is logged at `info`. A
  /// child of a fork shares it with its parent.
  /// Lifetime: may outlive the group; with the array its memory goes back to the system.
  /// Errors:   BackendError (Errc::resource) if there is no memory.
  template <class T>
  [[nodiscard]] SharedArray<T> alloc(std::size_t count) const {
    return SharedArray<T>(allocate(SharedArray<T>::bytes_of(count)), count);
  }
  /// The least trust that a rank of the world has in it; of groups of it, too.
  [[nodiscard]] Trust trust() const;
  /// Every rank has proved that it belongs to the job (docs/reference/security.md). If not, read
  /// nothing from the others that may run code, such as a pickle.
  [[nodiscard]] bool authenticated() const { return trust() == Trust::proven; }
  /// A secret that the ranks of the world, and nobody else, can compute from `text`, for worlds of
  /// some of them (InitOptions::secret). Empty if the group is not authenticated, or if only
  /// MPI's launcher vouches for it.
  [[nodiscard]] SecretBytes derive_secret(std::string_view text) const;

  // Calls that do not compile, because a pointer and a count, a root, an op or a tag stand where
  // MPI has them, or because the elements are no numbers. The error says what to write.
  TUTTI_REFUSE_CALL(Work, all_gather, AllGatherOptions, 2, 0)
  TUTTI_REFUSE_CALL(Work, all_reduce, AllReduceOptions, 2, 0)
  TUTTI_REFUSE_CALL(Work, all_to_all, AllToAllOptions, 2, 0)
  TUTTI_REFUSE_CALL(Work, broadcast, BroadcastOptions, 1, 0)
  TUTTI_REFUSE_CALL(Work, gather, GatherOptions, 2, 0)
  TUTTI_REFUSE_CALL(Work, irecv, RecvOptions, 1, 1)
  TUTTI_REFUSE_CALL(Work, isend, SendOptions, 1, 1)
  TUTTI_REFUSE_CALL(int, recv, RecvOptions, 1, 1)
  TUTTI_REFUSE_CALL(Work, reduce, ReduceOptions, 2, 0)
  TUTTI_REFUSE_CALL(Work, reduce_scatter, ReduceScatterOptions, 2, 0)
  TUTTI_REFUSE_CALL(Work, scan, ScanOptions, 2, 0)
  TUTTI_REFUSE_CALL(Work, scatter, ScatterOptions, 2, 0)
  TUTTI_REFUSE_CALL(void, send, SendOptions, 1, 1)
  TUTTI_REFUSE_OBJECT(void, broadcast_object, true, const BroadcastOptions& = {})
  TUTTI_REFUSE_OBJECT(int, recv_object, true, int, const RecvOptions& = {})
  TUTTI_REFUSE_OBJECT(void, send_object, false, int, const SendOptions& = {})
  TUTTI_REFUSE_OBJECT(void, gather_object, false, const GatherOptions& = {})
  TUTTI_REFUSE_OBJECT(void, all_gather_object, false, const AllGatherOptions& = {})
  TUTTI_REFUSE(OBJECTS, (class T), (detail::advice_on_object<T, false>()),
               void scatter_object(const std::vector<T>& objects, const ScatterOptions& = {}))
  TUTTI_REFUSE_STRUCTS(all_reduce, AllReduceOptions)
  TUTTI_REFUSE_STRUCTS(reduce, ReduceOptions)
  TUTTI_REFUSE_STRUCTS(reduce_scatter, ReduceScatterOptions)
  TUTTI_REFUSE_STRUCTS(scan, ScanOptions)

  /// Combines the buffers of all ranks, element by element, into each of them.
  ///
  /// Shapes:   equal dtype and count on every rank; strides are free.
  /// Order:    collective. Values: sums that round are added as ((0+1)+(2+3))+((4+5)+...), whatever
  ///           the size, the transport and the algorithm, so all ranks hold the same bits.
  /// Lifetime: the buffer must not be touched until the Work is done.
  /// Errors:   from the Work: DisagreementError (buffer unchanged), TimeoutError, NetworkError
  ///           (buffer undefined).
  Work all_reduce(const TensorView& buffer, const AllReduceOptions& options = {});
  /// The same from an input, which stays as it is, into an output.
  ///
  /// Shapes:   equal dtype and count. The output may be the input; where they overlap otherwise the
  ///           input is copied first (on GPUs: InvalidArgument). So for reduce and scan.
  Work all_reduce(const TensorView& output, const detail::Input& input,
                  const AllReduceOptions& options = {});

  /// The same on a vector that the Work owns meanwhile, and gives back:
  /// `auto sum = world.all_reduce(std::move(values)).wait()`. If the call throws, the vector is
  /// still the caller's.
  template <detail::OwnedNumbers V>
  [[nodiscard]] OwningWork<V> all_reduce(V&& buffer, const AllReduceOptions& options = {}) {
    Work work = all_reduce(TensorView(buffer), options);
    return {std::forward<V>(buffer), std::move(work)};
  }
  /// The same by an op of the caller's.
  template <detail::OwnedVector V>
  [[nodiscard]] OwningWork<V> all_reduce(V&& buffer, const UserOp& op,
                                         const UserOpOptions& options = {}) {
    Work work = all_reduce(TensorView(buffer), op, options);
    return {std::forward<V>(buffer), std::move(work)};
  }
  /// broadcast of a vector that the Work owns.
  template <detail::OwnedVector V>
  [[nodiscard]] OwningWork<V> broadcast(V&& buffer, const BroadcastOptions& options = {}) {
    Work work = broadcast(TensorView(buffer), options);
    return {std::forward<V>(buffer), std::move(work)};
  }
  /// reduce of a vector that the Work owns; other ranks than the root get back what they gave.
  template <detail::OwnedNumbers V>
  [[nodiscard]] OwningWork<V> reduce(V&& buffer, const ReduceOptions& options = {}) {
    Work work = reduce(TensorView(buffer), options);
    return {std::forward<V>(buffer), std::move(work)};
  }
  /// The same by an op of the caller's.
  template <detail::OwnedVector V>
  [[nodiscard]] OwningWork<V> reduce(V&& buffer, const UserOp& op,
                                     const UserReduceOptions& options = {}) {
    Work work = reduce(TensorView(buffer), op, options);
    return {std::forward<V>(buffer), std::move(work)};
  }
  /// scan of a vector that the Work owns.
  template <detail::OwnedNumbers V>
  [[nodiscard]] OwningWork<V> scan(V&& buffer, const ScanOptions& options = {}) {
    Work work = scan(TensorView(buffer), options);
    return {std::forward<V>(buffer), std::move(work)};
  }
  /// The same by an op of the caller's.
  template <detail::OwnedVector V>
  [[nodiscard]] OwningWork<V> scan(V&& buffer, const UserOp& op,
                                   const UserScanOptions& options = {}) {
    Work work = scan(TensorView(buffer), op, options);
    return {std::forward<V>(buffer), std::move(work)};
  }

  /// Copies the root's buffer to every other rank's.
  ///
  /// Shapes:   equal dtype and count on every rank; strides are free.
  /// Order:    collective; the root may return before others have arrived.
  /// Errors:   as all_reduce; a DisagreementError leaves the buffer unchanged on ranks that differ
  ///           from the root, others may hear of it in their next call.
  Work broadcast(const TensorView& buffer, const BroadcastOptions& options = {});

  /// Combines the buffers of all ranks into the root's; the others' stay as they are.
  ///
  /// Shapes, order, values and errors: as all_reduce. A rank that is not the root may return before
  ///           others have arrived.
  Work reduce(const TensorView& buffer, const ReduceOptions& options = {});
  /// The same from an input into the root's output. The others' output is not looked at: an empty
  /// vector will do.
  Work reduce(const TensorView& output, const detail::Input& input,
              const ReduceOptions& options = {});

  /// Combines on rank r the buffers of the ranks 0 to r; with `exclusive`, of the ranks 0 to r - 1:
  /// then rank 0's buffer stays as it is. AVG divides by the number of ranks that are combined.
  ///
  /// Shapes, order, values and errors: as all_reduce of the ranks that are combined, which gives
  ///           the same bits. A rank may return before higher ranks have arrived.
  Work scan(const TensorView& buffer, const ScanOptions& options = {});
  /// The same from an input into an output. With `exclusive`, rank 0's output stays as it is.
  Work scan(const TensorView& output, const detail::Input& input, const ScanOptions& options = {});

  /// Puts the inputs of all ranks, in the order of the ranks, into everybody's output.
  ///
  /// Shapes:   equal dtype; equal count on every rank, or what `output_counts` says; the output has
  ///           as many elements as all inputs together. The input may be this rank's block of the
  ///           output; where it overlaps otherwise it is copied first.
  /// Order:    collective.
  Work all_gather(const TensorView& output, const ConstTensorView& input,
                  const AllGatherOptions& options = {});
  /// The same into a list of tensors, one for each rank, of any sizes (the same on every rank). The
  /// list itself is read during the call only.
  Work all_gather(std::span<const TensorView> outputs, const ConstTensorView& input,
                  const AllGatherOptions& options = {});

  /// Puts the inputs of all ranks, in the order of the ranks, into the root's output. The others'
  /// output is not looked at.
  ///
  /// Shapes:   equal dtype and count on every rank, or what `output_counts` says; the root's output
  ///           has as many elements as all inputs together, for the others' an empty vector will
  ///           do. On the root the input may be its own block of the output.
  /// Order:    collective; ranks other than the root may return before others have arrived.
  Work gather(const TensorView& output, const ConstTensorView& input,
              const GatherOptions& options = {});
  /// The same into a list of tensors, one for each rank; empty but on the root.
  Work gather(std::span<const TensorView> outputs, const ConstTensorView& input,
              const GatherOptions& options = {});

  /// Hands out the root's input: block r goes to rank r's output. The others' input is not looked
  /// at.
  ///
  /// Shapes:   equal dtype and count of the outputs, or what `input_counts` says; the root's input
  ///           has as many elements as all outputs together, for the others' an empty vector will
  ///           do.
  /// Order:    collective; the root may return before others have arrived.
  Work scatter(const TensorView& output, const ConstTensorView& input,
               const ScatterOptions& options = {});
  /// The same from a list of tensors, one for each rank; empty but on the root.
  Work scatter(const TensorView& output, std::span<const TensorView> inputs,
               const ScatterOptions& options = {});

  /// Combines the inputs of all ranks, element by element, and gives block r of the result to
  /// rank r.
  ///
  /// Shapes:   equal dtype and count of the inputs: size() blocks of the output's count, or of what
  ///           `input_counts` says. The output may be this rank's block of the input.
  /// Order:    collective. Values: as all_reduce.
  Work reduce_scatter(const TensorView& output, const ConstTensorView& input,
                      const ReduceScatterOptions& options = {});
  /// The same from a list of tensors, one for each rank, of any sizes (the same on every rank).
  Work reduce_scatter(const TensorView& output, std::span<const TensorView> inputs,
                      const ReduceScatterOptions& options = {});

  /// all_reduce by an op of the caller's.
  ///
  /// Shapes:   as all_reduce, of any dtype, or a range of trivially copyable structs; on the CPU.
  /// Order:    collective. Values: (((0 op 1) op 2) op 3)..., in the order of the ranks: all ranks
  ///           hold the same bits.
  /// Memory:   takes that of the inputs of all ranks until it is done, as an all_gather. For large
  ///           buffers on many ranks a reduce_scatter and an all_gather take and move less.
  /// Threads:  see UserOp: without an executor the function runs when the Work is waited for or
  ///           looked at, which then takes its time, whatever the limit.
  /// Errors:   as all_reduce, DisagreementError too where the names of the ops differ; `wait`
  ///           throws what the function throws. Until the function runs, the buffer is as it was.
  Work all_reduce(const TensorView& buffer, const UserOp& op, const UserOpOptions& options = {});
  /// The same from an input, which stays as it is, into an output; they may overlap.
  Work all_reduce(const TensorView& output, const ConstTensorView& input, const UserOp& op,
                  const UserOpOptions& options = {});
  /// reduce by an op of the caller's, which runs on the root. As all_reduce by one. The root takes
  /// memory for the inputs of all ranks meanwhile.
  Work reduce(const TensorView& buffer, const UserOp& op, const UserReduceOptions& options = {});
  /// The same from an input into the root's output. The others' output is not looked at.
  Work reduce(const TensorView& output, const ConstTensorView& input, const UserOp& op,
              const UserReduceOptions& options = {});
  /// scan by an op of the caller's: rank r gets (((0 op 1) op 2)...) op r; with `exclusive`, up to
  /// r - 1. As all_reduce by one, memory for the inputs of all ranks too.
  Work scan(const TensorView& buffer, const UserOp& op, const UserScanOptions& options = {});
  /// The same from an input into an output.
  Work scan(const TensorView& output, const ConstTensorView& input, const UserOp& op,
            const UserScanOptions& options = {});
  /// reduce_scatter by an op of the caller's. As all_reduce by one, but it takes only as much
  /// memory as its input; the blocks are of one size.
  Work reduce_scatter(const TensorView& output, const ConstTensorView& input, const UserOp& op,
                      const UserOpOptions& options = {});
  /// The same from a list of tensors, one for each rank.
  Work reduce_scatter(const TensorView& output, std::span<const TensorView> inputs,
                      const UserOp& op, const UserOpOptions& options = {});

  /// Sends block r of the input to rank r, and gets the block from rank r as block r of the output.
  ///
  /// Shapes:   equal dtype; blocks of count / size() elements on every rank, or the splits. Where
  ///           input and output overlap, in place too, the input is copied first.
  /// Order:    collective.
  /// Errors:   also DisagreementError where a rank sends another than that one expects.
  Work all_to_all(const TensorView& output, const ConstTensorView& input,
                  const AllToAllOptions& options = {});
  /// The same with lists of tensors of any sizes, one for each rank.
  Work all_to_all(std::span<const TensorView> outputs, std::span<const TensorView> inputs,
                  const AllToAllOptions& options = {});

  /// gather of blocks whose sizes the root learns: `world.gather_v(mine).wait()` gives their
  /// values, counts and displacements on the root, and empty Blocks on other ranks.
  ///
  /// Shapes:   equal dtype (size of a struct) on every rank; any counts, zero too.
  /// Order:    collective, and two operations: the counts, then the blocks. The call returns when
  ///           this rank has the counts: on the root when all ranks have called, elsewhere at once.
  /// Errors:   as gather; those of the counts are thrown by the call. Options must have no counts.
  ///           If there is no memory for the result, the group is aborted: other ranks have begun.
  template <detail::Readable In>
  [[nodiscard]] OwningWork<detail::blocks_of<In>> gather_v(In&& input,
                                                           const GatherOptions& options = {}) {
    detail::blocks_of<In> blocks;
    Work work = gather_v(ConstTensorView(input), detail::maker_of(blocks), options);
    return {std::move(blocks), std::move(work)};
  }
  /// The same into memory that `make` makes, on the root only.
  Work gather_v(const ConstTensorView& input, const MakeBlocks& make,
                const GatherOptions& options = {});
  /// all_gather of blocks whose sizes every rank learns. As gather_v, but every rank gets the
  /// blocks, so the call returns when all ranks have called.
  template <detail::Readable In>
  [[nodiscard]] OwningWork<detail::blocks_of<In>> all_gather_v(
      In&& input, const AllGatherOptions& options = {}) {
    detail::blocks_of<In> blocks;
    Work work = all_gather_v(ConstTensorView(input), detail::maker_of(blocks), options);
    return {std::move(blocks), std::move(work)};
  }
  /// The same into memory that `make` makes.
  Work all_gather_v(const ConstTensorView& input, const MakeBlocks& make,
                    const AllGatherOptions& options = {});
  /// all_to_all of blocks whose sizes the receivers learn: sends the first `send_counts[0]`
  /// elements to rank 0, the next `send_counts[1]` to rank 1, ... As all_gather_v.
  template <detail::Readable In>
  [[nodiscard]] OwningWork<detail::blocks_of<In>> all_to_all_v(
      In&& input, std::span<const std::size_t> send_counts, const AllToAllOptions& options = {}) {
    detail::blocks_of<In> blocks;
    Work work =
        all_to_all_v(ConstTensorView(input), send_counts, detail::maker_of(blocks), options);
    return {std::move(blocks), std::move(work)};
  }
  /// The same into memory that `make` makes.
  Work all_to_all_v(const ConstTensorView& input, std::span<const std::size_t> send_counts,
                    const MakeBlocks& make, const AllToAllOptions& options = {});

  /// all_reduce of several tensors of one dtype in one operation: many small ones in the time of
  /// one. The same number, of the same sizes, on every rank.
  ///
  /// Results:  those of a call for each tensor (docs/reference/several-tensors.md).
  /// Shapes:   one dtype; the same number of tensors, of the same counts, on every rank; strides
  ///           are free. If two overlap, the later one stays (on GPUs: InvalidArgument). `factors`:
  ///           one for each element of all tensors in a row.
  /// Lifetime: as all_reduce; the list itself is read during the call only. So for all of them.
  Work all_reduce_coalesced(std::span<const TensorView> buffers,
                            const AllReduceOptions& options = {});
  /// The same of a list in braces.
  Work all_reduce_coalesced(std::initializer_list<TensorView> buffers,
                            const AllReduceOptions& options = {}) {
    return all_reduce_coalesced(std::span<const TensorView>(buffers.begin(), buffers.size()),
                                options);
  }
  /// The same of a range of buffers, such as std::vector<std::vector<float>>.
  template <detail::BufferList R>
  Work all_reduce_coalesced(R&& buffers, const AllReduceOptions& options = {}) {
    return all_reduce_coalesced(detail::views_of(buffers), options);
  }
  /// broadcast of several tensors in one operation.
  ///
  /// Shapes:   as all_reduce_coalesced.
  Work broadcast_coalesced(std::span<const TensorView> buffers,
                           const BroadcastOptions& options = {});
  /// The same of a list in braces.
  Work broadcast_coalesced(std::initializer_list<TensorView> buffers,
                           const BroadcastOptions& options = {}) {
    return broadcast_coalesced(std::span<const TensorView>(buffers.begin(), buffers.size()),
                               options);
  }
  /// The same of a range of buffers.
  template <detail::BufferList R>
  Work broadcast_coalesced(R&& buffers, const BroadcastOptions& options = {}) {
    return broadcast_coalesced(detail::views_of(buffers), options);
  }
  /// all_gather of several tensors in one operation: outputs[t] has size() times the elements of
  /// inputs[t]. Or outputs[r * n + t] is where inputs[t] of rank r goes, with n inputs.
  ///
  /// Shapes:   as all_reduce_coalesced; blocks must be alike on all ranks.
  Work all_gather_coalesced(std::span<const TensorView> outputs, std::span<const TensorView> inputs,
                            const AllGatherOptions& options = {});
  /// reduce_scatter of several tensors in one operation: inputs[t] has size() times the elements of
  /// outputs[t].
  ///
  /// Shapes:   as all_reduce_coalesced; blocks must be alike on all ranks.
  Work reduce_scatter_coalesced(std::span<const TensorView> outputs,
                                std::span<const TensorView> inputs,
                                const ReduceScatterOptions& options = {});

  /// all_reduce of a list of tensors on each rank, which may be on several GPUs of it: all tensors
  /// of all ranks are combined into each of them.
  ///
  /// Shapes:   lists of one length on every rank, and tensors of one dtype and count; strides are
  ///           free. All are on GPUs, or all on the CPU. all_reduce and reduce: at most 64.
  /// Order:    collective. Values: a rank's tensors are combined first, then those of the ranks,
  ///           both as all_reduce does; AVG divides by the ranks, then by the length of the list.
  /// Memory:   until it is done, new memory for one tensor, and for each tensor that has strides,
  ///           is on another GPU than the first or is not aligned to 16 bytes. all_gather: for the
  ///           list and for one row of outputs. Reductions without GPU kernels: host memory for the
  ///           whole list.
  /// Streams:  begins after the earlier work of the streams (MultigpuOptions). `wait` returns when
  ///           the results are on the GPUs.
  /// Errors:   as all_reduce; a DisagreementError also where lists have different lengths. At the
  ///           call: BackendError where a stream is being captured into a CUDA graph, and where
  ///           CUDA fails, which breaks the group. Where CUDA fails at the copies to the list, the
  ///           Work of this rank alone.
  Work all_reduce_multigpu(std::span<const TensorView> tensors,
                           const MultigpuOptions& options = {});
  /// broadcast to lists: copies the root's tensor of number `root_tensor` to all other tensors of
  /// all ranks. Otherwise as all_reduce_multigpu.
  Work broadcast_multigpu(std::span<const TensorView> tensors, const MultigpuOptions& options = {});
  /// reduce of lists: as all_reduce_multigpu, but the result is in the root's tensor of number
  /// `root_tensor` only; all others stay as they are.
  Work reduce_multigpu(std::span<const TensorView> tensors, const MultigpuOptions& options = {});
  /// all_gather of lists: tensor j of rank r goes to outputs[i * size() * n + r * n + j] for each i
  /// below n, the length of the lists: n rows, each with the tensors of all ranks. Otherwise as
  /// all_reduce_multigpu.
  Work all_gather_multigpu(std::span<const TensorView> outputs, std::span<const TensorView> inputs,
                           const MultigpuOptions& options = {});

  /// Sends a buffer to one rank, which may be this one. Returns when the buffer may be used again.
  /// A send to `no_rank` sends nothing, and a recv from `no_rank` receives nothing: both succeed at
  /// once, so a rank at a border needs no code of its own.
  ///
  /// Shapes:   dtype and count as those of its recv; strides are free.
  /// Order:    not collective; no order with collectives. Messages to one rank with one tag are
  ///           received in the order in which they were sent. A send of up to 64 KiB need not wait
  ///           for its recv, as long as all such messages from this process to that one take up to
  ///           64 KiB together (docs/reference/semantics.md). A send beyond that may wait for its
  ///           recv.
  /// Errors:   TimeoutError, NetworkError, BackendError; the group is then broken.
  void send(const ConstTensorView& buffer, int dst, const SendOptions& options = {});
  /// Also of a temporary: `send(std::to_string(3), 1)`.
  template <detail::ReadableTemporary R>
  void send(R&& buffer, int dst, const SendOptions& options = {}) {
    send(ConstTensorView(buffer), dst, options);
  }
  /// Receives a buffer from one rank, or with `any_source` the message that has come first; with
  /// `any_tag` whatever its tag is. Returns the rank of this group that sent it.
  ///
  /// Errors:   DisagreementError (the message has another dtype or count; buffer unchanged) and as
  ///           `send` (buffer undefined).
  int recv(const TensorView& buffer, int src, const RecvOptions& options = {});
  /// As `send`, without waiting. Thousands may be outstanding.
  ///
  /// Lifetime: the buffer must not be written to until the Work is done.
  Work isend(const ConstTensorView& buffer, int dst, const SendOptions& options = {});
  /// As `recv`, without waiting; Work::source_rank is the rank that sent, Work::tag the tag, and
  /// Work::cancel takes it back while no message has matched.
  ///
  /// Lifetime: the buffer must not be touched until the Work is done.
  Work irecv(const TensorView& buffer, int src, const RecvOptions& options = {});
  /// Receives one buffer and sends another, both at once, as MPI_Sendrecv: ranks that all call it
  /// do not block each other, however large the messages are. Returns the rank that sent.
  ///
  /// Errors:   as `recv` and `send`; InvalidArgument if the buffers share memory, as far as both
  ///           are contiguous: the elements of buffers with strides are not compared.
  int sendrecv(const TensorView& output, int src, const ConstTensorView& input, int dst,
               const SendRecvOptions& options = {});
  /// Waits for a message from one rank, or with `any_source` for the first from anybody, and takes
  /// it without its bytes: the Message (tutti/message.hpp) tells sender, dtype and count, and
  /// receives it. For messages whose size the receiver does not know. A matched probe, as
  /// MPI_Mprobe: safe with threads, because no other recv or probe gets this message.
  ///
  /// Order:    that of the recvs: of recvs and probes that wait, the one called first gets the
  ///           message.
  /// Errors:   as `recv`, also when the timeout has passed. InvalidArgument with `no_rank`, and on
  ///           the backend 'nccl', which has no probe.
  [[nodiscard]] Message probe(int source, const ProbeOptions& options = {});
  /// The same without waiting: absent if no such message has come. A loop of it makes progress. It
  /// takes the arguments of `probe`, whose timeout has no meaning here.
  [[nodiscard]] std::optional<Message> try_probe(int source, const ProbeOptions& options = {});
  /// Starts all of them in the order of the list, and returns a Work for each. Ranks may list them
  /// in different orders. InvalidArgument if one of them is wrong: then none is started.
  [[nodiscard]] std::vector<Work> batch_isend_irecv(std::span<const P2POp> operations,
                                                    const BatchOptions& options = {});

  // Operations on objects, whose size and content the receivers learn: a std::string, a std::vector
  // of elements that move as bytes, such an element alone, and every type with a tutti::serialise.
  // They block. <tutti/objects.hpp> has their definitions, and the hook.
  //
  // Shapes:   one type on every rank; any sizes. Up to 488 bytes travel with the size, so that a
  //           small object is one operation.
  // Order:    as the operation of that name.
  // Errors:   as it, but thrown by the call. InvalidArgument, which names the sender, where its
  //           bytes are no such object, or where it could not make bytes of its own; that rank gets
  //           the hook's exception. The receiver's object is then as it was, and the group stays
  //           usable. If there is no memory for what comes, a collective aborts the group; the
  //           message of a recv_object stays.

  /// Copies the root's object into every other rank's.
  template <detail::Object T>
  void broadcast_object(T& object, const BroadcastOptions& options = {});
  /// Gives the objects of all ranks, in their order, to the root; the others get an empty vector.
  template <detail::Object T>
  [[nodiscard]] std::vector<T> gather_object(const T& object, const GatherOptions& options = {});
  /// Gives the objects of all ranks, in their order, to every rank.
  template <detail::Object T>
  [[nodiscard]] std::vector<T> all_gather_object(const T& object,
                                                 const AllGatherOptions& options = {});
  /// Gives each rank its object of the root's list, which has one for each rank. The others' list
  /// is not looked at: `world.scatter_object<Plan>({})`.
  template <detail::Object T>
  [[nodiscard]] T scatter_object(const std::vector<T>& objects, const ScatterOptions& options = {});
  /// Sends an object to one rank, as one message. A recv of bytes with this tag would get it, too.
  template <detail::Object T>
  void send_object(const T& object, int dst, const SendOptions& options = {});
  /// Receives an object, and returns the rank of this group that sent it. Needs `probe`. A message
  /// that is not of bytes stays where it is, for another recv; on mpi, which does not tell dtypes,
  /// only one of less than 24 bytes does, and another one is lost.
  template <detail::Object T>
  int recv_object(T& object, int src, const RecvOptions& options = {});

  /// Done when every rank has called it.
  ///
  /// Order:    collective; errors come from the Work.
  Work barrier(const BarrierOptions& options = {});

  /// A barrier that names the ranks that have not come: rank 0 waits for a sign of each other rank,
  /// and gives them leave when all have come. Blocks. For finding out where a program hangs: it
  /// costs more than `barrier`, and all goes through rank 0.
  ///
  /// Order:    among the monitored barriers of the group only: it is not compared with the other
  ///           operations, so that a rank that is somewhere else is named.
  /// Errors:   TimeoutError on rank 0 when the timeout has passed since it called: it names the
  ///           ranks that have not come, culprit() is the first of them. The group is then broken,
  ///           so the others get the same error at once, those that have not come in their next
  ///           call. Ranks other than 0 wait for rank 0 twice the timeout and a second.
  ///           NetworkError where a rank died or left. All texts begin with torch's fixed words.
  void monitored_barrier(const MonitoredBarrierOptions& options = {});

  /// Makes a group of some of our ranks. Collective over this group: every rank calls it with the
  /// same list, in the new group's order (the first is its rank 0); blocks until all have, at most
  /// for this group's timeout. Ranks that are not in the list get a handle without a group. It
  /// costs no connection and no thread; a rank can have 4,096 groups at a time.
  ///
  /// Errors:   InvalidArgument for a list that is empty, names a rank twice or one that there is
  ///           not. DisagreementError on all ranks where lists differ, TimeoutError, NetworkError:
  ///           this group is then broken.
  [[nodiscard]] ProcessGroup new_group(std::span<const int> ranks,
                                       const NewGroupOptions& options = {});
  [[nodiscard]] ProcessGroup new_group(std::initializer_list<int> ranks,
                                       const NewGroupOptions& options = {}) {
    return new_group(std::span<const int>(ranks.begin(), ranks.size()), options);
  }

  /// Divides this group: ranks of one colour (any number) make a group, ordered by key, then by
  /// rank. Collective over this group; blocks. A rank without a colour gets a handle without a
  /// group. Errors: those of `new_group`.
  [[nodiscard]] ProcessGroup split(std::optional<int> color, int key = 0,
                                   const NewGroupOptions& options = {});

  /// Divides this group into groups of `group_size` ranks that follow each other; gives the one
  /// that this rank is in. Collective over this group; blocks. InvalidArgument where size() is no
  /// multiple of group_size, else the errors of `new_group`.
  [[nodiscard]] ProcessGroup new_subgroups(int group_size, const NewGroupOptions& options = {});

  /// Breaks the group here and on every other member: all running and later operations fail with a
  /// BackendError (`aborted`) that tells the reason and this rank. Never blocks; does nothing where
  /// the group is broken already, which keeps its first cause.
  void abort(std::string_view reason);
  /// While the guard lives, an exception that leaves the scope breaks the group, so that the others
  /// do not wait for this rank: `const auto guard = world.guard();`. A Work that was not waited for
  /// does the same by itself.
  [[nodiscard]] Guard guard() const;
  /// Ok, or what broke the group, here or on another rank. Never blocks.
  [[nodiscard]] Outcome health() const;

 private:
  friend class GroupAccess;
  struct Impl;
  [[nodiscard]] std::shared_ptr<std::byte> allocate(std::size_t bytes) const;
  explicit ProcessGroup(std::shared_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}

  /// The shared part of the handles of a group. Using it where there is none throws.
  class Shared {
   public:
    Shared() noexcept = default;
    explicit Shared(std::shared_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
    explicit operator bool() const noexcept { return impl_ != nullptr; }
    Impl* operator->() const {
      if (impl_ == nullptr) refuse();
      return impl_.get();
    }

   private:
    [[noreturn]] static void refuse();
    std::shared_ptr<Impl> impl_;
  };
  Shared impl_;
};

/// Breaks its group if it is destroyed by an exception: see ProcessGroup::guard. `culprit()` of the
/// error that the other ranks get is this rank.
class [[nodiscard]] Guard {
 public:
  /// InvalidArgument where the handle has no group.
  explicit Guard(ProcessGroup group);
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;
  ~Guard();

 private:
  ProcessGroup group_;
  int exceptions_;  ///< in flight when it was made
};

inline Guard ProcessGroup::guard() const { return Guard(*this); }

/// Waits for all of them; throws the first error (in the order of the list) after the last one is
/// done. The Works may be of different groups.
void wait_all(std::span<Work> works);
inline void wait_all(std::vector<Work>&& works) { wait_all(std::span<Work>(works)); }

/// Waits until one of them is done, as MPI_Waitany, and gives its place in the list. That one was
/// waited for, so a later call skips it, as it skips those whose failure was told, empty Works and
/// those with no_rank. Absent: none is left, or `limit` has passed.
/// `while (auto i = tutti::wait_any(works)) use(*i);`
///
/// The Works may be of different groups. If not all are of groups of one world on `native`, or some
/// are by a UserOp or on a GPU, it looks at them every millisecond at least.
/// Errors:   those of Work::wait of the one that is done.
std::optional<std::size_t> wait_any(std::span<Work> works,
                                    std::optional<std::chrono::nanoseconds> limit = {});
/// As wait_any, but gives the places of all that are done, in the order of the list; empty: none is
/// left, or `limit` has passed. If some have failed it throws the first error, and the others can
/// still be waited for.
std::vector<std::size_t> wait_some(std::span<Work> works,
                                   std::optional<std::chrono::nanoseconds> limit = {});

}  // namespace v0
}  // namespace tutti
