#include <array>
#include <cstdint>

#include "models/protocols.hpp"
#include "models/words.hpp"

// The protocols by which ranks share memory: nothing here sleeps.
namespace tutti::models {
namespace {

/// Ranks compare their calls and read each other's payloads, operation by operation, with a window
/// of one operation: a line is written again when all ranks have passed it.
struct Lines final : Program {
  Lines(int ranks_, int rounds_) : ranks(ranks_), rounds(rounds_) {}
  void run(int rank) override {
    Block& mine = blocks[std::size_t(rank)];
    for (std::uint64_t number = 1; number <= std::uint64_t(rounds); ++number) {
      each_other(rank, [&](Block& one, int) {
        await([&] { return shm::value_of(one.done) >= number - 1; });
      });
      Line& own = mine.lines[0];
      shm::publish_line(own, number, number,
                        [&] { own.payload = 10 * number + std::uint64_t(rank); });
      each_other(rank, [&](Block& one, int other) {
        const Line& line = one.lines[0];
        await([&] { return shm::has_come(line, number); });
        require(line.fingerprint == number, "the fingerprint of another call");
        require(line.payload == 10 * number + std::uint64_t(other), "the payload of another call");
      });
      shm::raise_counter(mine.done, number);
    }
  }
  template <class Action>
  void each_other(int rank, Action action) {
    for (int other = 0; other < ranks; ++other)
      if (other != rank) action(blocks[std::size_t(other)], other);
  }
  int ranks;
  int rounds;
  std::array<Block, 3> blocks;
};

/// A rank uses a block for a second group, once a member has read all that it wanted of the first.
/// The member's own block serves another group soon, too. A third rank finds the second group.
struct Blocks final : Program {
  static constexpr std::uint64_t kSettled = ~std::uint64_t{0};
  static constexpr std::uint64_t kFirst = 1, kSecond = 2, kOther = 3;
  void run(int rank) override {
    if (rank == 0) {
      shm::show_block(owner.directory, owner.block, owner.words.break_word, kFirst);
      shm::publish_line(owner.line(), 11, 1, [&] { owner.line().payload = 11; });
      await([&] {
        return !shm::serves_group(member.directory, kFirst) ||
               shm::value_of(member.block.done) == kSettled;
      });
      shm::show_block(owner.directory, owner.block, owner.words.break_word, kSecond);
      owner.line().payload = 22;
    } else if (rank == 1) {
      await([&] { return shm::serves_group(owner.directory, kFirst); });
      await([&] { return shm::has_come(owner.line(), 1); });
      require(owner.line().payload == 11, "the payload of another group");
      shm::raise_counter(member.block.done, kSettled);
      shm::show_block(member.directory, member.block, member.words.break_word, kOther);
    } else {
      await([&] { return shm::serves_group(owner.directory, kSecond); });
      require(!shm::has_come(owner.line(), 1), "a line of another group");
      require(shm::value_of(owner.block.counters[0][0]) == 0, "a counter of another group");
      require(shm::value_of(owner.block.done) == 0, "`done` of another group");
      require(owner.block.note.length == 0, "the note of another group");
      require(shm::claim_break(owner.words.break_word, 7) == 0, "the break word of another group");
    }
  }
  void finish() override { require(owner.words.break_word.last() == 7, "the break word is lost"); }
  struct Rank {
    Line& line() { return block.lines[0]; }
    Atomic<std::uint64_t> directory;
    Block block;
    RankWords words;
  };
  Rank owner{0, {}, {}};
  Rank member{kFirst, {}, {}};
};

/// Rank 0 stages data in turn, rank 1 adds its own, rank 2 reads both: by counters alone.
struct Counters final : Program {
  explicit Counters(int rounds_) : rounds(rounds_) {}
  void run(int rank) override {
    const auto reached = [&](int other, std::uint64_t value) {
      await([&] { return shm::value_of(counters[std::size_t(other)]) >= value; });
    };
    for (std::uint64_t round = 1; round <= std::uint64_t(rounds); ++round) {
      if (rank == 0) {
        reached(2, round - 1);
        staged[0] = round;
      } else if (rank == 1) {
        reached(0, round);
        staged[1] = staged[0] + 10;
      } else {
        reached(1, round);
        require(staged[0] == round, "what rank 0 has staged in another round");
        require(staged[1] == round + 10, "what rank 1 has staged in another round");
      }
      shm::raise_counter(counters[std::size_t(rank)], round);
    }
  }
  int rounds;
  std::array<Counter, 3> counters;
  std::array<Plain<std::uint64_t>, 2> staged;
};

/// Frames of one line through a ring with room for two; the last word of `written` ends it.
struct Ring final : Program {
  static constexpr std::uint64_t kFrame = shm::kRingAlign;
  static constexpr std::uint64_t kFrames = 3;
  void run(int rank) override {
    if (rank == 0) {
      std::uint64_t written = 0;
      for (std::uint64_t frame = 0; frame < kFrames; ++frame) {
        await([&] { return written + kFrame - shm::taken_by(reader) <= 2 * kFrame; });
        ring[frame % 2] = 10 + frame;
        written += kFrame;
        shm::show_written(writer, written);
      }
      shm::show_written(writer, written | shm::kLastWord);
      return;
    }
    std::uint64_t taken = 0;
    while (true) {
      std::uint64_t word = 0;
      await([&] { return (word = shm::written_by(writer)) != taken; });
      for (; taken != (word & ~shm::kLastWord); taken += kFrame) {
        require(ring[taken / kFrame % 2] == 10 + taken / kFrame, "another frame");
        shm::show_taken(reader, taken + kFrame);
      }
      if (word != taken) break;
    }
    require(taken == kFrames * kFrame, "the ring ends before its frames");
  }
  RingCounters writer;
  RingCounters reader;
  std::array<Plain<std::uint64_t>, 2> ring;
};

/// Two short messages through one line, with a frame between them, or behind both.
struct Shorts final : Program {
  static constexpr std::uint64_t kFrame = shm::kRingAlign;
  explicit Shorts(std::uint64_t before_) : before(before_) {}
  void run(int rank) override {
    if (rank == 0) {
      std::uint64_t written = 0;
      for (std::uint64_t count = 1; count <= 2; ++count) {
        await([&] { return count - 1 - shm::shorts_taken_by(reader) < 1; });
        line.after = written;
        line.data = count;
        shm::show_short(line, count);
        if (count != before) continue;
        ring = 10;
        shm::show_written(writer, written += kFrame);
      }
      return;
    }
    std::uint64_t taken = 0;
    std::uint64_t shorts = 0;
    while (taken == 0 || shorts < 2) {
      std::uint64_t written = 0;
      const auto has_short = [&] {
        return shm::short_has_come(line, shorts + 1) && line.after == taken;
      };
      await([&] { return (written = shm::written_by(writer)) != taken || has_short(); });
      for (; has_short(); shm::show_shorts_taken(reader, ++shorts))
        require(line.data == shorts + 1, "another message");
      if (written == taken) continue;
      require(shorts >= before, "a frame before a message that was sent first");
      require(ring == 10, "another frame");
      taken += kFrame;
    }
  }
  std::uint64_t before;
  RingCounters writer;
  RingCounters reader;
  ShortMessage line;
  Plain<std::uint64_t> ring;
};

/// Two short messages of two lines each, through two lines.
struct ShortLines final : Program {
  void run(int rank) override {
    for (std::uint64_t count = 2; count <= 4; count += 2) {
      if (rank == 0) {
        await([&] { return shm::shorts_taken_by(reader) == count - 2; });
        first.data = count;
        shm::show_short(first, count - 1);
        rest.data = 10 * count;
        shm::show_short(rest, count);
      } else {
        await([&] {
          return shm::short_has_come(first, count - 1) && shm::short_has_come(rest, count);
        });
        require(first.data == count && rest.data == 10 * count, "the bytes of another message");
        shm::show_shorts_taken(reader, count);
      }
    }
  }
  RingCounters reader;
  ShortMessage first;
  ShortMessage rest;
};

}  // namespace

std::vector<Model> memory_models() {
  return {
      model<Counters>("counters", "three ranks, two rounds", {3}, 2),
      model<Lines>("lines", "two ranks, three operations", {2}, 2, 3),
      model<Lines>("lines", "three ranks", {3}, 3, 1),
      model<Blocks>("lines", "block of another group", {3}),
      model<Ring>("rings", "three frames, room for two", {2}),
      model<Shorts>("rings", "short messages around a frame", {2}, 1),
      model<Shorts>("rings", "short messages before a frame", {2}, 2),
      model<ShortLines>("rings", "short messages of two lines", {2}),
  };
}

}  // namespace tutti::models
