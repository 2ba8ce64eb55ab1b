// Whatever stands in the file of a flight recorder: it is a record whose numbers all are in their
// ranges, and of which a trace can be made, or an error.

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "fuzz/fuzzer.hpp"
#include "fuzz/input.hpp"
#include "record/record.hpp"
#include "record/trace.hpp"
#include "record/waits.hpp"

namespace tutti::fuzz::record_reader {

using namespace tutti::record;

void check(const Result<Record>& read) {
  if (!read) {
    require(!read.status().message().empty() && read.status().message().size() < 200);
    return;
  }
  const Record& record = read.value();
  require(record.rank >= (record.starting ? kLauncher : 0) && record.rank < record.size);
  require(record.pid != 0);
  require(record.groups.size() == kGroups && record.operations.size() <= kEntries);
  std::uint64_t least = 0;
  for (const Operation& operation : record.operations) {
    require(operation.number >= least && operation.number < record.written);
    least = operation.number + 1;
    require(static_cast<std::size_t>(operation.kind) < kKindCount);
    require(static_cast<std::size_t>(operation.dtype) < kDTypeCount);
    require(operation.group >= -1 && operation.group < static_cast<int>(kGroups));
    require(operation.state != EntryState::none && operation.state <= EntryState::failed);
    require(operation.called >= 0 && operation.began >= 0 && operation.ended >= 0);
  }
  const std::string trace = trace_json({&record, 1});
  require(trace.ends_with("]}\n"));
  // Another rank, whose calls all are a little later.
  std::vector<Record> ranks(2, record);
  for (Operation& operation : ranks[1].operations) ++operation.called;
  for (const std::int64_t waited : waited_for(ranks)) require(waited >= 0);
}

/// The input as the last entries and as fields of the head: a whole record is too long for one.
std::vector<std::byte> record_with(Input& input) {
  const auto memory = std::make_unique<Memory>();
  Header& header = memory->header;
  const auto wrong = input.number<std::uint8_t>();
  header.magic += wrong & 1U;
  header.version += (wrong >> 1U) & 1U;
  header.entries += (wrong >> 2U) & 1U;
  header.rank = input.number<std::int8_t>();
  header.size = input.number<std::int8_t>();
  header.pid = input.number<std::int8_t>();
  header.first = input.number<ClockPair>();
  header.last = input.number<ClockPair>();
  const auto some = input.number<std::uint8_t>();
  // Few, or as many as there can be.
  header.written = some < 128 ? some : input.number<std::uint64_t>();
  header.host = input.number<decltype(header.host)>();
  header.groups[0].size = input.number<std::int32_t>();
  header.groups[0].name = input.number<decltype(header.groups[0].name)>();
  if ((wrong & 16U) != 0) {
    header.starting = header.pid.exchange(0);
    std::ranges::copy(header.host, header.waits_for.begin());
  }
  for (std::size_t i = 0; !input.empty() && i < kEntries; ++i)
    memory->ring[(header.written + kEntries - 1 - i) % kEntries] = input.number<Entry>();
  const bool copied = (wrong & 8U) != 0;
  std::vector<std::byte> bytes(kRecordBytes);
  std::memcpy(bytes.data(), static_cast<const void*>(memory.get()), kRecordBytes);
  return copied ? copy_record(bytes) : bytes;
}

TUTTI_FUZZER(record_fuzz)(const std::uint8_t* data, std::size_t size) {
  check(read_record(std::as_bytes(std::span(data, size))));
  Input input(data, size);
  check(read_record(record_with(input)));
  return 0;
}

}  // namespace tutti::fuzz::record_reader
