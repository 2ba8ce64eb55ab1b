#include "record/record.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string_view>

#include <tutti/backend/kinds.hpp>

#include "base/format.hpp"
#include "base/shown.hpp"
#include "record/memory.hpp"

namespace tutti::record {
namespace {

/// Ticks of the CPU's counter as nanoseconds since 1970.
class Times {
 public:
  Times(const ClockPair& first, const ClockPair& last) noexcept : last_(last) {
    const auto ticks = static_cast<double>(last.ticks - first.ticks);
    const auto ns = static_cast<double>(last.unix_ns - first.unix_ns);
    if (last.ticks > first.ticks && ns > 0) ns_per_tick_ = ns / ticks;
  }
  /// 0 stays 0: not known.
  [[nodiscard]] std::int64_t ns_of(std::uint64_t ticks) const noexcept {
    if (ticks == 0) return 0;
    const auto behind = static_cast<double>(static_cast<std::int64_t>(last_.ticks - ticks));
    const double ns = behind * ns_per_tick_;
    // A foreign number may be anything; a century is enough.
    constexpr double kMost = 3.2e18;
    return std::max<std::int64_t>(
        1, last_.unix_ns - static_cast<std::int64_t>(std::clamp(ns, -kMost, kMost)));
  }

 private:
  ClockPair last_;
  double ns_per_tick_ = 0;
};

template <std::size_t size>
std::string text_of(const std::array<char, size>& text) {
  const std::string_view all(text.data(), size);
  return base::shown_on_line(all.substr(0, all.find('\0')));
}

bool is_sound(const Entry& entry) noexcept {
  return entry.kind < kKindCount && entry.dtype < kDTypeCount && entry.state != EntryState::none &&
         entry.state <= EntryState::failed;
}

/// True where a rank of the group has the same number in the world.
bool is_world(const Record& record, const RecordedGroup& group) {
  return group.size == record.size && group.rank == record.rank;
}

}  // namespace

Result<Record> read_record(std::span<const std::byte> bytes) {
  if (bytes.size() != kRecordBytes)
    return Outcome(Errc::invalid_argument,
                   base::format("a record has {} bytes, and not {}", kRecordBytes, bytes.size()));
  const auto copy = std::make_unique<Memory>();
  // As often as it takes to see a header that was not written meanwhile, within reason.
  std::memcpy(static_cast<void*>(copy.get()), bytes.data(), kRecordBytes);
  const auto* const live =
      reinterpret_cast<const std::atomic<std::uint64_t>*>(bytes.data() + offsetof(Header, written));
  const std::uint64_t written_later = live->load(std::memory_order_acquire);
  const Header& header = copy->header;
  if (header.magic != kRecordMagic)
    return Outcome(Errc::invalid_argument, "this is no record of tutti");
  if (header.version != kRecordVersion)
    return Outcome(Errc::unsupported, base::format("the record has version {}, and this program "
                                                   "reads version {}",
                                                   header.version, kRecordVersion));
  if (header.entries != kEntries || header.groups_size != kGroups)
    return Outcome(Errc::invalid_argument, "the record has other sizes than its version says");
  Record record;
  record.pid = header.pid.load();
  record.starting = record.pid == 0;
  if (record.starting) record.pid = header.starting.load();
  if (record.pid == 0) return Outcome(Errc::store, "no rank has taken this record");
  if (record.starting) record.waits_for = text_of(header.waits_for);
  record.rank = header.rank;
  record.size = header.size;
  const int least = record.starting ? kLauncher : 0;
  if (record.size < 1 || record.rank < least || record.rank >= record.size)
    return Outcome(Errc::invalid_argument,
                   base::format("the record is of rank {} of {}", record.rank, record.size));
  constexpr std::int64_t kLatest = 4'000'000'000'000'000'000;  // of the year 2096
  for (const ClockPair& pair : {header.first, header.last}) {
    if (pair.unix_ns < 0 || pair.unix_ns > kLatest)
      return Outcome(Errc::invalid_argument, "the record's clock tells an impossible time");
  }
  record.host = text_of(header.host);
  record.made = header.first.unix_ns;
  record.read = header.last.unix_ns;
  record.written = header.written.load();
  for (const GroupEntry& group : header.groups)
    record.groups.push_back({text_of(group.name), group.rank, std::max(group.size, 1), group.id});
  const Times times(header.first, header.last);
  const std::uint64_t from = record.written - std::min<std::uint64_t>(record.written, kEntries);
  // One more may be half overwritten by the call that is about to be counted.
  const std::uint64_t lost =
      written_later + 1 - std::min<std::uint64_t>(written_later + 1, kEntries);
  for (std::uint64_t number = std::max(from, written_later < kEntries ? 0 : lost);
       number < record.written; ++number) {
    const Entry& entry = copy->ring[number % kEntries];
    if (!is_sound(entry)) continue;
    Operation operation;
    operation.number = number;
    operation.called = times.ns_of(entry.called);
    operation.began = times.ns_of(entry.began);
    operation.ended = times.ns_of(entry.ended);
    operation.seq = entry.seq;
    operation.input_bytes = entry.input_bytes;
    operation.output_bytes = entry.output_bytes;
    operation.group = entry.group < kGroups ? entry.group : -1;
    operation.kind = static_cast<Kind>(entry.kind);
    operation.dtype = static_cast<DType>(entry.dtype);
    operation.state = entry.state;
    operation.peer = entry.peer;
    const bool collective = is_collective(operation.kind);
    operation.tag = collective ? 0 : entry.more;
    if (collective)
      operation.waits_for = entry.more;
    else if (operation.group >= 0 && is_world(record, record.groups[entry.group]))
      operation.waits_for = entry.peer;  // else nobody knows which rank of the world that is
    record.operations.push_back(operation);
  }
  return record;
}

std::vector<std::byte> copy_record(std::span<const std::byte> bytes) {
  std::vector<std::byte> copy(bytes.begin(), bytes.end());
  if (copy.size() != kRecordBytes) return copy;
  const ClockPair now = clocks();
  std::memcpy(copy.data() + offsetof(Header, last), &now, sizeof now);
  return copy;
}

}  // namespace tutti::record
