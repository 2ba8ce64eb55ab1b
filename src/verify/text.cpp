#include "verify/text.hpp"

#include "base/format.hpp"

namespace tutti::verify {

using namespace plan;

namespace {

std::string text(const Expr& e) {
  std::string sum;
  const auto term = [&](std::int64_t factor, std::string_view name) {
    if (factor == 0) return;
    if (!sum.empty())
      sum += factor < 0 ? "-" : "+";
    else if (factor < 0)
      sum += "-";
    const std::int64_t size = factor < 0 ? -factor : factor;
    if (size != 1 || name.empty()) sum += base::format("{}", size);
    sum += name;
  };
  term(e.c1, "i");
  term(e.c2, "j");
  term(e.c0, "");
  if (sum.empty()) sum += '0';
  if (e.mod != 0) sum = base::format("({})%{}", sum, e.mod);
  if (e.base != 0) sum += base::format("{:+}", e.base);
  return sum;
}

std::string text(const Slice& s) {
  switch (s.shape) {
    case Slice::Shape::whole: return "whole";
    case Slice::Shape::chunk: return base::format("chunk {}", text(s.chunk));
    case Slice::Shape::part: return base::format("part {} of {}", text(s.part), s.parts);
    case Slice::Shape::chunk_part:
      return base::format("part {} of {} of chunk {}", text(s.part), s.parts, text(s.chunk));
    case Slice::Shape::part_chunk:
      return base::format("chunk {} of part {} of {}", text(s.chunk), text(s.part), s.parts);
    case Slice::Shape::block: return base::format("block {}", text(s.part));
    case Slice::Shape::block_chunk:
      return base::format("chunk {} of block {}", text(s.chunk), text(s.part));
    case Slice::Shape::blocks: return base::format("{} blocks from {}", s.parts, text(s.part));
  }
  return "?";
}

std::string text(const Operand& o) {
  switch (o.space) {
    case Space::input: return base::format("input[{}]", text(o.slice));
    case Space::output: return base::format("output[{}]", text(o.slice));
    case Space::stage:
      return base::format("stage(rank {}, slot {})[{}]", o.of_winner ? "winner" : text(o.rank),
                          text(o.slot), text(o.slice));
    case Space::scratch: return base::format("scratch(slot {})[{}]", text(o.slot), text(o.slice));
  }
  return "?";
}

std::string text(const RankSet& r) {
  if (r.count == 1) return base::format("rank {}", text(r.first));
  return base::format("{} ranks from {} by {}", r.count, text(r.first), r.stride);
}

std::string text(const Times& t) {
  switch (t.of) {
    case Times::Of::constant: return base::format("{} times", t.plus);
    case Times::Of::chunks: return base::format("chunks{:+} times", t.plus);
    case Times::Of::part_chunks: return base::format("chunks of 1/{}{:+} times", t.parts, t.plus);
    case Times::Of::block_chunks: return base::format("chunks of a block{:+} times", t.plus);
  }
  return "?";
}

}  // namespace

std::string to_text(const Step& s) {
  switch (s.kind) {
    case StepKind::publish:
    case StepKind::agree:
    case StepKind::end_loop: return std::string(to_string(s.kind));
    case StepKind::await_line: return base::format("await_line of {}", text(s.ranks));
    case StepKind::copy: return base::format("copy {} <- {}", text(s.dst), text(s.src));
    case StepKind::reduce: {
      const std::string_view last = s.last ? ", complete" : "";
      if (s.sources == Sources::stages) {
        return base::format("reduce {} <- stages of {}, slot {}{}", text(s.dst), text(s.ranks),
                            text(s.src.slot), last);
      }
      return base::format(
          "reduce {} <- {} slots from {}{}{}", text(s.dst), s.ranks.count, text(s.src.slot),
          s.own_input ? base::format(" for {}, own input for its own", text(s.ranks)) : "", last);
    }
    case StepKind::signal: return base::format("signal counter {} := {}", s.counter, text(s.value));
    case StepKind::await:
      return base::format("await counter {} of {} >= {}", s.counter, text(s.ranks), text(s.value));
    case StepKind::claim:
      return base::format("claim: counter {} of one of {} >= {}: go to {}", s.counter,
                          text(s.ranks), text(s.value), s.jump);
    case StepKind::jump: return base::format("go to {}", s.jump);
    case StepKind::send: return base::format("send to {}: {}", text(s.peer), text(s.src));
    case StepKind::recv: return base::format("recv from {}: {}", text(s.peer), text(s.dst));
    case StepKind::await_recv:
      if (s.value == Expr{}) return base::format("await_recv from {}", text(s.ranks));
      return base::format("await_recv from {}, but for the last {}", text(s.ranks), text(s.value));
    case StepKind::loop: return base::format("loop {}", text(s.times));
  }
  return "?";
}

std::string_view to_string(StepKind kind) noexcept {
  switch (kind) {
    case StepKind::publish: return "publish";
    case StepKind::await_line: return "await_line";
    case StepKind::agree: return "agree";
    case StepKind::copy: return "copy";
    case StepKind::reduce: return "reduce";
    case StepKind::signal: return "signal";
    case StepKind::await: return "await";
    case StepKind::claim: return "claim";
    case StepKind::jump: return "jump";
    case StepKind::send: return "send";
    case StepKind::recv: return "recv";
    case StepKind::await_recv: return "await_recv";
    case StepKind::loop: return "loop";
    case StepKind::end_loop: return "end_loop";
  }
  return "?";
}

std::string to_text(const Schedule& schedule) {
  std::string all = base::format("{} of {}: rank {} of {}\n", schedule.algorithm,
                                 to_string(schedule.kind), schedule.rank, schedule.size);
  int depth = 0;
  for (std::size_t at = 0; at < schedule.steps.size(); ++at) {
    const Step& step = schedule.steps[at];
    if (step.kind == StepKind::end_loop) --depth;
    all += base::format("{:4} {:{}}{}\n", at, "", 2 * depth, to_text(step));
    if (step.kind == StepKind::loop) ++depth;
  }
  return all;
}

}  // namespace tutti::verify
