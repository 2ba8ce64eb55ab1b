#include <tutti/backend/group_access.hpp>
#include <tutti/message.hpp>

#include <fmt/format.h>

#include <string>
#include <utility>

#include <tutti/backend/backend.hpp>

namespace tutti {
namespace {

Collective probe_call(int source, int tag) {
  Collective call;
  call.kind = Kind::probe;
  call.root = source;
  call.tag = tag;
  return call;
}

}  // namespace

Message::Message(ProcessGroup group, std::uint64_t ticket, int tag,
                 const ProbedMessage& found) noexcept
    : group_(std::move(group)),
      ticket_(ticket),
      source_(found.source),
      tag_(tag),
      dtype_(found.dtype),
      count_(found.count),
      is_bytes_(found.is_bytes) {}

Message& Message::operator=(Message&& other) noexcept {
  if (this != &other) {
    put_back();
    group_ = std::exchange(other.group_, std::nullopt);
    ticket_ = other.ticket_;
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
  (void)GroupAccess::backend(*group_).release(ticket_);
  group_.reset();
}

Work Message::submit(const TensorView& buffer, std::optional<std::chrono::nanoseconds> timeout,
                     bool asynchronous) {
  Details details;
  details.probed = ticket_;
  Collective call;
  call.kind = Kind::recv;
  call.root = source_;
  call.tag = tag_;
  call.output = buffer;
  call.details = &details;
  const auto refuse = [&](const std::string& why) {
    raise(Outcome(Errc::invalid_argument, fmt::format("{}: {}", describe(call), why)));
  };
  if (!group_) refuse("the Message is empty: it was received, or moved from");
  const bool fits = is_bytes_ ? buffer.size_bytes() == count_
                              : buffer.dtype() == dtype_ && buffer.count() == count_;
  if (!fits) {
    if (is_bytes_ || (dtype_ == DType::uint8 && buffer.struct_size() > 1))
      refuse(fmt::format("the message has {} bytes; give a buffer of as many", count_));
    refuse(
        fmt::format("the message has {} x {}; give a buffer of this dtype and number of elements",
                    to_string(dtype_), count_));
  }
  if (buffer.device() != Device()) {
    // Of this call: a group asks once for all recvs of a dtype.
    if (const std::string why = GroupAccess::backend(*group_).unsupported(call); !why.empty())
      refuse(why);
  }
  Work work = GroupAccess::submit(*group_, call, timeout, asynchronous);
  put_back();  // there is nothing left to put back
  return work;
}

void Message::recv(const TensorView& buffer, std::optional<std::chrono::nanoseconds> timeout) {
  submit(buffer, timeout, false).wait();
}

Work Message::irecv(const TensorView& buffer, std::optional<std::chrono::nanoseconds> timeout) {
  return submit(buffer, timeout, true);
}

Message ProcessGroup::probe(int source, const ProbeOptions& options) {
  Collective call = probe_call(source, options.tag);
  check_transfer(call, options.timeout);
  Backend& backend = impl();
  const std::uint64_t ticket = backend.submit(call, false);
  Outcome outcome;
  (void)backend.wait(ticket, std::nullopt, outcome);
  const std::optional<ProbedMessage> found = backend.probed(ticket);
  if (!outcome.ok() || !found) {
    (void)backend.release(ticket);
    raise(!outcome.ok() ? outcome
                        : Outcome(Errc::internal, describe(call) + ": the message is not there"));
  }
  return {*this, ticket, options.tag, *found};
}

std::optional<Message> ProcessGroup::try_probe(int source, int tag) {
  Collective call = probe_call(source, tag);
  check_transfer(call, std::nullopt);
  call.timeout = std::chrono::nanoseconds(0);  // does not wait
  Backend& backend = impl();
  const std::uint64_t ticket = backend.submit(call, false);
  if (const std::optional<ProbedMessage> found = backend.probed(ticket))
    return Message(*this, ticket, tag, *found);
  const Outcome outcome = backend.poll(ticket).value_or(Outcome());
  (void)backend.release(ticket);
  raise_if(outcome);
  return std::nullopt;
}

}  // namespace tutti
