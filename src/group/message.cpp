#include <tutti/backend/group_access.hpp>
#include <tutti/message.hpp>

#include <string>
#include <utility>

#include "base/format.hpp"
#include "group/process_group_impl.hpp"

namespace tutti {
inline namespace v0 {
namespace {

Collective probe_call(int source, int tag) {
  Collective call;
  call.kind = Kind::probe;
  call.root = source;
  call.tag = tag;
  return call;
}

}  // namespace

Message::Message(ProcessGroup group, Work probe, const ProbedMessage& found) noexcept
    : group_(std::move(group)),
      probe_(std::move(probe)),
      source_(found.source),
      tag_(found.tag),
      dtype_(found.dtype),
      count_(found.count),
      is_bytes_(found.is_bytes) {}

Message& Message::operator=(Message&& other) noexcept {
  if (this != &other) {
    put_back();
    group_ = std::exchange(other.group_, {});
    probe_ = std::move(other.probe_);
    source_ = other.source_;
    tag_ = other.tag_;
    dtype_ = other.dtype_;
    count_ = other.count_;
    is_bytes_ = other.is_bytes_;
  }
  return *this;
}

void Message::put_back() noexcept {
  if (!group_) return;
  probe_.detach();
  group_ = {};
}

Work Message::submit(const TensorView& buffer, Timeout timeout, bool asynchronous) {
  Details details;
  details.probed = probe_.ticket_;
  Collective call;
  call.kind = Kind::recv;
  call.root = source_;
  call.tag = tag_;
  call.output = buffer;
  call.details = &details;
  const auto refuse = [&](const std::string& why) {
    raise(Outcome(Errc::invalid_argument, base::format("{}: {}", describe(call), why)));
  };
  if (!group_) refuse("the Message is empty: it was received, or moved from");
  const bool fits = is_bytes_ ? buffer.size_bytes() == count_
                              : buffer.dtype() == dtype_ && buffer.count() == count_;
  if (!fits) {
    if (is_bytes_ || (dtype_ == DType::uint8 && buffer.struct_size() > 1))
      refuse(base::format("the message has {} bytes; give a buffer of as many", count_));
    refuse(
        base::format("the message has {} x {}; give a buffer of this dtype and number of elements",
                     to_string(dtype_), count_));
  }
  if (buffer.device() != Device()) {
    // Of this call: a group asks once for all recvs of a dtype.
    if (const std::string why = GroupAccess::backend(group_).unsupported(call); !why.empty())
      refuse(why);
  }
  Work work = GroupAccess::submit(group_, call, timeout, asynchronous);
  put_back();  // there is nothing left to put back
  return work;
}

void Message::recv(const TensorView& buffer, Timeout timeout) {
  submit(buffer, timeout, false).wait();
}

Work Message::irecv(const TensorView& buffer, Timeout timeout) {
  return submit(buffer, timeout, true);
}

Message ProcessGroup::probe(int source, const ProbeOptions& options) {
  Collective call = probe_call(source, options.tag);
  (void)impl_->check_transfer(call, options.timeout);
  const Pending probe = impl_->entry().submit(call, false);
  Outcome outcome;
  (void)probe.wait(std::nullopt, outcome);
  const std::optional<ProbedMessage> found = probe.probed();
  if (!outcome.ok() || !found) {
    (void)probe.release();
    raise(!outcome.ok() ? outcome
                        : Outcome(Errc::internal, describe(call) + ": the message is not there"));
  }
  return {*this, Work(probe), *found};
}

std::optional<Message> ProcessGroup::try_probe(int source, const ProbeOptions& options) {
  Collective call = probe_call(source, options.tag);
  (void)impl_->check_transfer(call, std::nullopt);
  call.timeout = std::chrono::nanoseconds(0);  // does not wait
  const Pending probe = impl_->entry().submit(call, false);
  if (const std::optional<ProbedMessage> found = probe.probed())
    return Message(*this, Work(probe), *found);
  const Outcome outcome = probe.poll().value_or(Outcome());
  (void)probe.release();
  raise_if(outcome);
  return std::nullopt;
}

}  // namespace v0
}  // namespace tutti
