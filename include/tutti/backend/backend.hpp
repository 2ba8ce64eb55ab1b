#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <tutti/backend/collective.hpp>
#include <tutti/backend/operations.hpp>
#include <tutti/error.hpp>
#include <tutti/export.hpp>

namespace tutti {
inline namespace TUTTI_EXPORT v0 {

/// The abilities of a backend that `Backend::unsupported` does not tell.
struct Capabilities {
  bool probe = false;  ///< Kind::probe, Operations::probed, and recvs with Details::probed
  /// The communicator of the library below, as its C interface has it (MPI_Comm); absent: none.
  std::optional<std::uintptr_t> communicator = {};
};

/// One group, on this rank.
///
/// Only `run` has a default: a backend around another one (a router, a test) must pass all on.
///
/// Lifetime: reference counted, because every Work needs it: `add_reference`, `drop_reference`.
/// Threads:  every method from any thread.
/// Forks:    nothing is called in a child of a fork for a group that its parent has made.
class Backend {
 public:
  virtual ~Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;

  [[nodiscard]] virtual std::string_view name() const noexcept = 0;  ///< "native"
  [[nodiscard]] virtual int rank() const noexcept = 0;  ///< of this process in the group
  [[nodiscard]] virtual int size() const noexcept = 0;  ///< of the group
  /// The same for as long as the group lives.
  [[nodiscard]] virtual Capabilities capabilities() const noexcept = 0;
  /// Can it do this kind, dtype and reduce op? The text says why not; empty = yes. Rank-local.
  [[nodiscard]] virtual std::string unsupported(const Collective& call) const = 0;
  /// Starts an operation; never throws, and blocks only during the capture of a CUDA graph: a group
  /// that is broken gives one that has failed. `asynchronous`: the caller will not wait soon; a
  /// backend that moves nothing by itself, as MPI, wakes its thread. A backend around another one
  /// may return what that returns.
  virtual Pending submit(const Collective& call, bool asynchronous) noexcept = 0;
  /// Submits a send or recv and waits for its end. A recv: which message it was. Absent: `outcome`
  /// is its failure.
  [[nodiscard]] virtual std::optional<Received> run(const Collective& call,
                                                    Outcome& outcome) noexcept;
  /// Breaks the group with this cause, here and on every other member.
  virtual void abort(const Outcome& cause) noexcept = 0;
  /// Ok, or the first cause that broke the group.
  [[nodiscard]] virtual Outcome health() noexcept = 0;
  /// Begins to make the group of `ranks` of this group, in its new order. Every rank of this group
  /// calls it, in the order of its other calls, with the ranks of the group that it will be in:
  /// this rank among them, or none if it will be in no new group; then the result is nullptr.
  /// The lists of two ranks are equal, or have no rank in common, as MPI_Comm_split needs them.
  /// Never blocks. Directly after it the caller runs Kind::new_group over this group, whose digest
  /// shows whether the lists of all ranks match. A backend that needs the other ranks to make the
  /// group does that in Kind::new_group, once the digests were compared. Until that operation has
  /// succeeded nothing is called on the new group.
  [[nodiscard]] virtual Result<Backend*> make_child(std::span<const int> ranks,
                                                    std::string name) noexcept = 0;
  /// The group of `ranks` of this group, in their order; this rank is one of them. Needs no call of
  /// other ranks, as MPI_Comm_create_group: each member makes it when it needs it, once for each
  /// `tag` and list, because a second one would have the same id. Its failures do not touch this
  /// group. The caller gets the reference. Never blocks. Fails with Errc::resource if the rank has
  /// no place for a group, and with `no_group_among` where the backend has no such groups. The
  /// library's own engine has them, for messages between GPUs and for groups with local
  /// synchronization.
  [[nodiscard]] virtual Result<Backend*> make_among(std::span<const int> ranks,
                                                    std::string_view tag,
                                                    std::string name) noexcept = 0;
  /// Zeroed memory, aligned to 64 bytes, for buffers of this group: where the backend can, its
  /// operations move what lies there with fewer copies. It may outlive the group.
  [[nodiscard]] virtual Result<std::shared_ptr<std::byte>> allocate(std::size_t bytes) noexcept = 0;
  /// Makes this group a part of `owner`, which holds its only reference. Works of this group then
  /// hold `owner`, and a Work that an exception leaves breaks `owner`. Called before the first
  /// operation.
  virtual void set_owner(Backend& owner) noexcept = 0;
  /// The group's last handle is gone. Works of it may still run; each has a reference, and the
  /// destructor comes with the last one. A backend that must tell other ranks may do so here, for
  /// at most `drain`. Those of this library do nothing: they leave in their destructors. A backend
  /// that passes calls on to others passes this one on.
  virtual void close(std::chrono::nanoseconds drain) noexcept = 0;
  /// The process of a rank, for error texts: "node-7, pid 501".
  [[nodiscard]] virtual std::string location(int rank) const = 0;

  /// Every handle and every Work holds one. relaxed: a thread that takes another has one already.
  void add_reference() noexcept { references_.fetch_add(1, std::memory_order_relaxed); }
  void drop_reference() noexcept {
    // acq_rel: pairs with the other droppers, so that the last one sees all that they wrote.
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

 protected:
  Backend() = default;
  /// `allocate` of a backend that has no memory of its own.
  [[nodiscard]] static Result<std::shared_ptr<std::byte>> ordinary_memory(
      std::size_t bytes) noexcept {
    constexpr std::align_val_t kLine{64};
    try {
      const std::shared_ptr<std::byte> memory(
          static_cast<std::byte*>(::operator new(bytes, kLine)),
          [](std::byte* data) { ::operator delete(data, kLine); });
      std::memset(memory.get(), 0, bytes);
      return memory;
    } catch (const std::bad_alloc&) {
      return Outcome(Errc::resource, "no memory for a buffer");
    }
  }
  /// The error of `make_among` of a backend that needs all ranks to make a group.
  [[nodiscard]] static Outcome no_group_among() {
    return Outcome(Errc::unsupported, "this backend makes groups only where all ranks call it");
  }

 private:
  std::atomic<int> references_{1};
};

}  // namespace v0
}  // namespace tutti
