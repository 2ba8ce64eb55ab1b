#pragma once

#include <chrono>
#include <cstddef>
#include <utility>
#include <vector>

#include <tutti/buffers.hpp>
#include <tutti/export.hpp>
#include <tutti/process_group.hpp>
#include <tutti/work.hpp>

namespace tutti {
inline namespace TUTTI_EXPORT v0 {

struct ProbedMessage;

/// A message that ProcessGroup::probe has found. It belongs to this object: no other recv or probe
/// gets it, on no thread.
///
/// Lifetime: keeps its group. A Message that is destroyed before its recv is put back: a recv or
///           probe that waits for it gets it, or else a later one, before all messages that its
///           sender has sent later with its tag.
/// Threads:  one thread at a time per Message; different ones from different threads.
/// Empty:    a Message that was received or moved from is empty: `recv` and `irecv` throw
///           InvalidArgument.
class [[nodiscard]] Message {
 public:
  Message(Message&& other) noexcept
      : group_(std::exchange(other.group_, {})),
        probe_(std::move(other.probe_)),
        source_(other.source_),
        tag_(other.tag_),
        dtype_(other.dtype_),
        count_(other.count_),
        is_bytes_(other.is_bytes_) {}
  /// Puts its own message back, if it has one.
  Message& operator=(Message&& other) noexcept;
  ~Message() { put_back(); }

  [[nodiscard]] int source() const noexcept { return source_; }  ///< rank of the group that sent it
  [[nodiscard]] int tag() const noexcept { return tag_; }
  /// With the backend 'mpi' uint8, whatever was sent: a message of MPI has bytes.
  [[nodiscard]] DType dtype() const noexcept { return dtype_; }
  [[nodiscard]] std::size_t count() const noexcept { return count_; }  ///< elements
  [[nodiscard]] std::size_t bytes() const noexcept { return count_ * size_of(dtype_); }
  /// False: it is empty.
  [[nodiscard]] bool valid() const noexcept { return static_cast<bool>(group_); }

  /// Receives the message into a buffer. `timeout` begins here; absent: the group's.
  ///
  /// Shapes:   dtype and count of the message; strides are free. With the backend 'mpi' any
  ///           dtype, and as many bytes as the message has.
  /// GPUs:     as ProcessGroup::recv on `native` and `auto`; on other backends the buffer is in
  ///           the memory of the CPU.
  /// Errors:   InvalidArgument for another buffer: the message stays here and can be received. Else
  ///           as ProcessGroup::recv.
  void recv(const TensorView& buffer, Timeout timeout = {});
  /// Receives the message into a vector of its size: `message.recv<float>()`. Errors: as above.
  template <class T>
  [[nodiscard]] std::vector<T> recv(Timeout timeout = {}) {
    std::vector<T> all(bytes() / sizeof(T));
    recv(all, timeout);
    return all;
  }
  /// As `recv`, without waiting for the bytes.
  ///
  /// Lifetime: the buffer must not be touched until the Work is done.
  Work irecv(const TensorView& buffer, Timeout timeout = {});

 private:
  friend class GroupAccess;
  friend class ProcessGroup;
  Work submit(const TensorView& buffer, Timeout timeout, bool asynchronous);
  Message(ProcessGroup group, Work probe, const ProbedMessage& found) noexcept;
  void put_back() noexcept;

  ProcessGroup group_;  ///< without a group: empty
  Work probe_;          ///< done; it has the message until it is let go
  int source_ = 0;
  int tag_ = 0;
  DType dtype_ = DType::uint8;
  std::size_t count_ = 0;
  bool is_bytes_ = false;  ///< its dtype is not known
};

}  // namespace v0
}  // namespace tutti
