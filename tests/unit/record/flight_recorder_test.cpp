#include "record/flight_recorder.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "os/handed_memory.hpp"
#include "record/trace.hpp"
#include "support/variable.hpp"

namespace tutti::record {
namespace {

/// Memory as a launcher keeps it, and the recorder of a process that was given it.
class Recorded : public testing::Test {
 protected:
  Recorded() {
    auto fd = FlightRecorder::make_memory();
    memory_ = std::move(fd.value());
    mapping_ = std::move(os::map_shared(memory_, kRecordBytes, true).value());
    variable_.emplace("TUTTI_RECORD_FD", os::name_handed(memory_).value());
    recorder_ = std::move(FlightRecorder::make(2, 4, "node-1").value());
    world_ = recorder_->add_group(7, "world", 2, 4);
  }

  [[nodiscard]] std::span<const std::byte> bytes() const {
    return {mapping_.data(), mapping_.size()};
  }
  [[nodiscard]] Memory& memory() { return *reinterpret_cast<Memory*>(mapping_.data()); }
  std::uint64_t call(std::uint64_t seq) {
    const Collective all_reduce{
        .kind = Kind::all_reduce, .input = TensorView(data_), .output = TensorView(data_)};
    return recorder_->called(world_, seq, all_reduce, EntryState::running);
  }
  [[nodiscard]] Record read() const { return read_record(copy_record(bytes())).value(); }

  std::array<float, 3> data_{};
  os::Fd memory_;
  os::Mapping mapping_;
  std::optional<test::Variable> variable_;
  std::unique_ptr<FlightRecorder> recorder_;
  std::uint16_t world_ = 0;
};

TEST_F(Recorded, TellsWhatWasCalledAndHowItEnded) {
  const std::uint64_t quick = call(1);
  recorder_->ended(quick, false, false);
  const std::uint64_t slow = call(2);
  recorder_->waits_for(slow, 3);
  recorder_->ended(slow, true, true);
  const Collective recv{.kind = Kind::recv,
                        .root = 1,
                        .tag = 9,
                        .input = {},
                        .output = TensorView(data_.data(), DType::float32, 2)};
  recorder_->called(world_, 99, recv, EntryState::running);
  const Record record = read();
  EXPECT_EQ(record.rank, 2);
  EXPECT_EQ(record.size, 4);
  EXPECT_EQ(record.pid, ::getpid());
  EXPECT_EQ(record.host, "node-1");
  ASSERT_EQ(record.operations.size(), 3U);
  const Operation& first = record.operations[0];
  EXPECT_EQ(first.kind, Kind::all_reduce);
  EXPECT_EQ(first.dtype, DType::float32);
  EXPECT_EQ(first.input_bytes, 12U);
  EXPECT_EQ(first.seq, 1U);
  EXPECT_EQ(first.state, EntryState::done);
  EXPECT_EQ(first.ended, 0) << "its caller never read a clock";
  EXPECT_EQ(record.groups[static_cast<std::size_t>(first.group)].name, "world");
  EXPECT_GE(first.called, record.made);
  const Operation& second = record.operations[1];
  EXPECT_EQ(second.state, EntryState::failed);
  EXPECT_EQ(second.waits_for, 3);
  EXPECT_GE(second.ended, second.called);
  EXPECT_LE(second.ended, record.read);
  const Operation& third = record.operations[2];
  EXPECT_TRUE(third.is_open());
  EXPECT_EQ(third.tag, 9);
  EXPECT_EQ(third.waits_for, 1);
  EXPECT_EQ(third.output_bytes, 8U);
}

TEST_F(Recorded, KeepsTheLastOperations) {
  const std::uint64_t first = call(0);
  for (std::uint64_t seq = 1; seq < 3000; ++seq) call(seq);
  recorder_->ended(first, false, true);  // touches no other's place
  const Record record = read();
  EXPECT_EQ(record.written, 3000U);
  ASSERT_EQ(record.operations.size(), kEntries - 1U) << "the oldest may be written just now";
  EXPECT_EQ(record.operations.front().seq, 3000 - kEntries + 1U);
  EXPECT_EQ(record.operations.back().seq, 2999U);
  for (const Operation& operation : record.operations)
    EXPECT_EQ(operation.state, EntryState::running);
}

TEST_F(Recorded, ASecondRecorderHasItsOwnMemory) {
  auto second = std::move(FlightRecorder::make(0, 1, "node-1").value());
  EXPECT_EQ(read().rank, 2) << "the launcher's is taken";
}

TEST_F(Recorded, PlacesOfGroupsServeOthersOnceNothingOfThemIsRecorded) {
  std::vector<std::uint16_t> places;
  while (true) {
    const std::uint16_t place = recorder_->add_group(places.size(), "group", 0, 1);
    if (place == kNoGroup) break;
    places.push_back(place);
  }
  EXPECT_EQ(places.size(), kGroups - 1U);
  recorder_->remove_group(places[3]);
  EXPECT_EQ(recorder_->add_group(1, "next", 0, 1), kNoGroup);
  for (std::uint64_t seq = 0; seq < kEntries; ++seq) call(seq);
  EXPECT_EQ(recorder_->add_group(1, "next", 0, 1), places[3]);
}

TEST_F(Recorded, NothingInAFileIsTrusted) {
  call(1);
  const std::vector<std::byte> good = copy_record(bytes());
  const auto read_with = [&](auto change) {
    std::vector<std::byte> bad = good;
    change(*reinterpret_cast<Memory*>(bad.data()));
    return read_record(bad);
  };
  EXPECT_EQ(read_record(std::span(good).first(100)).status().code(), Errc::invalid_argument);
  EXPECT_EQ(read_with([](Memory& m) { m.header.magic = 1; }).status().message(),
            "this is no record of tutti");
  EXPECT_EQ(read_with([](Memory& m) { m.header.version = 9; }).status().message(),
            "the record has version 9, and this program reads version 1");
  EXPECT_FALSE(read_with([](Memory& m) { m.header.rank = 4; }).ok());
  EXPECT_FALSE(read_with([](Memory& m) { m.header.pid = 0; }).ok());
  EXPECT_FALSE(read_with([](Memory& m) { m.header.entries = 1 << 30; }).ok());
  EXPECT_FALSE(read_with([](Memory& m) { m.header.last.unix_ns = -1; }).ok());
  const auto odd = read_with([](Memory& m) {
    m.header.written = ~std::uint64_t{0} - 5;
    m.ring[0].kind = 200;
    m.ring[0].group = 61;
    m.header.first = {5, 1};
    m.header.last = {6, 1LL << 61};
    m.header.groups[0].name.fill('\n');
  });
  EXPECT_TRUE(odd.ok());
  EXPECT_TRUE(odd.value().operations.empty());
}

/// An error with a text, or a record of which a trace can be made.
void expect_sound(const std::vector<std::byte>& bytes) {
  auto read = read_record(bytes);
  if (!read) {
    EXPECT_FALSE(read.status().message().empty());
  } else {
    EXPECT_LT(read->rank, read->size);
    EXPECT_LE(read->operations.size(), kEntries);
    EXPECT_TRUE(trace_json({&*read, 1}).ends_with("]}\n"));
  }
}

TEST_F(Recorded, AnyByteOfAFileMayBeWrong) {
  for (std::uint64_t seq = 0; seq < 3; ++seq) call(seq);
  const std::vector<std::byte> good = copy_record(bytes());
  // The head, one group and the entries that are read.
  std::vector<std::size_t> places;
  for (std::size_t at = 0; at < 256 + sizeof(GroupEntry); ++at) places.push_back(at);
  for (std::size_t at = 0; at < 4 * sizeof(Entry); ++at) places.push_back(sizeof(Header) + at);
  std::vector<std::byte> bad = good;
  for (const std::size_t at : places) {
    for (const int flip : {0x01, 0x80, 0xff}) {
      bad[at] = good[at] ^ std::byte(flip);
      expect_sound(bad);
    }
    bad[at] = good[at];
  }
}

TEST_F(Recorded, AFileOfAnotherLengthIsRefused) {
  call(1);
  std::vector<std::byte> bytes_of_file = copy_record(bytes());
  bytes_of_file.resize(kRecordBytes + 1);
  for (const std::size_t length :
       {std::size_t{0}, std::size_t{1}, sizeof(Header), kRecordBytes - 1, kRecordBytes + 1}) {
    const auto read = read_record(std::span(bytes_of_file).first(length));
    EXPECT_EQ(read.status().message(),
              "a record has 69632 bytes, and not " + std::to_string(length));
  }
}

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
