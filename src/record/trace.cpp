#include "record/trace.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include <tutti/backend/kinds.hpp>

#include "base/format.hpp"
#include "record/waits.hpp"

namespace tutti::record {
namespace {

/// Rows of a group, where operations overlap.
constexpr int kLanes = 64;
/// How long an operation is drawn whose end nobody noted: its caller never left the spin.
constexpr std::int64_t kSpinNs = 1000;

/// A JSON string. Control characters are no part of texts of a record (base::shown_on_line).
std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (const char letter : text) {
    if (letter == '"' || letter == '\\') out += '\\';
    out += letter;
  }
  return out + "\"";
}

std::string_view state_text(EntryState state) {
  switch (state) {  // torch's words, as far as it has them
    case EntryState::queued: return "scheduled";
    case EntryState::running: return "started";
    case EntryState::done: return "completed";
    case EntryState::failed: return "failed";
    case EntryState::none: break;
  }
  return "unknown";
}

std::int64_t end_of(const Record& record, std::size_t index) {
  const Operation& operation = record.operations[index];
  if (operation.is_open()) return std::max(record.read, operation.called);
  if (operation.ended != 0) return std::max(operation.ended, operation.called);
  std::int64_t end = operation.called + kSpinNs;
  if (index + 1 < record.operations.size())
    end = std::min(end, std::max(operation.called, record.operations[index + 1].called));
  return end;
}

std::string arguments_of(const Record& record, const Operation& operation) {
  const bool p2p = !is_collective(operation.kind);
  const std::string group =
      operation.group < 0 ? "?" : record.groups[static_cast<std::size_t>(operation.group)].name;
  const auto dtype = json_string(to_string(operation.dtype));
  std::string text = base::format(
      R"("record_id":{},"pg_id":{},"process_group":[{},""],"{}":{},"profiling_name":{},)"
      R"("input_dtypes":[{}],"output_dtypes":[{}],"input_bytes":{},"output_bytes":{},)"
      R"("time_created_ns":{},"state":"{}","is_p2p":{})",
      operation.number, operation.group, json_string(group),
      p2p ? "p2p_seq_id" : "collective_seq_id", operation.seq,
      json_string(base::format("tutti:{}", traits_of(operation.kind).name)), dtype, dtype,
      operation.input_bytes, operation.output_bytes, operation.called, state_text(operation.state),
      p2p);
  if (operation.began != 0)
    text += base::format(R"(,"time_discovered_started_ns":{})", operation.began);
  if (operation.ended != 0)
    text +=
        base::format(R"(,"time_discovered_completed_ns":{},"duration_ms":{:.6f})", operation.ended,
                     static_cast<double>(operation.ended - operation.called) / 1e6);
  if (p2p) text += base::format(R"(,"peer":{},"tag":{})", operation.peer, operation.tag);
  if (traits_of(operation.kind).rooted) text += base::format(R"(,"root":{})", operation.peer);
  if (operation.waits_for >= 0 && (!p2p || operation.is_open()))
    text += base::format(R"(,"waits_for":{})", operation.waits_for);
  return text;
}

/// The kind, and how it stands with an operation that has not ended well.
std::string name_of(const Operation& operation) {
  std::string name(traits_of(operation.kind).name);
  const bool failed = operation.state == EntryState::failed;
  if (!failed && !operation.is_open()) return name;
  if (operation.waits_for < 0) return name + (failed ? " (failed)" : " (not ended)");
  return base::format("{} ({} rank {})", name, failed ? "failed, waited for" : "waits for",
                      operation.waits_for);
}

/// A process of the viewers is a host, and a thread is a group of a rank: Perfetto shows threads
/// in the order of their numbers, and processes in that of how much they hold.
void add_record(const Record& record, std::int64_t waited, std::size_t host,
                std::vector<std::string>& events) {
  const std::string late =
      waited < kShownWait ? "" : base::format("; others waited {} for it", waited_text(waited));
  std::map<std::pair<int, int>, std::int64_t> lane_ends;  // by group and lane
  for (std::size_t i = 0; i < record.operations.size(); ++i) {
    const Operation& operation = record.operations[i];
    const std::int64_t end = end_of(record, i);
    int lane = 0;
    while (lane < kLanes - 1) {
      const auto known = lane_ends.find({operation.group, lane});
      if (known == lane_ends.end() || known->second <= operation.called) break;
      ++lane;
    }
    const auto [at, is_new] = lane_ends.insert_or_assign({operation.group, lane}, end);
    const std::int64_t row =
        (std::int64_t{record.rank} * (kGroups + 1) + operation.group + 1) * kLanes + lane;
    if (is_new) {
      const std::string name = operation.group < 0
                                   ? std::string("other groups")
                                   : record.groups[static_cast<std::size_t>(operation.group)].name;
      events.push_back(base::format(
          R"({{"ph":"M","pid":{},"tid":{},"name":"thread_name","args":{{"name":{}}}}})", host, row,
          json_string(base::format("rank {}, pid {}: {}{}", record.rank, record.pid, name, late))));
    }
    events.push_back(base::format(
        R"({{"ph":"X","pid":{},"tid":{},"name":{},"cat":"tutti","ts":{}.{:03},"dur":{}.{:03},"args":{{{}}}}})",
        host, row, json_string(name_of(operation)), operation.called / 1000,
        operation.called % 1000, (end - operation.called) / 1000, (end - operation.called) % 1000,
        arguments_of(record, operation)));
  }
}

}  // namespace

std::string trace_json(std::span<const Record> records) {
  std::vector<std::string> events;
  std::vector<std::string_view> hosts;  // in the order of their ranks
  const std::vector<std::int64_t> waited = waited_for(records);
  for (std::size_t i = 0; i < records.size(); ++i) {
    const Record& record = records[i];
    const auto known = std::ranges::find(hosts, record.host);
    const auto host = static_cast<std::size_t>(known - hosts.begin());
    if (known == hosts.end()) {
      hosts.emplace_back(record.host);
      events.push_back(
          base::format(R"({{"ph":"M","pid":{},"name":"process_name","args":{{"name":{}}}}})", host,
                       json_string(record.host)));
    }
    add_record(record, waited[i], host, events);
  }
  return base::format("{{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n{}\n]}}\n",
                      fmt::join(events, ",\n"));
}

}  // namespace tutti::record
