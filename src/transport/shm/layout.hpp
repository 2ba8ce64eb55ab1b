#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

// Layout of the memory that the ranks of one host share. docs/design/shared-memory.md draws it, and
// tests/unit/transport/shm_layout_test.cpp freezes it: a change of any offset is a new
// kLayoutVersion.
//
// One memfd holds all: first the *control part*, which every rank of the host may write, with all
// that is small, then an *arena* per rank, which only that rank can write. There is no lock, list
// or allocator in shared memory: mostly counters with one writer each that only grow;
// docs/design/shared-memory.md names the exceptions.
namespace tutti::transport::shm {

inline constexpr std::uint64_t kMagic = 0x3169747475745454;  // "TTtutti1"
inline constexpr std::uint32_t kLayoutVersion = 10;

inline constexpr int kWindow = 8;  ///< operations of a group that a rank has under way
/// Lines of a group: by so many calls a rank may be ahead of another one, if the calls need no more
/// than their lines.
inline constexpr int kLines = 64;
inline constexpr int kCounters = 2;              ///< counters of an operation
inline constexpr std::size_t kInlineBytes = 48;  ///< payload that fits into a line
inline constexpr int kMaxGroups = 4096;          ///< live groups of one rank
inline constexpr int kMaxLocalRanks = 1024;      ///< ranks of one host
/// Ring of frames from one rank to another; while only short frames pass, a part of it is used.
inline constexpr std::size_t kRingBytes = 4 * 1024 * 1024;
inline constexpr std::size_t kStagingBytes = 4 * 1024 * 1024;

/// The hot half of an arrival line. The writer fills payload and fingerprint, then releases
/// `epoch` = the operation's number; the reader acquires it.
struct alignas(64) Arrival {
  std::atomic<std::uint64_t> epoch;
  std::uint64_t fingerprint;
  union {
    std::byte data[kInlineBytes];  ///< the staged bytes themselves, up to 48
    struct {
      std::uint64_t stage_offset;  ///< else: where they lie in the writer's arena; kOfInput
      std::uint64_t stage_bytes;
    } exposed;
  } payload;
};
static_assert(sizeof(Arrival) == 64);

/// In `stage_offset`: nothing is staged, and there lies the writer's whole input.
inline constexpr std::uint64_t kOfInput = std::uint64_t{1} << 63;

/// The cold half: the call itself, read only when fingerprints differ. Its rank may be writing the
/// next call there meanwhile.
struct CallRecord {
  std::atomic<std::uint64_t> call[3];
};
static_assert(sizeof(CallRecord) == 24);

/// A counter alone on its line. Value = operation number << 24 | count, so it never goes back.
struct alignas(64) Counter {
  std::atomic<std::uint64_t> value;
};
static_assert(sizeof(Counter) == 64);
inline constexpr int kCounterShift = 24;

/// Why a group broke, in words, written by the rank that found out and read by the others of its
/// host. It lies in the group's block, which serves no other group while anybody may read it.
struct Note {
  std::uint32_t length;
  char text[1020];
};

/// The block of one rank for one group.
struct alignas(64) GroupBlock {
  Arrival lines[kLines];                 ///< operation n has line n modulo kLines,
  Counter counters[kWindow][kCounters];  ///< counters n modulo kWindow,
  /// Every operation up to a number has ended on this rank: number << 24 | the lowest 24 bits of
  /// the fingerprint of that operation.
  Counter done;
  CallRecord calls[kLines];  ///< and the record of its line's number
  Note note;

  [[nodiscard]] Arrival& line(std::uint64_t n) noexcept { return lines[n % kLines]; }
  [[nodiscard]] const Arrival& line(std::uint64_t n) const noexcept { return lines[n % kLines]; }
  [[nodiscard]] Counter& counter(std::uint64_t n, int of) noexcept {
    return counters[n % kWindow][of];
  }
  [[nodiscard]] const Counter& counter(std::uint64_t n, int of) const noexcept {
    return counters[n % kWindow][of];
  }
  [[nodiscard]] CallRecord& call(std::uint64_t n) noexcept { return calls[n % kLines]; }
  [[nodiscard]] const CallRecord& call(std::uint64_t n) const noexcept { return calls[n % kLines]; }
};
static_assert(kLines % kWindow == 0);
inline constexpr std::size_t kGroupStride = 8192;
static_assert(sizeof(GroupBlock) <= kGroupStride);

/// The first page of all.
struct HostHeader {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t ranks;  ///< of this host
};

/// The words of a rank that the others of its host look at most. All lie together: a rank that
/// wakes, or looks at, each other one then needs few pages.
struct alignas(256) RankWords {
  std::int32_t rank;  ///< global
  std::int32_t pid;
  std::atomic<std::uint32_t> left;  ///< 1: this rank has ended gracefully
  /// 1: this rank reads slowly what others stage in their caches; they stage past them then.
  std::atomic<std::uint32_t> remote_cache;
  std::atomic<std::uint32_t> slots;  ///< its groups have had slots below this number; only grows
  /// 1: it sends nothing more to ranks to which it has sent nothing. Their rings do not say so.
  std::atomic<std::uint32_t> closed;
  alignas(64) std::atomic<std::uint32_t> park;    ///< its doorbell (park.hpp); any rank writes it
  alignas(64) std::atomic<std::uint32_t> breaks;  ///< grows when a break word of it was written
  std::atomic<std::uint32_t> closings;  ///< grows when another rank has set `closed`; any rank
};
static_assert(sizeof(RankWords) == 256);

/// Counters of the frames between two ranks, which one of them writes and the other reads. Both are
/// in one cache line, so a waiting rank reads one line for each peer. All lines that a rank reads
/// lie together.
struct alignas(64) RingCounters {
  std::atomic<std::uint64_t> taken;  ///< bytes of the other's ring that we have read, only grows
  /// Bytes that we have put into our ring for the other, only grows. A multiple of kRingAlign, so
  /// that bit kLastWord is free.
  std::atomic<std::uint64_t> written;
  /// 1: we read slowly what lies in the other's cache; it writes long frames past its cache then.
  std::atomic<std::uint32_t> remote_cache;
  std::atomic<std::uint32_t> sends_short;  ///< 1: we have sent short messages to the other
  std::atomic<std::uint64_t>
      shorts_taken;  ///< lines of short messages of the other that we have read
};
static_assert(sizeof(RingCounters) == 64);
inline constexpr std::uint64_t kLastWord = 1;  ///< in `written`: no frame follows
/// Frames in a ring begin at multiples of it. No frame crosses the end of the ring: a head of type
/// kSkipType, whose other fields mean nothing, says that the next frame is at the ring's begin.
inline constexpr std::size_t kRingAlign = 64;
inline constexpr std::uint8_t kSkipType = 255;
/// In `reserved` of a head in a ring: its payload was written with non-temporal stores.
inline constexpr std::uint16_t kNonTemporal = 1;

/// The first line of a message point to point with all its bytes: the reader waits for `count`
/// alone. Its other lines have a count and 60 more bytes each. So many lines lie behind the bytes
/// of a ring, and are used in turn.
struct alignas(64) ShortMessage {
  std::atomic<std::uint32_t> count;  ///< lines in this ring up to this one; low bits
  std::uint16_t number;              ///< of the message from its sender to its receiver; low bits
  std::uint16_t bytes;
  std::uint64_t group;
  std::uint32_t tag;
  /// Bits of kAfter: units of kRingAlign in the ring before it; all of these are taken first, and
  /// no more. The other 8: the dtype.
  std::uint32_t after;
  std::byte data[40];
};
static_assert(sizeof(ShortMessage) == 64);
inline constexpr std::uint32_t kAfter = 0xffffff;
inline constexpr std::size_t kShortLines = 256;

/// A page more than the ring: rings of several peers then lie in different sets of a cache.
inline constexpr std::size_t kRingStride = kRingBytes + kShortLines * sizeof(ShortMessage) + 4096;
// In an arena; its rings begin at 0.
inline constexpr std::size_t kStagingOffset = std::size_t{4608} << 20;
inline constexpr std::size_t kHeapOffset = std::size_t{5120} << 20;
static_assert(kMaxLocalRanks * kRingStride <= kStagingOffset);

/// Bytes of an arena; sparse, only touched pages cost. Sanitizers leave less room for mappings.
#if defined(__SANITIZE_THREAD__)
inline constexpr std::size_t kArenaBytes = std::size_t{8} << 30;
#else
inline constexpr std::size_t kArenaBytes = std::size_t{64} << 30;
#endif

/// In an arena: memory that its rank has handed out to its user, behind the heap of the staging.
inline constexpr std::size_t kUserOffset = kHeapOffset + (kArenaBytes - kHeapOffset) / 2;

/// The places in the memory of a host with that many ranks. The parts by group slot lie
/// together for all ranks, so that the blocks of the world share page tables, and its ids a page.
struct HostLayout {
  std::size_t ranks = 1;

  [[nodiscard]] constexpr std::size_t words(std::size_t rank) const noexcept {
    return kAlign + rank * sizeof(RankWords);
  }
  [[nodiscard]] constexpr std::size_t ring_counters(std::size_t reader,
                                                    std::size_t writer) const noexcept {
    return aligned(words(ranks)) + (reader * ranks + writer) * sizeof(RingCounters);
  }
  /// The id of the group in a slot, 0 = free.
  [[nodiscard]] constexpr std::size_t group_id(std::size_t slot, std::size_t rank) const noexcept {
    return aligned(ring_counters(ranks, 0)) + (slot * ranks + rank) * 8;
  }
  [[nodiscard]] constexpr std::size_t break_word(std::size_t slot,
                                                 std::size_t rank) const noexcept {
    return group_id(kMaxGroups, 0) + (slot * ranks + rank) * 8;
  }
  [[nodiscard]] constexpr std::size_t block(std::size_t slot, std::size_t rank) const noexcept {
    return break_word(kMaxGroups, 0) + (slot * ranks + rank) * kGroupStride;
  }
  /// Where the control part ends.
  [[nodiscard]] constexpr std::size_t control_bytes() const noexcept {
    return block(kMaxGroups, 0);
  }
  [[nodiscard]] constexpr std::size_t arena(std::size_t rank) const noexcept {
    constexpr std::size_t kArenaAlign = std::size_t{1} << 30;  // arenas share no page table
    return (control_bytes() + kArenaAlign - 1) / kArenaAlign * kArenaAlign + rank * kArenaBytes;
  }
  [[nodiscard]] constexpr std::size_t bytes() const noexcept { return arena(ranks); }

 private:
  static constexpr std::size_t kAlign = 4096;
  [[nodiscard]] static constexpr std::size_t aligned(std::size_t bytes) noexcept {
    return (bytes + kAlign - 1) / kAlign * kAlign;
  }
};

/// The break word of a group at a rank, written by one compare-and-swap from 0. From the lowest
/// bit: Errc (8 bits), 0 (8), local index of the rank that reports (16), rank of the culprit in the
/// group + 1 (32; 0: nobody).
[[nodiscard]] constexpr std::uint64_t break_word(std::uint8_t code, int reporter,
                                                 int culprit) noexcept {
  return std::uint64_t{code} | (static_cast<std::uint64_t>(reporter & 0xffff) << 16) |
         (static_cast<std::uint64_t>(culprit + 1) << 32);
}

/// The state of a rank's park word, in its low two bits. With `futex` the other 30 bits number the
/// sleep. If a wake comes, and another thread goes to sleep again, before a thread has entered
/// futex_wait, the number differs from the one that it waits for. So it does not miss the wake.
enum class Park : std::uint32_t {
  awake = 0,
  futex = 1,    ///< a caller sleeps on the word
  eventfd = 2,  ///< the progress thread sleeps on the rank's eventfd
};

[[nodiscard]] constexpr Park state_of(std::uint32_t word) noexcept {
  return static_cast<Park>(word & 3U);
}
/// The park word of callers that sleep, for sleep `number` of this rank.
[[nodiscard]] constexpr std::uint32_t sleep_word(std::uint32_t number) noexcept {
  return static_cast<std::uint32_t>(Park::futex) | number << 2;
}

}  // namespace tutti::transport::shm
