#include <fmt/format.h>

#include <algorithm>

#include "plan/proof_machine.hpp"

// The steps that touch memory.
namespace tutti::plan::proof {

bool Machine::place(int r, const Operand& operand, std::int64_t slot_plus, Place& out) {
  Rank& rank = ranks_[static_cast<std::size_t>(r)];
  const Range elements = range(r, operand);
  out = {nullptr, elements.first, elements.count, elements.first};
  if (operand.space == Space::input || operand.space == Space::output) {
    out.cells = operand.space == Space::input || case_.in_place ? &rank.input : &rank.output;
    return true;
  }
  const bool stage = operand.space == Space::stage;
  const int owner = !stage ? r : operand.of_winner ? rank.found : rank_at(r, operand.rank);
  if (owner < 0) {
    tell(Fault::stage_unknown, r, "the stage of a winner without a claim");
    return false;
  }
  if (owner != r && !rank.line_seen[static_cast<std::size_t>(owner)]) {
    tell(Fault::stage_unknown, r, fmt::format("the stage of rank {}", owner));
    return false;
  }
  Rank& home = ranks_[static_cast<std::size_t>(owner)];
  std::int64_t slot = at(r, operand.slot) + slot_plus;
  const std::int32_t slots = stage ? home.schedule->stage_slots : home.schedule->scratch_slots;
  const std::size_t origin = slot_origin(operand, rank.binding, rank.var[0], rank.var[1]);
  const bool in_slots = slot >= 0 && slot < slots;
  if (in_slots && stage && rank.cycle > 0) {
    const std::int64_t cycle = rank.schedule->slot_cycle;
    slot = slot / cycle * rank.cycle + slot % cycle;
  }
  const std::size_t inside = elements.first - origin;
  out.cells = stage ? &home.stage : &home.scratch;
  out.at = static_cast<std::size_t>(std::max<std::int64_t>(slot, 0)) * rank.slot + inside;
  if (!in_slots || inside + elements.count > rank.slot ||
      out.at + elements.count > out.cells->size()) {
    tell(Fault::out_of_bounds, r,
         fmt::format("elements {}..{} from {} on in slot {} of {} ({} elements each)",
                     elements.first, elements.first + elements.count, origin, slot, slots,
                     rank.slot));
    return false;
  }
  return true;
}

bool Machine::read(int r, const Operand& operand, std::int64_t slot_plus, const Message* message,
                   std::vector<int>& sums) {
  Place where;
  if (!place(r, operand, slot_plus, where)) return false;
  std::vector<Memory::Race> races;
  memory_.read(where, {r, &ranks_[static_cast<std::size_t>(r)].clock}, message, sums, races);
  tell(races, r);
  return true;
}

bool Machine::may_write_output(int r) {
  const Rank& rank = ranks_[static_cast<std::size_t>(r)];
  if (rank.schedule->kind == Kind::broadcast && r == rank.schedule->root) {
    tell(Fault::output_touched, r, "the root's output");
    return false;
  }
  if (!rank.agreed) tell(Fault::before_agree, r, "an output");
  return true;
}

void Machine::write(int r, const Operand& operand, const std::vector<int>& sums) {
  Rank& rank = ranks_[static_cast<std::size_t>(r)];
  if (operand.space == Space::stage && (operand.of_winner || rank_at(r, operand.rank) != r)) {
    tell(Fault::foreign_write, r, "the stage of another rank");
    return;
  }
  Place where;
  if (!place(r, operand, 0, where)) return;
  if (operand.space == Space::output) {
    if (!may_write_output(r)) return;
    for (std::size_t i = 0; i < where.count; ++i) rank.written[where.element + i] = true;
    const bool known = std::all_of(sums.begin(), sums.end(),
                                   [&](int sum) { return sums_.covered(sum, rank.known); });
    if (!known) tell(Fault::not_compared, r, "an output");
  }
  std::vector<Memory::Race> races;
  memory_.write(where, {r, &rank.clock}, rank.clock[static_cast<std::size_t>(r)], sums, races);
  tell(races, r);
}

void Machine::copy(int r, const Step& step) {
  const Range from = range(r, step.src);
  const Range to = range(r, step.dst);
  if (from.count == 0 && to.count == 0) return;
  if (from.first != to.first || from.count != to.count) {
    tell(Fault::wrong_element, r,
         fmt::format("elements from {} on become those from {} on", from.first, to.first));
    return;
  }
  std::vector<int> sums;
  if (read(r, step.src, 0, nullptr, sums)) write(r, step.dst, sums);
}

void Machine::reduce(int r, const Step& step) {
  const Range from = range(r, step.src);
  const Range to = range(r, step.dst);
  if (from.count == 0 && to.count == 0) return;
  if (from.first != to.first || from.count != to.count) {
    tell(Fault::wrong_element, r,
         fmt::format("elements from {} on become those from {} on", from.first, to.first));
    return;
  }
  std::vector<std::vector<int>> sources(static_cast<std::size_t>(step.ranks.count));
  for (int k = 0; k < step.ranks.count; ++k) {
    const int q = member(r, step.ranks, k);
    Operand source = step.src;
    std::int64_t slot_plus = 0;
    if (step.own_input && q == r) {
      source.space = Space::input;
    } else if (step.sources == Sources::stages) {
      source.rank = constant(q);
    } else {
      slot_plus = k;
    }
    if (!read(r, source, slot_plus, nullptr, sources[static_cast<std::size_t>(k)])) return;
  }
  std::vector<int> sums(to.count);
  std::vector<int> terms(sources.size());
  std::vector<int> last;
  int last_sum = Sums::kUndefined;
  for (std::size_t e = 0; e < to.count; ++e) {
    for (std::size_t k = 0; k < sources.size(); ++k) terms[k] = sources[k][e];
    if (terms != last) {
      last_sum = sums_.combine(terms);
      last = terms;
    }
    sums[e] = last_sum;
  }
  write(r, step.dst, sums);
}

void Machine::send(int r, const Step& step) {
  const int to = rank_at(r, step.peer);
  const Range elements = range(r, step.src);
  if (elements.count == 0) return;
  if (to == r) {
    tell(Fault::unmatched_message, r, "a message to itself");
    return;
  }
  std::deque<Message>& queue =
      ranks_[static_cast<std::size_t>(to)].from[static_cast<std::size_t>(r)].messages;
  Message& message = queue.emplace_back();
  message.from = r;
  message.to = to;
  message.first_element = elements.first;
  if (!read(r, step.src, 0, &message, message.sums)) {
    message.sums.assign(elements.count, Sums::kUndefined);
  }
  Release out = release(r);
  message.clock = std::move(out.clock);
  message.known = std::move(out.known);
}

void Machine::receive(int r, const Step& step) {
  Rank& rank = ranks_[static_cast<std::size_t>(r)];
  const int from = rank_at(r, step.peer);
  Post post;
  if (range(r, step.dst).count > 0) {
    if (from == r) {
      tell(Fault::unmatched_message, r, "a receive from itself");
      return;
    }
    if (step.dst.space == Space::stage && rank_at(r, step.dst.rank) != r) {
      tell(Fault::foreign_write, r, "the stage of another rank");
      return;
    }
    if (!place(r, step.dst, 0, post.place)) {
      rank.failed = true;
      return;
    }
    post.to_output = step.dst.space == Space::output;
    if (post.to_output && !may_write_output(r)) return;
    post.step = rank.pc;
    Release now = release(r);
    post.clock = std::move(now.clock);
    post.known = std::move(now.known);
  }
  rank.from[static_cast<std::size_t>(from)].posts.push_back(std::move(post));
}

bool Machine::await_receives(int r, const Step& step) {
  Rank& rank = ranks_[static_cast<std::size_t>(r)];
  const std::int64_t missing = std::max<std::int64_t>(at(r, step.value), 0);
  for (int k = 0; k < step.ranks.count; ++k) {
    const int q = member(r, step.ranks, k);
    if (q == r) continue;
    Inbox& inbox = rank.from[static_cast<std::size_t>(q)];
    while (static_cast<std::int64_t>(inbox.completed) + missing <
           static_cast<std::int64_t>(inbox.posts.size())) {
      Post& post = inbox.posts[inbox.completed];
      if (post.place.count > 0) {
        if (inbox.received == inbox.messages.size()) {
          waits_for_ = q;
          return false;
        }
        complete(r, q, post);
        ++inbox.received;
      }
      ++inbox.completed;
    }
  }
  return true;
}

void Machine::complete(int r, int from, Post& post) {
  Rank& rank = ranks_[static_cast<std::size_t>(r)];
  Inbox& inbox = rank.from[static_cast<std::size_t>(from)];
  Message& message = inbox.messages[inbox.received];
  if (message.sums.size() != post.place.count) {
    tell(Fault::size_mismatch, r,
         fmt::format("{} elements from rank {}, which sent {}", post.place.count, from,
                     message.sums.size()));
    rank.failed = true;
    return;
  }
  if (message.first_element != post.place.element && rank.schedule->kind != Kind::barrier) {
    tell(Fault::wrong_element, r,
         fmt::format("elements from {} on of rank {} become those from {} on",
                     message.first_element, from, post.place.element));
    std::fill(message.sums.begin(), message.sums.end(), Sums::kUndefined);
  }
  // It lands at any time between the later of post and send and now: the writer is the network.
  Clock landing = message.clock;
  join(landing, post.clock);
  Known known = message.known;
  join(known, post.known);
  acquire(r, from, {0, message.clock, message.known}, true);
  message.completed = rank.clock[static_cast<std::size_t>(r)];
  std::vector<Memory::Race> races;
  memory_.write(post.place, {r, &landing}, message.completed, message.sums, races);
  tell(races, r);
  if (!post.to_output) return;
  for (std::size_t i = 0; i < post.place.count; ++i) {
    rank.written[post.place.element + i] = true;
    if (!sums_.covered(message.sums[i], known)) tell(Fault::not_compared, r, "an output");
  }
}

}  // namespace tutti::plan::proof
