#include "plan/program.hpp"

#include <cassert>

#include "base/index.hpp"

namespace tutti::plan {
namespace {

Operand operand(Space space, Expr rank, Expr slot, Slice slice, bool of_winner = false) {
  return {.space = space, .rank = rank, .slot = slot, .slice = slice, .of_winner = of_winner};
}

Slice slice_of(Slice::Shape shape, Expr c, Expr p, int parts) {
  return {.shape = shape, .chunk = c, .part = p, .parts = parts};
}

}  // namespace

Slice whole() noexcept { return {}; }
Slice chunk(Expr c) noexcept { return slice_of(Slice::Shape::chunk, c, {}, 1); }
Slice part(Expr p, int parts) noexcept { return slice_of(Slice::Shape::part, {}, p, parts); }
Slice chunk_part(Expr c, Expr p, int parts) noexcept {
  return slice_of(Slice::Shape::chunk_part, c, p, parts);
}
Slice part_chunk(Expr p, int parts, Expr c) noexcept {
  return slice_of(Slice::Shape::part_chunk, c, p, parts);
}

Slice block(Expr b) noexcept { return slice_of(Slice::Shape::block, {}, b, 1); }
Slice block_chunk(Expr b, Expr c) noexcept { return slice_of(Slice::Shape::block_chunk, c, b, 1); }

Slice blocks(Expr b, int count) noexcept { return slice_of(Slice::Shape::blocks, {}, b, count); }

Operand input(Slice slice) noexcept { return operand(Space::input, {}, {}, slice); }
Operand output(Slice slice) noexcept { return operand(Space::output, {}, {}, slice); }
Operand scratch(Expr slot, Slice slice) noexcept {
  return operand(Space::scratch, {}, slot, slice);
}

Expr window_slot(int window, int per_chunk, int ahead, Expr which) noexcept {
  return (per_chunk * (Expr::loop() + ahead) + which) % (std::int64_t{window} * per_chunk);
}

RankSet ranks_from(Expr first, int count) noexcept { return {first, count, 1}; }
RankSet only(Expr rank) noexcept { return {rank, 1, 1}; }

Times times(std::int64_t number) noexcept { return {Times::Of::constant, 1, number}; }
Times chunks(std::int64_t plus) noexcept { return {Times::Of::chunks, 1, plus}; }
Times part_chunks(int parts, std::int64_t plus) noexcept {
  return {Times::Of::part_chunks, parts, plus};
}
Times block_chunks(std::int64_t plus) noexcept { return {Times::Of::block_chunks, 1, plus}; }

Program::Program(std::string_view algorithm, Kind kind, const Shape& s) {
  schedule_.algorithm = algorithm;
  schedule_.kind = kind;
  schedule_.rank = s.rank;
  schedule_.size = s.size;
  schedule_.root = s.root;
}

Program Program::on_region(std::string_view algorithm, Kind kind, const Shape& s) {
  Program p(algorithm, kind, s);
  p.schedule_.region = true;
  return p;
}

Program Program::by_messages(std::string_view algorithm, Kind kind, const Shape& s) {
  Program p(algorithm, kind, s);
  p.schedule_.messages = s.size > 1;
  return p;
}

Program Program::two_level(std::string_view algorithm, Kind kind, const Shape& s) {
  Program p = on_region(algorithm, kind, s);  // a rank alone on its host publishes too
  p.schedule_.messages = s.topology->hosts > 1;
  return p;
}

void Program::chunks_of(std::size_t bytes, std::int32_t slots) noexcept {
  schedule_.chunk_bytes = bytes;
  schedule_.slot_parts = slots;
}

void Program::stage_cycle(int slots, int banks, int per_chunk) noexcept {
  schedule_.stage_slots = banks * slots;
  schedule_.slot_cycle = slots;
  schedule_.slots_per_chunk = per_chunk;
}

void Program::publish() { add({.kind = StepKind::publish}); }
void Program::await_line(RankSet ranks) { add({.kind = StepKind::await_line, .ranks = ranks}); }
void Program::agree() { add({.kind = StepKind::agree}); }

void Program::meet() {
  publish();
  await_line(others());
  agree();
}

void Program::copy(Operand dst, Operand src) {
  add({.kind = StepKind::copy, .dst = dst, .src = src});
}

void Program::reduce_stages(Operand dst, RankSet ranks, Expr slot, Slice slice, bool own_input) {
  add({.kind = StepKind::reduce,
       .sources = Sources::stages,
       .own_input = own_input,
       .ranks = ranks,
       .dst = dst,
       .src = operand(Space::stage, {}, slot, slice)});
}

void Program::reduce_slots(Operand dst, RankSet ranks, Expr slot, Slice slice, bool own_input) {
  add({.kind = StepKind::reduce,
       .sources = Sources::slots,
       .own_input = own_input,
       .ranks = ranks,
       .dst = dst,
       .src = scratch(slot, slice)});
}

void Program::mark_last() {
  assert(!schedule_.steps.empty() && schedule_.steps.back().kind == StepKind::reduce);
  schedule_.steps.back().last = schedule_.size > 1;
}

void Program::signal(int counter, Expr value) {
  add({.kind = StepKind::signal, .counter = static_cast<std::uint8_t>(counter), .value = value});
}

void Program::await(int counter, RankSet ranks, Expr value) {
  add({.kind = StepKind::await,
       .counter = static_cast<std::uint8_t>(counter),
       .ranks = ranks,
       .value = value});
}

std::size_t Program::claim(int counter, RankSet ranks, Expr value) {
  add({.kind = StepKind::claim,
       .counter = static_cast<std::uint8_t>(counter),
       .ranks = ranks,
       .value = value});
  return schedule_.steps.size() - 1;
}

std::size_t Program::jump() {
  add({.kind = StepKind::jump});
  return schedule_.steps.size() - 1;
}

void Program::land(std::size_t step) {
  schedule_.steps[step].jump = static_cast<std::int32_t>(schedule_.steps.size());
}

void Program::send(Expr peer, Operand src) {
  add({.kind = StepKind::send, .peer = peer, .src = src});
}

void Program::recv(Expr peer, Operand dst) {
  add({.kind = StepKind::recv, .peer = peer, .dst = dst});
}

void Program::await_recv(RankSet ranks, Expr missing) {
  add({.kind = StepKind::await_recv, .ranks = ranks, .value = missing});
}

void Program::loop(Times how_often) {
  assert(depth_ < 2);
  open_[depth_++] = static_cast<std::int32_t>(schedule_.steps.size());
  add({.kind = StepKind::loop, .times = how_often});
}

void Program::end_loop() {
  assert(depth_ > 0);
  add({.kind = StepKind::end_loop});
  land(base::as_size(open_[--depth_]));
}

Operand Program::stage(Expr slot, Slice slice) const noexcept {
  return stage_of(schedule_.rank, slot, slice);
}
Operand Program::stage_of(Expr rank, Expr slot, Slice slice) noexcept {
  return operand(Space::stage, rank, slot, slice);
}
Operand Program::stage_of_winner(Expr slot, Slice slice) noexcept {
  return operand(Space::stage, {}, slot, slice, true);
}

RankSet Program::others() const noexcept {
  return ranks_from((schedule_.rank + 1) % schedule_.size, schedule_.size - 1);
}
RankSet Program::everybody() const noexcept { return ranks_from(0, schedule_.size); }

}  // namespace tutti::plan
