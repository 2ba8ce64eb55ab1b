#include <array>
#include <cstdint>

#include "models/protocols.hpp"
#include "models/words.hpp"

// The protocols by which threads sleep and are woken.
namespace tutti::models {
namespace {

/// With membarrier a publisher has no fence, else it has one.
enum class Fence { by_sleeper, by_both };

/// Ranks publish a line each; a caller of another rank sleeps until all are there.
struct Park final : Program {
  Park(Fence fence, int publishers_) : by_both(fence == Fence::by_both), publishers(publishers_) {}
  void run(int thread) override {
    if (thread > 0) {
      Line& line = lines[std::size_t(thread - 1)];
      shm::publish_line(line, 1, 1, [&] { line.payload = 5; });
      shm::fence_publication<Fences>(by_both);
      if (shm::is_parked(words.park)) wake(words.park, eventfd);
      return;
    }
    int come = 0;
    const auto look = [&] {
      const int before = come;
      while (come < publishers && shm::has_come(lines[std::size_t(come)], 1)) ++come;
      return come > before;
    };
    const auto sleep = [&](std::uint32_t word) { words.park.word().futex_wait(word); };
    while (come < publishers)
      shm::park_caller<Fences>(words.park, parked, sleeps, !by_both, look, sleep);
    for (int i = 0; i < publishers; ++i)
      require(lines[std::size_t(i)].payload == 5, "a line that is not there");
  }
  bool by_both;
  int publishers;
  std::array<Line, 2> lines;
  RankWords words;
  Atomic<std::uint32_t> eventfd;
  Atomic<int> parked;
  std::uint32_t sleeps = 0;
};

/// A writer that finds no room in its ring sleeps until the reader has made some.
struct Room final : Program {
  static constexpr std::uint64_t kFrame = shm::kRingAlign;
  explicit Room(Fence fence) : by_both(fence == Fence::by_both) {}
  void run(int thread) override {
    if (thread == 1) {
      std::uint64_t word = 0;
      for (std::uint64_t taken = 0; taken < 2 * kFrame; taken += kFrame) {
        await([&] { return (word = shm::written_by(writer)) != taken; });
        require(ring == 10 + taken / kFrame, "another frame");
        shm::show_taken(reader, taken + kFrame);
        shm::fence_publication<Fences>(by_both);
        if (shm::may_wait_for_room(writer, taken, kFrame) && shm::is_parked(words.park))
          wake(words.park, eventfd);
      }
      return;
    }
    ring = 10;
    shm::show_written(writer, kFrame);
    bool room = false;
    const auto look = [&] { return room = shm::taken_by(reader) == kFrame; };
    const auto sleep = [&](std::uint32_t word) { words.park.word().futex_wait(word); };
    while (!room) shm::park_caller<Fences>(words.park, parked, sleeps, !by_both, look, sleep);
    ring = 11;
    shm::show_written(writer, 2 * kFrame);
  }
  bool by_both;
  RingCounters writer;
  RingCounters reader;
  Plain<std::uint64_t> ring;
  RankWords words;
  Atomic<std::uint32_t> eventfd;
  Atomic<int> parked;
  std::uint32_t sleeps = 0;
};

/// The progress thread sleeps on its eventfd until a rank has published its line.
struct Eventfd final : Program {
  explicit Eventfd(Fence fence) : by_both(fence == Fence::by_both) {}
  void run(int thread) override {
    if (thread == 1) {
      shm::publish_line(line, 1, 1, [&] { line.payload = 5; });
      shm::fence_publication<Fences>(by_both);
      if (shm::is_parked(words.park)) wake(words.park, eventfd);
      return;
    }
    if (shm::mark_listening(words.park)) {
      shm::fence_before_sleep<Fences>(!by_both);
      if (!shm::has_come(line, 1)) await([&] { return eventfd.load(Order::relaxed) != 0; });
    }
    shm::stop_listening(words.park);
    await([&] { return shm::has_come(line, 1); });
    require(line.payload == 5, "a line that is not there");
  }
  bool by_both;
  Line line;
  RankWords words;
  Atomic<std::uint32_t> eventfd;
};

/// Ranks break a group while another one sleeps, whose break word both may set.
struct Break final : Program {
  explicit Break(Fence fence) : by_both(fence == Fence::by_both) {}
  void run(int thread) override {
    if (thread > 0) {
      Note& note = notes[std::size_t(thread - 1)];
      note.length = std::uint32_t(thread);
      require(shm::claim_break(ranks[std::size_t(thread)].break_word, std::uint64_t(thread)) == 0,
              "another rank sets this break word");
      if (shm::tell_break(ranks[0], ranks[0].break_word, std::uint64_t(thread)))
        wake(ranks[0].park, eventfd);
      return;
    }
    const auto look = [&] { return shm::has_breaks(ranks[0], 0); };
    const auto sleep = [&](std::uint32_t word) { ranks[0].park.word().futex_wait(word); };
    bool broken = false;
    while (!broken)
      broken = shm::park_caller<Fences>(ranks[0].park, parked, sleeps, !by_both, look, sleep);
    require(shm::breaks_of(ranks[0]) != 0, "no break");
    const std::uint64_t word = shm::break_of(ranks[0].break_word);
    require(word != 0, "a break without its word");
    if (word != 0) require(notes[std::size_t(word - 1)].length == word, "a break without its note");
    // A rank that finds the break word of its reporter reads the note, too.
    if (shm::break_of(ranks[1].break_word) != 0)
      require(notes[0].length == 1, "a claim without its note");
  }
  bool by_both;
  std::array<RankWords, 3> ranks;
  std::array<Note, 2> notes;
  Atomic<std::uint32_t> eventfd;
  Atomic<int> parked;
  std::uint32_t sleeps = 0;
};

/// Two ranks break a group at once, and set each other's break word. A third only looks whether
/// one of them has: it has made the group late.
struct Claims final : Program {
  void run(int thread) override {
    if (thread == 2) {
      for (const RankWords& one : ranks) read_note(shm::break_of(one.break_word));
      return;
    }
    const auto word = std::uint64_t(thread) + 1;
    notes[std::size_t(thread)].length = std::uint32_t(word);
    const std::uint64_t shown = shm::claim_break(ranks[std::size_t(thread)].break_word, word);
    read_note(shown);
    if (shown == 0) {
      RankWords& other = ranks[std::size_t(1 - thread)];
      (void)shm::tell_break(other, other.break_word, word);
    }
  }
  void read_note(std::uint64_t word) {
    if (word != 0) require(notes[std::size_t(word - 1)].length == word, "a break without its note");
  }
  std::array<RankWords, 2> ranks;
  std::array<Note, 2> notes;
};

/// Threads that take the driver lock in turn, and change what it guards.
struct Lock final : Program {
  Lock(int threads_, int rounds_) : threads(threads_), rounds(rounds_) {}
  void run(int) override {
    for (int round = 0; round < rounds; ++round) {
      lock.lock();
      guarded = guarded + 1;
      lock.unlock();
    }
  }
  void finish() override { require(guarded == threads * rounds, "two threads have held the lock"); }
  int threads;
  int rounds;
  DriverLock lock;
  Plain<int> guarded;
};

/// A caller of a rank sleeps for an operation that another caller of the rank moves, and which
/// wakes the first as Driver::let_go does.
struct TwoCallers final : Program {
  void run(int thread) override {
    lock.lock();
    if (thread == 1) {
      moved = true;
      const bool sleepers = parked.load(Order::relaxed) > 0;
      lock.unlock();
      if (sleepers) wake(words.park, eventfd);
      return;
    }
    const auto look = [&] { return bool(moved); };
    const auto sleep = [&](std::uint32_t word) {
      lock.unlock();
      words.park.word().futex_wait(word);
      lock.lock();
    };
    while (!moved) shm::park_caller<Fences>(words.park, parked, sleeps, false, look, sleep);
    lock.unlock();
  }
  RankWords words;
  Plain<bool> moved;
  DriverLock lock;
  Atomic<std::uint32_t> eventfd;
  Atomic<int> parked;
  std::uint32_t sleeps = 0;
};

/// Two callers of a rank sleep for a line each; the second line comes once the first caller has
/// answered. The one that looks moves both, and wakes the other. The lock is one of few states.
struct Callers final : Program {
  void run(int thread) override {
    if (thread == 2) {
      for (Line& line : lines) {
        shm::publish_line(line, 1, 1, [] {});
        shm::fence_publication<Fences>(true);
        if (shm::is_parked(words.park)) wake(words.park, eventfd);
        if (&line == &lines[0]) await([&] { return answer.load(Order::relaxed) == 1; });
      }
      return;
    }
    const auto take = [&] {
      await([&] {
        int free = 0;
        return lock.compare_exchange_strong(free, 1, Order::acquire);
      });
    };
    const auto look = [&] {
      if (come == 2 || !shm::has_come(lines[std::size_t(come)], 1)) return false;
      come = come + 1;
      return true;
    };
    const auto sleep = [&](std::uint32_t word) {
      lock.store(0, Order::release);
      words.park.word().futex_wait(word);
      take();
    };
    take();
    while (come <= thread) {
      const bool moved = shm::park_caller<Fences>(words.park, parked, sleeps, false, look, sleep);
      if (moved && parked.load(Order::relaxed) > 0) wake(words.park, eventfd);
    }
    lock.store(0, Order::release);
    if (thread == 0) answer.store(1, Order::relaxed);
  }
  Plain<int> come;  ///< lines; under the lock
  std::array<Line, 2> lines;
  RankWords words;
  Atomic<int> lock;
  Atomic<int> answer;
  Atomic<std::uint32_t> eventfd;
  Atomic<int> parked;
  std::uint32_t sleeps = 0;
};

}  // namespace

std::vector<Model> sleep_models() {
  constexpr Fence kSleeper = Fence::by_sleeper;
  constexpr Fence kBoth = Fence::by_both;
  return {
      model<Park>("park words", "caller sleeps", {2}, kBoth, 1),
      model<Park>("park words", "caller sleeps, membarrier", {2}, kSleeper, 1),
      model<Park>("park words", "two publishers", {3}, kBoth, 2),
      model<Park>("park words", "two publishers, membarrier", {3}, kSleeper, 2),
      model<Eventfd>("park words", "progress thread sleeps", {2}, kBoth),
      model<Eventfd>("park words", "progress thread sleeps, membarrier", {2}, kSleeper),
      model<Break>("park words", "group breaks", {2}, kBoth),
      model<Break>("park words", "group breaks, membarrier", {2}, kSleeper),
      model<Break>("park words", "two break a group", {3}, kBoth),
      model<Claims>("park words", "two break a group at once", {3}),
      model<Callers>("park words", "two callers sleep", {3, nullptr, 1}),
      model<Room>("rings", "sleeps for room", {2}, kBoth),
      model<Room>("rings", "sleeps for room, membarrier", {2}, kSleeper),
      model<Lock>("driver lock", "two threads, twice", {2}, 2, 2),
      model<Lock>("driver lock", "three threads", {3}, 3, 1),
      model<TwoCallers>("driver lock", "moves another's operation", {2}),
  };
}

}  // namespace tutti::models
