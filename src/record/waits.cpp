#include "record/waits.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <map>
#include <utility>

#include <tutti/backend/kinds.hpp>

#include "base/format.hpp"

namespace tutti::record {
namespace {

/// The call of one rank in an operation.
struct Call {
  std::int64_t called = 0;
  std::int64_t waited_until = 0;
  std::size_t record = 0;  ///< index
  bool done = false;
};

/// By id of the group and number in it.
using Calls = std::map<std::pair<std::uint64_t, std::uint64_t>, std::vector<Call>>;

/// True if the operation ends on no rank before all ranks have called it.
bool needs_all(const Operation& operation) {
  const KindTraits& traits = traits_of(operation.kind);
  if (traits.layout == Layout::none) return true;
  return !traits.rooted && !traits.prefix && operation.input_bytes + operation.output_bytes > 0;
}

/// The end of the wait of this rank. The recorder does not know the end of a short operation.
std::int64_t waited_until(const Record& record, const Operation& operation) {
  if (operation.is_open()) return record.read;
  if (operation.ended != 0) return operation.ended;
  return needs_all(operation) ? std::numeric_limits<std::int64_t>::max() : operation.called;
}

/// Adds each record's rank to the operations of its groups that it has not come to yet. Its call
/// will be later than the record.
void add_missing(std::span<const Record> records, Calls& calls) {
  for (std::size_t i = 0; i < records.size(); ++i) {
    const Record& record = records[i];
    std::map<std::uint64_t, std::uint64_t> last;  // number of its last call, by id of the group
    for (const RecordedGroup& group : record.groups) {
      if (group.id != 0) last[group.id] = 0;
    }
    for (const Operation& operation : record.operations) {
      if (operation.group < 0 || !is_collective(operation.kind)) continue;
      std::uint64_t& number = last[record.groups[static_cast<std::size_t>(operation.group)].id];
      number = std::max(number, operation.seq);
    }
    for (const auto& [id, number] : last) {
      // A group without a call in the record has been silent for long, or is new.
      if (number == 0 && record.written > record.operations.size()) continue;
      for (auto at = calls.upper_bound({id, number}); at != calls.end() && at->first.first == id;
           ++at) {
        if (std::ranges::none_of(at->second, &Call::done))
          at->second.push_back({record.read, record.read, i});
      }
    }
  }
}

}  // namespace

std::vector<std::int64_t> waited_for(std::span<const Record> records) {
  Calls calls;
  for (std::size_t i = 0; i < records.size(); ++i) {
    for (const Operation& operation : records[i].operations) {
      if (operation.group < 0 || !is_collective(operation.kind)) continue;
      const std::uint64_t id = records[i].groups[static_cast<std::size_t>(operation.group)].id;
      calls[{id, operation.seq}].push_back({operation.called, waited_until(records[i], operation),
                                            i, operation.state == EntryState::done});
    }
  }
  add_missing(records, calls);
  std::vector<std::int64_t> waited(records.size(), 0);
  for (auto& [operation, ranks] : calls) {
    std::ranges::sort(ranks, {}, &Call::called);
    for (std::size_t late = 1; late < ranks.size(); ++late) {
      std::int64_t longest = 0;
      for (std::size_t early = 0; early < late; ++early) {
        const std::int64_t until = std::min(ranks[early].waited_until, ranks[late].called);
        longest = std::max(longest, until - ranks[early].called);
        if (until == ranks[late].called) break;  // those after it have waited shorter
      }
      // The times of a file may be anything.
      std::int64_t& sum = waited[ranks[late].record];
      sum += std::min(longest, std::numeric_limits<std::int64_t>::max() - sum);
    }
  }
  return waited;
}

std::string waited_text(std::int64_t nanoseconds) {
  return base::format("{:.1f} s", static_cast<double>(nanoseconds) / 1e9);
}

}  // namespace tutti::record
