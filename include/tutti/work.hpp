#pragma once

#include <bit>
#include <chrono>
#include <concepts>
#include <coroutine>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include <tutti/error.hpp>
#include <tutti/export.hpp>

namespace tutti {
inline namespace TUTTI_EXPORT v0 {

class Operations;
struct Pending;

/// Called once when an operation is done, on the progress thread; with the last handle or Work of a
/// world it may be called on the thread that drops that one (see Work::on_done). New operations may
/// be called inside, and other ones waited for. Must not throw.
struct Callback {
  void (*function)(void* context, const Outcome& status) noexcept = nullptr;
  void* context = nullptr;
};

/// The message that a recv got; -1: there is none yet, or the operation is no recv.
struct Received {
  int source = -1;  ///< the rank of the group that sent it; no_rank: that was the peer of the call
  int tag = -1;
};

/// The caller's end of one operation.
///
/// Lifetime: the buffers of the operation must stay valid until it is done: declare them before the
///           Work, because what is declared last is destroyed first. Destroying a Work waits
///           as `wait` does, bounded by its deadline: buffers of a GPU stay in use in the order of
///           the caller's stream. It does not wait if it is empty, detached, in a forked child, or
///           if its success was told. While an exception unwinds it aborts the group instead,
///           even if the operation has ended, because a rank that skips the rest of its calls is
///           out of step with the others. A destructor that has waited for a second logs what it
///           waits for (not for tensors of a GPU). A Work that is the last of its world leaves it,
///           which may take a second.
/// Threads:  one thread at a time per Work; different Works from different threads.
/// Errors:   a failure of the world stays in the Work and in its group: `wait` throws it, `error`
///           tells it.
/// Empty:    a Work that was default-made, moved from, detached or cancelled has no operation: it
///           is done (`done` and `wait_for` are true), without an error, and `wait` and `on_done`
///           throw InvalidArgument. After a success that was waited for, only `on_done` does.
class [[nodiscard]] Work {
 public:
  Work() noexcept = default;
  /// For bindings: the Work of an operation that Backend::submit has started. Holds a reference to
  /// its group. `on_gpu`: the tensors are in GPU memory, so the operation may run on after `wait`.
  explicit Work(Pending pending, bool on_gpu = false) noexcept;
  Work(Work&& other) noexcept
      : operations_(std::exchange(other.operations_, nullptr)),
        ticket_(std::exchange(other.ticket_, kNothing)),
        exceptions_(other.exceptions_),
        forks_(other.forks_),
        told_(other.told_),
        succeeded_(std::exchange(other.succeeded_, false)),
        on_gpu_(other.on_gpu_) {}
  Work& operator=(Work&& other) noexcept;
  ~Work() {
    if (operations_ != nullptr) (void)finish();
  }

  /// Returns when the local buffers are usable. Buffers of a GPU are usable in the order of the
  /// caller's stream (see StreamGuard): `wait` may return before the GPU has finished. Then `done`
  /// is false until it has, and `synchronize` and `wait_for` wait for it. Throws DisagreementError,
  /// TimeoutError, NetworkError or BackendError. Repeating it gives the same result.
  void wait();
  /// As `wait`, but returns only when an operation on a GPU has finished. `wait` need only order it
  /// before later work of the caller's stream.
  void synchronize();
  /// Waits at most `limit`: true when done (well or badly), false when not yet. Cancels nothing.
  [[nodiscard]] bool wait_for(std::chrono::nanoseconds limit);
  /// Done, well or badly? Does not wait for the operation.
  [[nodiscard]] bool done() const;
  /// The outcome of an operation that is done; nothing: not yet. Does not wait for the operation. A
  /// success counts as told, as after `wait_for`; a failure is not thrown. Ok for an empty Work.
  [[nodiscard]] std::optional<Outcome> try_wait();
  /// The failure, or ok (also while not done). Does not wait for the operation.
  [[nodiscard]] Outcome error() const;
  /// For a recv that is done: the rank of the group that sent. For a send or recv with no_rank:
  /// no_rank. Otherwise -1. Does not wait for the operation.
  [[nodiscard]] int source_rank() const noexcept { return received().source; }
  /// The same for the tag of the message; for a send or recv with no_rank: any_tag.
  [[nodiscard]] int tag() const noexcept { return received().tag; }
  /// Calls back once when done, on the progress thread (or at once, in a forked child). Keep a
  /// handle or a Work of the group until then: who drops the last one ends what still runs of the
  /// group, its callbacks get `aborted`, and with the last one of the whole world they are called
  /// on the thread that drops it. After a success that was waited for: InvalidArgument, as for an
  /// empty Work. For a send or recv with no_rank it is called at once.
  void on_done(const Callback& callback);
  /// The same for a function, lambda or other object that takes the Outcome. It must not throw.
  template <std::invocable<const Outcome&> Function>
  void on_done(Function function) {
    auto kept = std::make_unique<Function>(std::move(function));
    on_done(Callback{[](void* context, const Outcome& outcome) noexcept {
                       const std::unique_ptr<Function> its(static_cast<Function*>(context));
                       (*its)(outcome);
                     },
                     kept.get()});
    (void)kept.release();  // the call has it
  }
  /// Cancels an irecv that no message has matched, as MPI_Cancel: true, and the buffer is the
  /// caller's again. The Work is then empty, as after `detach`; callbacks get `aborted`. False: a
  /// message has matched, even if its bytes are still on their way, or it is no irecv that runs;
  /// then nothing changes. Never blocks.
  ///
  /// Errors:   InvalidArgument where the backend cannot (nccl), and for tensors of a GPU.
  bool cancel();
  /// Lets go of the operation, which goes on: the destructor will not wait. The buffers must then
  /// outlive the operation by other means (Python and torch keep them alive).
  void detach() noexcept;
  /// False for an empty Work.
  [[nodiscard]] bool valid() const noexcept { return operations_ != nullptr || succeeded_; }

  /// `co_await work`: resumes on the progress thread when done, then behaves as `wait`. To go on
  /// elsewhere: resume_on (tutti/executor.hpp).
  [[nodiscard]] bool await_ready() const { return done(); }
  void await_suspend(std::coroutine_handle<> handle);
  void await_resume() { wait(); }

 private:
  friend class Message;  // keeps the ticket of its probe
  friend class AnyOf;    // waits for the first of several
  friend class ProcessGroup;
  template <class Result>
  friend class OwningWork;
  /// The Work of a send or recv with no_rank.
  [[nodiscard]] static Work with_nobody() noexcept;
  static constexpr auto kNothing = std::bit_cast<std::uint64_t>(Received());
  [[nodiscard]] Received received() const noexcept;
  [[nodiscard]] bool forked() const noexcept;
  [[nodiscard]] Operations& operations() const noexcept;
  /// Ends it as the destructor does. True: it failed, and the backend may still use the buffers.
  bool finish() noexcept;
  void leave() noexcept;
  void drop() noexcept;
  void wait_until(std::optional<std::chrono::nanoseconds> limit);

  /// A reference of its group is held. Dropped by the first wait that knows that the operation has
  /// ended well: on a GPU that is one with a limit.
  Operations* operations_ = nullptr;
  std::uint64_t ticket_ = kNothing;  ///< once the group was let go: its Received
  int exceptions_ = 0;               ///< exceptions in flight when the operation was called
  std::uint32_t forks_ = 0;          ///< the process that called it, by its forks
  mutable bool told_ = false;        ///< its failure was thrown or asked for, so it is not logged
  bool succeeded_ = false;           ///< a wait has told the success; on a GPU it may still run
  bool on_gpu_ = false;
};

}  // namespace v0
}  // namespace tutti
