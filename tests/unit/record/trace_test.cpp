#include "record/trace.hpp"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace tutti::record {
namespace {

constexpr std::int64_t kStart = 1'700'000'000'000'000'000;

Operation operation(Kind kind, std::int64_t after, std::int64_t ended_after, EntryState state) {
  Operation made;
  made.called = kStart + after;
  made.ended = ended_after == 0 ? 0 : kStart + ended_after;
  made.seq = 5;
  made.group = 0;
  made.kind = kind;
  made.dtype = DType::float32;
  made.input_bytes = 12;
  made.state = state;
  return made;
}

Record record_of(int rank) {
  Record record;
  record.rank = rank;
  record.size = 2;
  record.pid = 100 + rank;
  record.host = "node \"1\"";
  record.read = kStart + 9'000'000;
  record.groups.push_back({"world", rank, 2});
  return record;
}

/// The events of the operations in the trace of these records.
std::vector<nlohmann::json> slices_of(const std::vector<Record>& records) {
  const auto trace = nlohmann::json::parse(trace_json(records));
  std::vector<nlohmann::json> slices;
  for (const auto& event : trace["traceEvents"])
    if (event["ph"] == "X") slices.push_back(event);
  return slices;
}

TEST(Trace, HasASliceForEachOperation) {
  Record record = record_of(1);
  record.operations = {operation(Kind::all_reduce, 1'000, 3'500, EntryState::done),
                       operation(Kind::recv, 4'000, 0, EntryState::done),
                       operation(Kind::barrier, 4'100, 0, EntryState::running)};
  record.operations[1].tag = 7;
  record.operations[2].waits_for = 0;
  const auto trace = nlohmann::json::parse(trace_json(std::vector{record, record_of(0)}));
  const auto slices = slices_of({record, record_of(0)});
  std::vector<std::string> names;
  for (const auto& event : trace["traceEvents"])
    if (event["ph"] == "M") names.push_back(event["args"]["name"]);
  EXPECT_EQ(names, (std::vector<std::string>{"node \"1\"", "rank 1, pid 101: world"}));
  ASSERT_EQ(slices.size(), 3U);
  EXPECT_EQ(slices[0]["name"], "all_reduce");
  EXPECT_EQ(slices[0]["pid"], 0) << "its host";
  EXPECT_DOUBLE_EQ(slices[0]["dur"], 2.5) << "microseconds";
  const auto& args = slices[0]["args"];
  EXPECT_EQ(args["collective_seq_id"], 5);
  EXPECT_EQ(args["profiling_name"], "tutti:all_reduce");
  EXPECT_EQ(args["process_group"][0], "world");
  EXPECT_EQ(args["state"], "completed");
  EXPECT_EQ(args["time_created_ns"], kStart + 1'000);
  EXPECT_EQ(args["time_discovered_completed_ns"], kStart + 3'500);
  EXPECT_EQ(args["input_dtypes"][0], "float32");
  EXPECT_DOUBLE_EQ(slices[1]["dur"], 0.1) << "its end is not known; the next call has come";
  EXPECT_EQ(slices[1]["args"]["p2p_seq_id"], 5);
  EXPECT_EQ(slices[1]["args"]["tag"], 7);
  EXPECT_EQ(slices[2]["name"], "barrier (waits for rank 0)");
  EXPECT_DOUBLE_EQ(slices[2]["dur"], 8'995.9) << "until it was read";
  EXPECT_EQ(slices[2]["args"]["waits_for"], 0);
  EXPECT_EQ(slices[0]["tid"], slices[2]["tid"]);
}

TEST(Trace, HasRowsInTheOrderOfRanksAndGroups) {
  std::vector<Record> records;
  for (int rank = 0; rank < 3; ++rank) {
    records.push_back(record_of(rank));
    records.back().size = 3;
    records.back().host = rank < 2 ? "one" : "two";
    records.back().groups.push_back({"pair", rank, 2});
    records.back().operations = {operation(Kind::barrier, 1'000, 2'000, EntryState::done),
                                 operation(Kind::barrier, 3'000, 4'000, EntryState::done)};
    records.back().operations.front().group = 1 - rank % 2;
    records.back().operations.back().group = rank % 2;
  }
  const auto trace = nlohmann::json::parse(trace_json(records));
  std::map<std::pair<int, long>, std::string> rows;
  for (const auto& event : trace["traceEvents"])
    if (event["name"] == "thread_name") rows[{event["pid"], event["tid"]}] = event["args"]["name"];
  std::vector<std::string> names;
  for (const auto& [row, name] : rows) names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"rank 0, pid 100: world", "rank 0, pid 100: pair",
                                             "rank 1, pid 101: world", "rank 1, pid 101: pair",
                                             "rank 2, pid 102: world", "rank 2, pid 102: pair"}));
}

TEST(Trace, ARowTellsForHowLongOthersHaveWaitedForItsRank) {
  std::vector<Record> records{record_of(0), record_of(1)};
  for (Record& record : records) {
    record.groups.front().id = 7;
    record.operations = {
        operation(Kind::barrier, record.rank * 2'340'000'000, 0, EntryState::done)};
  }
  std::vector<std::string> names;
  const auto trace = nlohmann::json::parse(trace_json(records));
  for (const auto& event : trace["traceEvents"])
    if (event["name"] == "thread_name") names.push_back(event["args"]["name"]);
  EXPECT_EQ(names,
            (std::vector<std::string>{"rank 0, pid 100: world",
                                      "rank 1, pid 101: world; others waited 2.3 s for it"}));
}

TEST(Trace, TellsForWhomAFailedOperationHasWaited) {
  Record record = record_of(1);
  record.operations = {operation(Kind::all_reduce, 1'000, 3'500, EntryState::done),
                       operation(Kind::barrier, 4'000, 9'000, EntryState::failed),
                       operation(Kind::barrier, 9'100, 9'900, EntryState::failed),
                       operation(Kind::recv, 9'200, 9'900, EntryState::done)};
  record.operations[0].waits_for = 0;
  record.operations[1].waits_for = 0;
  record.operations[3].waits_for = 0;
  std::vector<std::string> names;
  std::vector<int> waits;
  for (const auto& slice : slices_of({record})) {
    names.push_back(slice["name"]);
    waits.push_back(slice["args"].value("waits_for", -1));
  }
  EXPECT_EQ(names, (std::vector<std::string>{"all_reduce", "barrier (failed, waited for rank 0)",
                                             "barrier (failed)", "recv"}));
  EXPECT_EQ(waits, (std::vector{0, 0, -1, -1}));
}

TEST(Trace, OperationsThatOverlapHaveRowsOfTheirOwn) {
  Record record = record_of(0);
  record.operations = {operation(Kind::all_reduce, 1'000, 5'000, EntryState::done),
                       operation(Kind::all_reduce, 2'000, 6'000, EntryState::failed)};
  const auto slices = slices_of({record});
  ASSERT_EQ(slices.size(), 2U);
  EXPECT_NE(slices[0]["tid"], slices[1]["tid"]);
}

}  // namespace
}  // namespace tutti::record
