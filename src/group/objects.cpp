#include <tutti/objects.hpp>

#include <cxxabi.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <optional>

#include <tutti/backend/group_access.hpp>
#include <tutti/message.hpp>

#include "base/call_purpose.hpp"
#include "base/fnv.hpp"
#include "base/format.hpp"
#include "base/index.hpp"
#include "base/object_head.hpp"
#include "base/shown.hpp"
#include "group/after_counts.hpp"
#include "group/object_memory.hpp"

// Each operation first moves a block of one size for each object: its head, and the object if it is
// small. Larger ones follow by themselves, from and to memory of their size.
namespace tutti {
inline namespace v0 {

std::string_view serialise<std::string>::to_bytes(const std::string& text) noexcept { return text; }
std::string serialise<std::string>::from_bytes(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

namespace detail {
namespace {

using base::ObjectHead;
using std::chrono::nanoseconds;

constexpr std::size_t kInlineBytes = kBlockBytes - base::kObjectHeadBytes;
constexpr std::size_t kMostReason = 400;
static_assert(kMostReason <= kInlineBytes);
/// Of large objects of a gather or scatter. The Python package has the two tags below it.
constexpr int kObjectTag = kFirstPackageTag + 2;

void check_trust(const ObjectCall& call) {
  if (call.trusts) GroupAccess::check_objects(call.group, call.operation);
}

/// The time that is left for the parts of a call.
class Limit {
 public:
  Limit(const ProcessGroup& group, Timeout timeout) : all_(timeout.value_or(group.get_timeout())) {}
  /// All of it at first, so that a wrong timeout is told; later at least a millisecond.
  [[nodiscard]] nanoseconds left() {
    if (!begin_) {
      begin_ = std::chrono::steady_clock::now();
      return all_;
    }
    return group::left_of(all_, *begin_);
  }

 private:
  nanoseconds all_;
  std::optional<std::chrono::steady_clock::time_point> begin_;
};

std::string type_name(const ObjectCall& call) {
  if (!call.mangled) return std::string(call.type);
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> readable(
      abi::__cxa_demangle(std::string(call.type).c_str(), nullptr, nullptr, &status), std::free);
  return readable ? readable.get() : std::string(call.type);
}

[[noreturn]] void refuse(const ObjectCall& call, int source, std::string_view why,
                         std::string_view end = "the group stays usable") {
  raise(Outcome(Errc::invalid_argument, base::format("{} in group '{}': {}; {}", call.operation,
                                                     call.group.name(), why, end))
            .with_culprit(source));
}

void write_head(const ObjectCall& call, const ObjectBytes& object,
                std::span<std::byte> out) noexcept {
  base::write_object_head({base::fnv_of(call.type), object.bytes.size(), object.problem != nullptr},
                          out.first<base::kObjectHeadBytes>());
}

void write_block(const ObjectCall& call, const ObjectBytes& object, Block block) noexcept {
  write_head(call, object, block);
  if (object.bytes.size() <= kInlineBytes)
    std::ranges::copy(object.bytes, block.begin() + base::kObjectHeadBytes);
}

/// Reads the head of bytes of a rank. `end`: what becomes of the group if they have none.
ObjectHead read_head(const ObjectCall& call, int source, std::span<const std::byte> bytes,
                     std::string_view end = "the group is aborted") {
  const Result<ObjectHead> head = base::read_object_head(bytes);
  if (!head.ok()) {
    refuse(call, source,
           base::format("rank {} sent bytes that {}", source, head.status().message()), end);
  }
  return head.value();
}

/// Throws if the bytes that a rank has sent are the reason why it has no object, or an object of
/// another type.
void check(const ObjectCall& call, const ObjectHead& head, const ObjectBytes& came) {
  if (head.failed) {
    const std::string_view reason(reinterpret_cast<const char*>(came.bytes.data()),
                                  came.bytes.size());
    refuse(call, came.source,
           base::format("rank {} could not make bytes of its {}: {}", came.source, type_name(call),
                        base::shown(reason, kMostReason)));
  }
  if (head.type != base::fnv_of(call.type)) {
    refuse(call, came.source,
           base::format("rank {} sent an object of another type than this rank's {}", came.source,
                        type_name(call)));
  }
}

std::string text_of(const std::exception_ptr& problem) {
  try {
    std::rethrow_exception(problem);
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an exception of another type";
  }
}

void throw_own(const ObjectBytes& mine) {
  if (mine.problem) std::rethrow_exception(mine.problem);
}

/// The object in a block.
ObjectBytes inline_object(Block block, std::size_t size, int source) {
  const Room room(size);
  std::ranges::copy(block.subspan(base::kObjectHeadBytes, size), room.all().begin());
  return room.from(0, size, source);
}

TensorView view_of(std::span<std::byte> bytes) noexcept {
  return TensorView(bytes.data(), DType::uint8, bytes.size());
}
ConstTensorView view_of(std::span<const std::byte> bytes) noexcept {
  return ConstTensorView(bytes.data(), DType::uint8, bytes.size());
}
/// Moves blocks, and tells the other ranks that they are heads of objects.
void move_blocks(const ObjectCall& of, Kind kind, int root, const TensorView& output,
                 const TensorView& input, Limit& limit, CallMemory& memory) {
  Collective call;
  call.kind = kind;
  call.root = root;
  call.digest = base::kObjectDigest;
  call.input = input;
  call.output = output;
  memory.wait(GroupAccess::submit(of.group, call, limit.left(), false));
}

/// Sends a large object of a gather or scatter, or receives one.
Work start_message(const ObjectCall& of, Kind kind, int peer, const ConstTensorView& bytes,
                   Limit& limit) {
  Collective call;
  call.kind = kind;
  call.root = peer;
  call.tag = kObjectTag;
  (kind == Kind::send ? call.input : call.output).read_only() = bytes;
  return GroupAccess::submit(of.group, call, limit.left(), true);
}

}  // namespace

void copy_bytes(std::span<const std::byte> from, void* to) noexcept {
  std::ranges::copy(from, static_cast<std::byte*>(to));
}

ObjectBytes bytes_of(const std::exception_ptr& problem) {
  const auto reason = std::make_shared<std::string>(base::cut(text_of(problem), kMostReason));
  return {std::as_bytes(std::span(*reason)), reason, problem};
}

void refuse_object(const ObjectCall& call, const ObjectBytes& came) {
  const std::string why = base::shown(text_of(std::current_exception()), kMostReason);
  refuse(call, came.source,
         base::format("rank {} sent {} bytes that are no {}: {}", came.source, came.bytes.size(),
                      type_name(call), why));
}

ObjectBytes broadcast(const ObjectCall& call, const ObjectBytes& mine,
                      const BroadcastOptions& options) {
  check_trust(call);
  Limit limit(call.group, options.timeout);
  CallMemory memory(mine);
  const Room block = memory.zeros(kBlockBytes);
  if (call.group.rank() == options.root) write_block(call, mine, block.block(0));
  move_blocks(call, Kind::broadcast, options.root, view_of(block.all()), view_of(block.all()),
              limit, memory);
  if (call.group.rank() == options.root) {
    if (mine.bytes.size() > kInlineBytes) {
      Collective rest;
      rest.kind = Kind::broadcast;
      rest.root = options.root;
      rest.input.read_only() = view_of(mine.bytes);
      rest.output = rest.input;
      memory.wait(GroupAccess::submit(call.group, rest, limit.left(), false));
    }
    throw_own(mine);
    return mine;
  }
  ObjectHead head;
  const ObjectBytes came = group::go_on(call.group, call.operation, [&] {
    head = read_head(call, options.root, block.all());
    if (head.size <= kInlineBytes) return inline_object(block.block(0), head.size, options.root);
    const Room room = memory.room_for(call, head.size, options.root);
    memory.wait(
        call.group.broadcast(view_of(room.all()), {.root = options.root, .timeout = limit.left()}));
    return room.from(0, head.size, options.root);
  });
  check(call, head, came);
  return came;
}

std::vector<ObjectBytes> gather(const ObjectCall& call, const ObjectBytes& mine,
                                const GatherOptions& options) {
  group::refuse_counts(call.group, call.operation, options.output_counts);
  check_trust(call);
  Limit limit(call.group, options.timeout);
  const int rank = call.group.rank();
  const bool root = rank == options.root;
  CallMemory memory(mine);
  const Room own = memory.zeros(kBlockBytes);
  write_block(call, mine, own.block(0));
  const Room blocks = memory.make(root ? base::as_size(call.group.size()) * kBlockBytes : 0);
  move_blocks(call, Kind::gather, options.root, view_of(blocks.all()), view_of(own.all()), limit,
              memory);
  if (!root) {
    if (mine.bytes.size() > kInlineBytes)
      memory.wait(start_message(call, Kind::send, options.root, view_of(mine.bytes), limit));
    throw_own(mine);
    return {};
  }
  std::vector<ObjectHead> heads;
  std::vector<ObjectBytes> all = group::go_on(call.group, call.operation, [&] {
    std::vector<ObjectBytes> came;
    std::vector<Work> works;
    for (int r = 0; r < call.group.size(); ++r) {
      const ObjectHead head = heads.emplace_back(read_head(call, r, blocks.block(r)));
      if (r == rank) {
        came.push_back(mine);
        came.back().source = r;
      } else if (head.size <= kInlineBytes) {
        came.push_back(inline_object(blocks.block(r), head.size, r));
      } else {
        const Room room = memory.room_for(call, head.size, r);
        came.push_back(room.from(0, head.size, r));
        works.push_back(start_message(call, Kind::recv, r, view_of(room.all()), limit));
      }
    }
    memory.wait_all(works);
    return came;
  });
  throw_own(mine);
  for (std::size_t r = 0; r < all.size(); ++r) check(call, heads[r], all[r]);
  return all;
}

std::vector<ObjectBytes> all_gather(const ObjectCall& call, const ObjectBytes& mine,
                                    const AllGatherOptions& options) {
  group::refuse_counts(call.group, call.operation, options.output_counts);
  check_trust(call);
  Limit limit(call.group, options.timeout);
  CallMemory memory(mine);
  const Room own = memory.zeros(kBlockBytes);
  write_block(call, mine, own.block(0));
  const Room blocks = memory.make(base::as_size(call.group.size()) * kBlockBytes);
  move_blocks(call, Kind::all_gather, 0, view_of(blocks.all()), view_of(own.all()), limit, memory);
  std::vector<ObjectHead> heads;
  std::vector<ObjectBytes> all = group::go_on(call.group, call.operation, [&] {
    std::vector<std::size_t> counts;
    std::size_t rest = 0;
    for (int r = 0; r < call.group.size(); ++r) {
      const ObjectHead head = heads.emplace_back(read_head(call, r, blocks.block(r)));
      counts.push_back(head.size > kInlineBytes ? head.size : 0);
      rest += counts.back();
    }
    const auto largest = std::ranges::max_element(counts) - counts.begin();
    const Room room = memory.room_for(call, rest, static_cast<int>(largest));
    if (rest > 0) {
      const bool has_rest = mine.bytes.size() > kInlineBytes;
      const auto input = has_rest ? mine.bytes : std::span<const std::byte>();
      memory.wait(call.group.all_gather(view_of(room.all()), view_of(input),
                                        {.output_counts = counts, .timeout = limit.left()}));
    }
    std::vector<ObjectBytes> came;
    rest = 0;
    for (int r = 0; r < call.group.size(); ++r) {
      const std::size_t size = base::at(heads, r).size;
      came.push_back(size > kInlineBytes ? room.from(rest, size, r)
                                         : inline_object(blocks.block(r), size, r));
      rest += base::at(counts, r);
    }
    return came;
  });
  throw_own(mine);
  for (std::size_t r = 0; r < all.size(); ++r) check(call, heads[r], all[r]);
  return all;
}

ObjectBytes scatter(const ObjectCall& call, std::vector<ObjectBytes> mine,
                    const ScatterOptions& options) {
  group::refuse_counts(call.group, call.operation, options.input_counts);
  check_trust(call);
  Limit limit(call.group, options.timeout);
  CallMemory memory(mine);
  const Room own = memory.zeros(kBlockBytes);
  const bool root = call.group.rank() == options.root;
  const Room blocks = memory.zeros(mine.size() * kBlockBytes);
  if (root) {
    if (mine.size() != base::as_size(call.group.size())) {
      refuse(call, options.root,
             base::format("the root's list has {} objects; it must have one for each of {} ranks",
                          mine.size(), call.group.size()));
    }
    // None or all: where one has failed, every rank gets the reason.
    const auto failed =
        std::ranges::find_if(mine, [](const ObjectBytes& one) { return one.problem != nullptr; });
    if (failed != mine.end()) std::ranges::fill(mine, ObjectBytes(*failed));
    for (int r = 0; r < call.group.size(); ++r)
      write_block(call, base::at(mine, r), blocks.block(r));
  }
  move_blocks(call, Kind::scatter, options.root, view_of(own.all()), view_of(blocks.all()), limit,
              memory);
  if (root) {
    std::vector<Work> works;
    for (int r = 0; r < call.group.size(); ++r) {
      const auto bytes = base::at(mine, r).bytes;
      if (r != options.root && bytes.size() > kInlineBytes)
        works.push_back(start_message(call, Kind::send, r, view_of(bytes), limit));
    }
    memory.wait_all(works);
    ObjectBytes came = base::at(mine, options.root);
    throw_own(came);
    came.source = options.root;
    return came;
  }
  ObjectHead head;
  const ObjectBytes came = group::go_on(call.group, call.operation, [&] {
    head = read_head(call, options.root, own.all());
    if (head.size <= kInlineBytes) return inline_object(own.block(0), head.size, options.root);
    const Room room = memory.room_for(call, head.size, options.root);
    memory.wait(start_message(call, Kind::recv, options.root, view_of(room.all()), limit));
    return room.from(0, head.size, options.root);
  });
  check(call, head, came);
  return came;
}

void send(const ObjectCall& call, const ObjectBytes& mine, int dst, const SendOptions& options) {
  check_trust(call);
  CallMemory memory(mine);
  const Room room = memory.make(base::kObjectHeadBytes + mine.bytes.size());
  write_head(call, mine, room.all());
  std::ranges::copy(mine.bytes, room.all().begin() + base::kObjectHeadBytes);
  memory.run([&] { call.group.send(view_of(room.all()), dst, options); });
  throw_own(mine);
}

ObjectBytes recv(const ObjectCall& call, int src, const RecvOptions& options) {
  if (src == no_rank) return {{}, {}, {}, call.group.recv(TensorView(), src, options)};
  check_trust(call);
  Limit limit(call.group, options.timeout);
  Message message = call.group.probe(src, {.tag = options.tag, .timeout = limit.left()});
  const int source = message.source();
  if (message.dtype() != DType::uint8 || message.count() < base::kObjectHeadBytes) {
    refuse(call, source,
           base::format("the message of rank {} with tag {} has {} x {} and is no object; it stays "
                        "for a recv",
                        source, message.tag(), to_string(message.dtype()), message.count()));
  }
  CallMemory memory;
  const Room room = memory.room_for(call, message.count(), source);
  memory.run([&] { message.recv(view_of(room.all()), limit.left()); });
  const ObjectHead head = read_head(call, source, room.all(), "the group stays usable");
  const std::size_t size = room.all().size() - base::kObjectHeadBytes;
  if (head.size != size) {
    refuse(call, source,
           base::format("rank {} sent an object of {} bytes in a message of {}", source, head.size,
                        size));
  }
  const ObjectBytes came = room.from(base::kObjectHeadBytes, size, source);
  check(call, head, came);
  return came;
}

}  // namespace detail
}  // namespace v0
}  // namespace tutti
