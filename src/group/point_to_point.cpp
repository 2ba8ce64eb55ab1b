#include <fmt/format.h>

#include <string>

#include "call/views_check.hpp"
#include "group/on_stream.hpp"
#include "group/process_group_impl.hpp"

namespace tutti {
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

/// The error of the arguments of a send, recv or probe; empty: none.
std::string what_is_wrong(const Collective& call, int size) {
  const bool receives = call.kind != Kind::send;
  const bool anybody = receives && call.root == any_source;
  if (!anybody && (call.root < 0 || call.root >= size))
    return fmt::format("the {} must be a rank of the group, 0 to {}{}",
                       receives ? "sender" : "receiver", size - 1,
                       receives ? ", or any_source" : "");
  if (call.tag < 0) return "a tag must not be negative; take 0 or more, the same on both ranks";
  if (call.timeout <= std::chrono::nanoseconds(0)) return "the timeout must be positive";
  if (call.details != nullptr && call.details->gpu_message != nullptr)
    return "Details::gpu_message is for the library itself";
  return call::check_memory(buffer_of(call), "buffer", receives);
}

}  // namespace

void ProcessGroup::Impl::check_transfer(Collective& call,
                                        std::optional<std::chrono::nanoseconds> limit) {
  call.timeout = limit.value_or(default_timeout());
  if (const std::string wrong = what_is_wrong(call, backend->size()); !wrong.empty()) [[unlikely]]
    raise(Outcome(Errc::invalid_argument,
                  fmt::format("{} in group '{}': {}", describe(call), name, wrong)));
  if (call.kind == Kind::probe && !entry().capabilities().probe) {
    raise(
        Outcome(Errc::invalid_argument,
                fmt::format("{} in group '{}': the backend '{}' has no probe; send the size first, "
                            "or use the backend 'native'",
                            describe(call), name, backend->name())));
  }
  check_supported(call, buffer_of(call));
}

Work ProcessGroup::Impl::start_transfer(const Collective& call, bool asynchronous) {
  if (buffer_of(call).device() != Device()) [[unlikely]]
    return Work(entry().submit(OnStream(call).call(), asynchronous), true);
  return Work(entry().submit(call, asynchronous));
}

Work ProcessGroup::isend(const ConstTensorView& buffer, int dst, const SendOptions& options) {
  Collective call = transfer(Kind::send, buffer, dst, options.tag);
  impl_->check_transfer(call, options.timeout);
  return impl_->start_transfer(call, true);
}

Work ProcessGroup::irecv(const TensorView& buffer, int src, const RecvOptions& options) {
  Collective call = transfer(Kind::recv, buffer, src, options.tag);
  impl_->check_transfer(call, options.timeout);
  return impl_->start_transfer(call, true);
}

void ProcessGroup::send(const ConstTensorView& buffer, int dst, const SendOptions& options) {
  Collective call = transfer(Kind::send, buffer, dst, options.tag);
  impl_->check_transfer(call, options.timeout);
  impl_->start_transfer(call, false).wait();
}

int ProcessGroup::recv(const TensorView& buffer, int src, const RecvOptions& options) {
  Collective call = transfer(Kind::recv, buffer, src, options.tag);
  impl_->check_transfer(call, options.timeout);
  Work work = impl_->start_transfer(call, false);
  work.wait();
  return work.source_rank();
}

std::vector<Work> ProcessGroup::batch_isend_irecv(std::span<const P2POp> operations,
                                                  const BatchOptions& options) {
  for (const P2POp& one : operations) {
    Collective call = call_of(one);
    impl_->check_transfer(call, options.timeout);
  }
  std::vector<Work> works;
  works.reserve(operations.size());
  for (const P2POp& one : operations) {
    Collective call = call_of(one);
    call.timeout = options.timeout.value_or(timeout());
    works.push_back(impl_->start_transfer(call, true));
  }
  return works;
}

}  // namespace tutti
