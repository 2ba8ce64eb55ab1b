#include <fmt/format.h>

#include <string>
#include <utility>

#include <tutti/backend.hpp>
#include <tutti/process_group.hpp>

#include "group/views_check.hpp"

namespace tutti {
namespace {

Collective transfer(Kind kind, const TensorView& buffer, int peer, int tag) {
  Collective call;
  call.kind = kind;
  call.root = peer;
  call.tag = tag;
  (kind == Kind::send ? call.input : call.output) = buffer;
  return call;
}

}  // namespace

/// Throws what is wrong with a send or recv, before anything is sent.
void ProcessGroup::check_transfer(Collective& call,
                                  std::optional<std::chrono::nanoseconds> limit) const {
  call.timeout = limit.value_or(timeout());
  std::string wrong;
  const bool anybody = call.kind == Kind::recv && call.root == any_source;
  if (!anybody && (call.root < 0 || call.root >= size())) {
    const bool sends = call.kind == Kind::send;
    wrong = fmt::format("the {} must be a rank of the group, 0 to {}{}",
                        sends ? "receiver" : "sender", size() - 1, sends ? "" : ", or any_source");
  } else if (call.tag < 0) {
    wrong = "a tag must not be negative";
  } else if (call.timeout <= std::chrono::nanoseconds(0)) {
    wrong = "the timeout must be positive";
  } else {
    const bool written = call.kind == Kind::recv;
    wrong = check_memory(written ? call.output : call.input, "buffer", written);
  }
  if (wrong.empty())
    return check_supported(call, call.kind == Kind::recv ? call.output : call.input);
  raise(Status(Errc::invalid_argument,
               fmt::format("{} in group '{}': {}", describe(call), name(), wrong)));
}

Work ProcessGroup::start_transfer(const Collective& call, bool asynchronous) {
  return Work(&impl(), impl().submit(call, asynchronous));
}

Work ProcessGroup::isend(const TensorView& buffer, int dst, const SendOptions& options) {
  Collective call = transfer(Kind::send, buffer, dst, options.tag);
  check_transfer(call, options.timeout);
  return start_transfer(call, true);
}

Work ProcessGroup::irecv(const TensorView& buffer, int src, const RecvOptions& options) {
  Collective call = transfer(Kind::recv, buffer, src, options.tag);
  check_transfer(call, options.timeout);
  return start_transfer(call, true);
}

void ProcessGroup::send(const TensorView& buffer, int dst, const SendOptions& options) {
  Collective call = transfer(Kind::send, buffer, dst, options.tag);
  check_transfer(call, options.timeout);
  start_transfer(call, false).wait();
}

int ProcessGroup::recv(const TensorView& buffer, int src, const RecvOptions& options) {
  Collective call = transfer(Kind::recv, buffer, src, options.tag);
  check_transfer(call, options.timeout);
  Work work = start_transfer(call, false);
  work.wait();
  return work.source_rank();
}

std::vector<Work> ProcessGroup::batch_isend_irecv(std::span<const P2POp> operations,
                                                  const BatchOptions& options) {
  if (operations.empty()) {
    raise(Status(Errc::invalid_argument,
                 fmt::format("batch_isend_irecv in group '{}': the list is empty", name())));
  }
  for (const P2POp& one : operations) {
    Collective call = transfer(one.kind(), one.buffer(), one.peer(), one.tag());
    check_transfer(call, options.timeout);
  }
  std::vector<Work> works;
  works.reserve(operations.size());
  for (const P2POp& one : operations) {
    Collective call = transfer(one.kind(), one.buffer(), one.peer(), one.tag());
    call.timeout = options.timeout.value_or(timeout());
    works.push_back(start_transfer(call, true));
  }
  return works;
}

}  // namespace tutti
