#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "plan/builders.hpp"
#include "plan/schedule.hpp"

// The functions and the class that builders use to write schedules.
namespace tutti::plan {

[[nodiscard]] Slice whole() noexcept;
[[nodiscard]] Slice chunk(Expr c) noexcept;
[[nodiscard]] Slice part(Expr p, int parts) noexcept;
[[nodiscard]] Slice chunk_part(Expr c, Expr p, int parts) noexcept;
[[nodiscard]] Slice part_chunk(Expr p, int parts, Expr c) noexcept;
[[nodiscard]] Slice block(Expr b) noexcept;
[[nodiscard]] Slice block_chunk(Expr b, Expr c) noexcept;
/// `count` blocks from b on.
[[nodiscard]] Slice blocks(Expr b, int count) noexcept;

[[nodiscard]] Operand input(Slice slice) noexcept;
[[nodiscard]] Operand output(Slice slice) noexcept;
[[nodiscard]] Operand scratch(Expr slot, Slice slice) noexcept;

/// Slot `which` of the `per_chunk` slots of chunk i + ahead; there are slots for `window` chunks.
[[nodiscard]] Expr window_slot(int window, int per_chunk, int ahead, Expr which = 0) noexcept;

/// ranks first, first + 1, ... (count of them).
[[nodiscard]] RankSet ranks_from(Expr first, int count) noexcept;
[[nodiscard]] RankSet only(Expr rank) noexcept;

[[nodiscard]] Times times(std::int64_t number) noexcept;
/// As many times as the operation has chunks, plus `plus`.
[[nodiscard]] Times chunks(std::int64_t plus = 0) noexcept;
/// As many times as the largest of `parts` parts has chunks.
[[nodiscard]] Times part_chunks(int parts, std::int64_t plus = 0) noexcept;
/// As many times as the largest block has chunks.
[[nodiscard]] Times block_chunks(std::int64_t plus = 0) noexcept;

/// Writes down a schedule step by step.
class Program {
 public:
  /// A schedule on shared memory, by messages, or with both: messages between hosts.
  [[nodiscard]] static Program on_region(std::string_view algorithm, Kind kind, const Shape& s);
  [[nodiscard]] static Program by_messages(std::string_view algorithm, Kind kind, const Shape& s);
  [[nodiscard]] static Program two_level(std::string_view algorithm, Kind kind, const Shape& s);

  void symmetry(Symmetry symmetry) noexcept { schedule_.symmetry = symmetry; }
  void order(OrderClass order) noexcept { schedule_.order = order; }
  void slots_hold(std::int32_t what) noexcept { schedule_.slot_parts = what; }
  void chunks_of(std::size_t bytes, std::int32_t slots = kSlotOfAll) noexcept;
  void stage_slots(int slots) noexcept { schedule_.stage_slots = slots; }
  /// `banks` banks of `slots` slots that chunks cycle through; each chunk takes `per_chunk` of them
  /// in each bank.
  void stage_cycle(int slots, int banks = 1, int per_chunk = 1) noexcept;
  void scratch_slots(int slots) noexcept { schedule_.scratch_slots = slots; }
  [[nodiscard]] Schedule take() noexcept { return std::move(schedule_); }

  void publish();
  void await_line(RankSet ranks);
  void agree();
  /// Publishes, waits for the lines of all other ranks, and agrees with them.
  void meet();
  void copy(Operand dst, Operand src);
  /// dst <- the stages of `ranks`, at `src`'s slot and slice; `own_input`: see Sources.
  void reduce_stages(Operand dst, RankSet ranks, Expr slot, Slice slice, bool own_input);
  /// dst <- scratch slots slot, slot + 1, ...; `own_input`: see Sources.
  void reduce_slots(Operand dst, RankSet ranks, Expr slot, Slice slice, bool own_input);
  /// The reduce step just written has a complete result (see Step::last). No effect with one rank:
  /// then AVG divides nothing.
  void mark_last();
  void signal(int counter, Expr value);
  void await(int counter, RankSet ranks, Expr value);
  /// Returns the index of the step, for `land`.
  [[nodiscard]] std::size_t claim(int counter, RankSet ranks, Expr value);
  [[nodiscard]] std::size_t jump();
  /// The claim or jump at `step` leads to the step that is written next.
  void land(std::size_t step);
  void send(Expr peer, Operand src);
  void recv(Expr peer, Operand dst);
  /// Waits for all receives posted from `ranks` but the last `missing` of each.
  void await_recv(RankSet ranks, Expr missing = {});
  void loop(Times how_often);
  void end_loop();

  /// Calls `body(rank)` for `count` ranks from `first` on: for each of them if they are few, else
  /// once in a loop of the schedule. The rank is a number, or a number plus a loop variable. It is
  /// never taken modulo the size, so that it can be added to slots.
  template <class Body>
  void for_ranks(int first, int count, Body body) {
    if (count <= kEnumerated) {
      for (int k = 0; k < count; ++k) body(first + k);
      return;
    }
    loop_over(first, count, body);
  }

  /// The same for all other ranks, from the next one on.
  template <class Body>
  void for_each_other(Body body) {
    const int rank = schedule_.rank;
    const int size = schedule_.size;
    if (size - 1 <= kEnumerated) {
      for (int k = 1; k < size; ++k) body((rank + k) % size);
      return;
    }
    loop_over(rank + 1, size - 1 - rank, body);
    loop_over(0, rank, body);
  }

  /// This rank's own stage / that of `rank`.
  [[nodiscard]] Operand stage(Expr slot, Slice slice) const noexcept;
  [[nodiscard]] static Operand stage_of(Expr rank, Expr slot, Slice slice) noexcept;
  [[nodiscard]] static Operand stage_of_winner(Expr slot, Slice slice) noexcept;
  /// Every rank but this one, from the next one on.
  [[nodiscard]] RankSet others() const noexcept;
  [[nodiscard]] RankSet everybody() const noexcept;

 private:
  static constexpr int kEnumerated = 8;

  Program(std::string_view algorithm, Kind kind, const Shape& s);
  void add(const Step& step) { schedule_.steps.push_back(step); }
  template <class Body>
  void loop_over(int first, int count, const Body& body) {
    if (count == 0) return;
    loop(times(count));
    body(first + (depth_ == 1 ? Expr::loop() : Expr::inner_loop()));
    end_loop();
  }

  Schedule schedule_;
  std::int32_t open_[2] = {0, 0};
  int depth_ = 0;
};

}  // namespace tutti::plan
