#include <cstdint>
#include <string>

#include "base/format.hpp"
#include "call/memory.hpp"
#include "call/views_check.hpp"
#include "group/on_stream.hpp"
#include "group/process_group_impl.hpp"

namespace tutti {
inline namespace v0 {
namespace {

Collective transfer(Kind kind, const ConstTensorView& buffer, int peer, int tag) {
  Collective call;
  call.kind = kind;
  call.root = peer;
  call.tag = tag;
  (kind == Kind::send ? call.input : call.output).read_only() = buffer;
  return call;
}

Collective call_of(const P2POp& one) {
  return transfer(one.is_send() ? Kind::send : Kind::recv, one.buffer(), one.peer(), one.tag());
}

const TensorView& buffer_of(const Collective& call) noexcept {
  return call.kind == Kind::recv ? call.output : call.input;
}

/// Accepts the usual sends and recvs with a few compares. False: the call needs the full check.
bool plainly_right(const Collective& call, int size) noexcept {
  const TensorView& buffer = buffer_of(call);
  return call.kind != Kind::probe && call.root >= 0 && call.root < size && call.tag >= 0 &&
         call.timeout > std::chrono::nanoseconds(0) && call.details == nullptr &&
         buffer.contiguous() && buffer.data() != nullptr;
}

/// True if two contiguous buffers have bytes in common. Rows and columns of one array that
/// interleave do not count.
bool share_rows(const ConstTensorView& one, const ConstTensorView& other) noexcept {
  return one.contiguous() && other.contiguous() &&
         call::range_of(one).overlaps(call::range_of(other));
}

/// The error of the arguments of a send, recv or probe; empty: none.
std::string what_is_wrong(const Collective& call, int size) {
  const bool receives = call.kind != Kind::send;
  const bool anybody = receives && call.root == any_source;
  if (!anybody && (call.root < 0 || call.root >= size))
    return base::format("the {} must be a rank of the group, 0 to {}{}",
                        receives ? "sender" : "receiver", size - 1,
                        receives ? ", or any_source" : "");
  if (call.tag < 0 && !(receives && call.tag == any_tag))
    return "a tag must not be negative; take 0 or more, the same on both ranks";
  if (call.timeout <= std::chrono::nanoseconds(0)) return "the timeout must be positive";
  if (call.details != nullptr && call.details->gpu_message != nullptr)
    return "Details::gpu_message is for the library itself";
  return call::check_memory(buffer_of(call), "buffer", receives);
}

}  // namespace

bool ProcessGroup::Impl::check_transfer(Collective& call,
                                        std::optional<std::chrono::nanoseconds> limit) {
  call.timeout = limit.value_or(default_timeout());
  if (plainly_right(call, size)) [[likely]] {
    check_supported(call, buffer_of(call));
    return true;
  }
  const auto refuse = [&](const std::string& why) {
    raise(Outcome(Errc::invalid_argument,
                  base::format("{} in group '{}': {}", describe(call), name, why)));
  };
  if (const std::string wrong = what_is_wrong(call, size); !wrong.empty()) [[unlikely]] {
    if (call.root != no_rank || call.kind == Kind::probe) refuse(wrong);
    Collective other = call;
    other.root = 0;
    if (const std::string else_wrong = what_is_wrong(other, size); !else_wrong.empty())
      refuse(else_wrong);
    return false;
  }
  if (call.kind == Kind::probe && !entry().capabilities().probe) {
    refuse(
        base::format("the backend '{}' has no probe; send the size first, or use the backend "
                     "'native'",
                     backend->name()));
  }
  if (call.tag == any_tag) [[unlikely]] {  // some backends lack it; they are asked each time
    if (const std::string why = entry().unsupported(call); !why.empty()) refuse(why);
  }
  check_supported(call, buffer_of(call));
  return true;
}

Work ProcessGroup::Impl::start_transfer(const Collective& call, bool asynchronous) {
  if (buffer_of(call).device() != Device()) [[unlikely]]
    return Work(entry().submit(OnStream(call).call(), asynchronous), true);
  return Work(entry().submit(call, asynchronous));
}

Received ProcessGroup::Impl::run_transfer(const Collective& call) {
  if (buffer_of(call).device() != Device()) [[unlikely]] {
    Work work = start_transfer(call, false);
    work.wait();
    return {work.source_rank(), work.tag()};
  }
  // Without a Work: the caller's handle holds the group.
  Outcome outcome;
  const std::optional<Received> received = entry().run(call, outcome);
  if (!received) [[unlikely]]
    raise(outcome);
  return *received;
}

Work ProcessGroup::isend(const ConstTensorView& buffer, int dst, const SendOptions& options) {
  Collective call = transfer(Kind::send, buffer, dst, options.tag);
  if (!impl_->check_transfer(call, options.timeout)) return Work::with_nobody();
  return impl_->start_transfer(call, true);
}

Work ProcessGroup::irecv(const TensorView& buffer, int src, const RecvOptions& options) {
  Collective call = transfer(Kind::recv, buffer, src, options.tag);
  if (!impl_->check_transfer(call, options.timeout)) return Work::with_nobody();
  return impl_->start_transfer(call, true);
}

void ProcessGroup::send(const ConstTensorView& buffer, int dst, const SendOptions& options) {
  Collective call = transfer(Kind::send, buffer, dst, options.tag);
  if (impl_->check_transfer(call, options.timeout)) (void)impl_->run_transfer(call);
}

int ProcessGroup::recv(const TensorView& buffer, int src, const RecvOptions& options) {
  Collective call = transfer(Kind::recv, buffer, src, options.tag);
  if (!impl_->check_transfer(call, options.timeout)) return no_rank;
  return impl_->run_transfer(call).source;
}

int ProcessGroup::sendrecv(const TensorView& output, int src, const ConstTensorView& input, int dst,
                           const SendRecvOptions& options) {
  Collective receives = transfer(Kind::recv, output, src, options.recv_tag);
  Collective sends = transfer(Kind::send, input, dst, options.send_tag);
  const bool has_source = impl_->check_transfer(receives, options.timeout);
  const bool has_receiver = impl_->check_transfer(sends, options.timeout);
  if (share_rows(output, input)) {
    raise(Outcome(
        Errc::invalid_argument,
        base::format("sendrecv in group '{}': its two buffers share memory; give two", name())));
  }
  Work both[] = {has_source ? impl_->start_transfer(receives, false) : Work::with_nobody(),
                 has_receiver ? impl_->start_transfer(sends, false) : Work::with_nobody()};
  wait_all(both);
  return both[0].source_rank();
}

std::vector<Work> ProcessGroup::batch_isend_irecv(std::span<const P2POp> operations,
                                                  const BatchOptions& options) {
  std::vector<bool> has_peer;
  for (const P2POp& one : operations) {
    Collective call = call_of(one);
    has_peer.push_back(impl_->check_transfer(call, options.timeout));
  }
  std::vector<Work> works;
  works.reserve(operations.size());
  for (const P2POp& one : operations) {
    Collective call = call_of(one);
    call.timeout = options.timeout.value_or(get_timeout());
    works.push_back(has_peer[works.size()] ? impl_->start_transfer(call, true)
                                           : Work::with_nobody());
  }
  return works;
}

}  // namespace v0
}  // namespace tutti
