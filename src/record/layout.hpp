#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

// The memory of a flight recorder, as it lies in a memfd and in a file.
// docs/reference/flight-recorder.md tells it; a change of any of it is a new kRecordVersion.
namespace tutti::record {

inline constexpr std::uint64_t kRecordMagic = 0x6463655269747475;  // "uttiRecd"
inline constexpr std::uint32_t kRecordVersion = 1;
inline constexpr std::uint32_t kEntries = 1024;
inline constexpr std::uint32_t kGroups = 60;
inline constexpr std::uint32_t kJoined = 8;
inline constexpr std::uint16_t kNoGroup = 0xffff;  ///< an entry of a group that had no place
inline constexpr std::int32_t kLauncher = -1;      ///< in place of a rank, where a launcher begins
inline constexpr const char* kMemoryName = "tutti-record";

enum class EntryState : std::uint8_t { none, queued, running, done, failed };

/// One operation: a cache line. Times are ticks of the CPU's counter (os::ticks).
struct Entry {
  std::uint64_t called = 0;
  std::uint64_t began = 0;  ///< it got a slot later than it was called; else 0
  std::uint64_t ended = 0;  ///< 0: it has not, or its caller never left the spin
  std::uint64_t seq = 0;    ///< of the operation in its group; of p2p: its ticket, if any
  std::uint64_t input_bytes = 0;
  std::uint64_t output_bytes = 0;
  std::uint16_t group = kNoGroup;  ///< place in Header::groups
  std::uint8_t kind = 0;
  std::uint8_t dtype = 0;
  std::uint8_t op = 0;
  EntryState state = EntryState::none;
  std::uint16_t reserved = 0;
  std::int32_t peer = 0;  ///< root, or the other rank of a send or recv
  std::int32_t more = 0;  ///< tag of a send or recv; else the rank of the world that it was last
                          ///< seen to wait for, or -1
};
static_assert(sizeof(Entry) == 64);

struct GroupEntry {
  std::uint64_t id = 0;
  std::int32_t rank = 0;
  std::int32_t size = 0;
  std::array<char, 48> name{};  ///< ends with 0, may be cut
};
static_assert(sizeof(GroupEntry) == 64);

/// The same moment by two clocks.
struct ClockPair {
  std::uint64_t ticks = 0;
  std::int64_t unix_ns = 0;
};

struct Header {
  std::uint64_t magic = kRecordMagic;
  std::uint32_t version = kRecordVersion;
  std::uint32_t entries = kEntries;
  std::uint32_t groups_size = kGroups;
  std::int32_t rank = -1;
  std::int32_t size = 0;
  std::atomic<std::int32_t> pid{0};       ///< of the process that writes; 0: it is free to take
  ClockPair first;                        ///< when it was taken
  ClockPair last;                         ///< at some look at what waits, or when it was read
  std::array<char, 64> host{};            ///< ends with 0
  std::atomic<std::uint64_t> written{0};  ///< operations so far; number n lies in entry n % entries
  /// Processes that have joined as ranks, also where they do not write; 0: a free place.
  std::array<std::atomic<std::int32_t>, kJoined> joined{};
  /// The process that begins, while `pid` is 0: see StartWatch. 0: none.
  std::atomic<std::int32_t> starting{0};
  std::int32_t reserved = 0;
  std::array<char, 80> waits_for{};  ///< ends with 0: for what that process waits
  alignas(64) std::array<GroupEntry, kGroups> groups{};
};
static_assert(sizeof(Header) == 256 + kGroups * 64);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

struct Memory {
  Header header;
  std::array<Entry, kEntries> ring{};
};
inline constexpr std::size_t kRecordBytes = sizeof(Memory);
static_assert(kRecordBytes == 69'632);

}  // namespace tutti::record
