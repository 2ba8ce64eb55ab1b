#include <algorithm>

#include <tutti/backend/kinds.hpp>
#include "base/format.hpp"
#include "base/index.hpp"
#include "verify/proof_machine.hpp"

// The steps that touch memory.
namespace tutti::verify::proof {

using namespace plan;

bool Machine::place(int r, const Operand& operand, std::int64_t slot_plus, Place& out) {
  Rank& rank = base::at(ranks_, r);
  const Range elements = range(r, operand);
  if (operand.space == Space::input || operand.space == Space::output) {
    const bool in = operand.space == Space::input;
    if (in ? !rank.has_input : !rank.has_output) {
      tell(in ? Fault::input_touched : Fault::output_touched, r, "this rank has none");
      return false;
    }
    const std::size_t first = first_element(rank.schedule->kind, operand.space, r, rank.binding);
    const std::size_t there = in ? rank.given : rank.written.size();
    if (elements.first < first || elements.first + elements.count > first + there) {
      tell(Fault::out_of_bounds, r,
           base::format("elements {}..{} of an {} of {}..{}", elements.first,
                        elements.first + elements.count, in ? "input" : "output", first,
                        first + there));
      return false;
    }
    out = user_memory(r, operand.space, elements);
    out.element = identity(r, operand, elements);
    return true;
  }
  out = {nullptr, elements.first, elements.count, identity(r, operand, elements)};
  const bool stage = operand.space == Space::stage;
  const int owner = !stage ? r : operand.of_winner ? rank.found : rank_at(r, operand.rank);
  if (owner < 0) {
    tell(Fault::stage_unknown, r, "the stage of a winner without a claim");
    return false;
  }
  if (owner != r && !base::at(rank.line_seen, owner)) {
    tell(Fault::stage_unknown, r, base::format("the stage of rank {}", owner));
    return false;
  }
  Rank& home = base::at(ranks_, owner);
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
  out.at = base::as_size(std::max<std::int64_t>(slot, 0)) * rank.slot + inside;
  if (!in_slots || inside + elements.count > rank.slot ||
      out.at + elements.count > out.cells->size()) {
    tell(Fault::out_of_bounds, r,
         base::format("elements {}..{} from {} on in slot {} of {} ({} elements each)",
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
  memory_.read(where, {r, &base::at(ranks_, r).clock}, message, sums, races);
  tell(races, r);
  return true;
}

bool Machine::may_write_output(int r) {
  const Rank& rank = base::at(ranks_, r);
  if (!rank.agreed) tell(Fault::before_agree, r, "an output");
  return true;
}

void Machine::write(int r, const Operand& operand, const std::vector<int>& sums, bool in_place) {
  Rank& rank = base::at(ranks_, r);
  if (operand.space == Space::stage && (operand.of_winner || rank_at(r, operand.rank) != r)) {
    tell(Fault::foreign_write, r, "the stage of another rank");
    return;
  }
  Place where;
  if (!place(r, operand, 0, where)) return;
  if (operand.space == Space::output) {
    if (!may_write_output(r)) return;
    const std::size_t first = first_element(rank.schedule->kind, Space::output, r, rank.binding);
    const std::size_t begin = range(r, operand).first - first;
    for (std::size_t i = 0; i < where.count; ++i) rank.written[begin + i] = true;
    const bool known = std::all_of(sums.begin(), sums.end(),
                                   [&](int sum) { return sums_.covered(sum, rank.known); });
    if (!known) tell(Fault::not_compared, r, "an output");
  }
  if (in_place) return;
  std::vector<Memory::Race> races;
  memory_.write(where, {r, &rank.clock}, base::at(rank.clock, r), sums, races);
  tell(races, r);
}

/// False (and told) where a step takes some elements for others.
bool Machine::same_elements(int r, const Step& step, bool& nothing) {
  nothing = true;
  if (!blocks_exist(r, step.dst) || !blocks_exist(r, step.src)) return false;
  const Range from = range(r, step.src);
  const Range to = range(r, step.dst);
  nothing = from.count == 0 && to.count == 0;
  if (nothing) return true;
  const std::size_t one = identity(r, step.src, from);
  const std::size_t other = identity(r, step.dst, to);
  if (one == other && from.count == to.count) return true;
  tell(Fault::wrong_element, r,
       base::format("{} elements from {} on become {} from {} on", from.count, one, to.count,
                    other));
  return false;
}

void Machine::copy(int r, const Step& step) {
  bool nothing = false;
  if (!same_elements(r, step, nothing) || nothing) return;
  std::vector<int> sums;
  if (!read(r, step.src, 0, nullptr, sums)) return;
  // Elements that are in their place are not moved, and may be sent meanwhile.
  Place from;
  Place to;
  const bool users = step.src.space == Space::input && step.dst.space == Space::output;
  const bool in_place = users && place(r, step.src, 0, from) && place(r, step.dst, 0, to) &&
                        from.cells == to.cells && from.at == to.at;
  write(r, step.dst, sums, in_place);
}

/// The sum of some terms, as the step marks it.
int Machine::result_of(int r, const Step& step, const std::vector<int>& terms) {
  const int sum = sums_.combine(terms);
  // The engine divides a result of a scan by the number of terms: so it is made in one step.
  const bool prefix = traits_of(ranks_[static_cast<std::size_t>(r)].schedule->kind).prefix;
  const bool alone = size_ == 1 || (prefix && terms.size() == 1);
  if (sum == Sums::kUndefined || alone) {
    if (step.last && alone) tell(Fault::divided_wrongly, r, "the value of one rank");
    return sum;
  }
  bool divided = false;
  bool inputs = prefix || terms.size() == base::as_size(size_);
  for (const int term : terms) {
    divided |= sums_.is_divided(term);
    inputs &= sums_.is_input(term);
  }
  const bool complete = prefix ? sums_.is_prefix(sum) : sums_.complete(sum);
  if (divided && (step.last || terms.size() > 1)) {
    tell(Fault::divided_wrongly, r, "what was divided before");
  } else if (step.last && !complete) {
    tell(Fault::divided_wrongly, r, "what is not complete");
  } else if (!step.last && complete && !divided) {
    tell(Fault::not_divided, r, "complete, but not marked");
  }
  if (step.last && (claims_.single_pass || prefix) && !inputs) {
    tell(Fault::several_passes, r, "made of partial sums");
  }
  return step.last ? sums_.divided(sum) : sum;
}

void Machine::reduce(int r, const Step& step) {
  bool nothing = false;
  if (!same_elements(r, step, nothing) || nothing) return;
  std::vector<std::vector<int>> sources(base::as_size(step.ranks.count));
  for (int k = 0; k < step.ranks.count; ++k) {
    const int q = member(r, step.ranks, k);
    Operand source = step.src;
    std::int64_t slot_plus = 0;
    if (step.own_input && q == r) {
      source.space = Space::input;
    } else if (step.sources == Sources::stages) {
      source.rank = q;
    } else {
      slot_plus = k;
    }
    if (!read(r, source, slot_plus, nullptr, base::at(sources, k))) return;
  }
  std::vector<int> sums(sources.front().size());
  std::vector<int> terms(sources.size());
  std::vector<int> last;
  int last_sum = Sums::kUndefined;
  for (std::size_t e = 0; e < sums.size(); ++e) {
    for (std::size_t k = 0; k < sources.size(); ++k) terms[k] = sources[k][e];
    if (terms != last) {
      last_sum = result_of(r, step, terms);
      last = terms;
    }
    sums[e] = last_sum;
  }
  write(r, step.dst, sums);
}

void Machine::send(int r, const Step& step) {
  const int to = rank_at(r, step.peer);
  if (!blocks_exist(r, step.src)) return;
  const Range elements = range(r, step.src);
  if (elements.count == 0) return;
  if (to == r) {
    tell(Fault::unmatched_message, r, "a message to itself");
    return;
  }
  std::deque<Message>& queue = base::at(base::at(ranks_, to).from, r).messages;
  Message& message = queue.emplace_back();
  message.from = r;
  message.to = to;
  message.first_element = identity(r, step.src, elements);
  if (!read(r, step.src, 0, &message, message.sums)) {
    message.sums.assign(elements.count, Sums::kUndefined);
  }
  Release out = release(r);
  message.clock = std::move(out.clock);
  message.known = std::move(out.known);
}

void Machine::receive(int r, const Step& step) {
  Rank& rank = base::at(ranks_, r);
  const int from = rank_at(r, step.peer);
  Post post;
  if (!blocks_exist(r, step.dst)) {
    rank.failed = true;
    return;
  }
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
    if (post.to_output) {
      post.output_at = range(r, step.dst).first -
                       first_element(rank.schedule->kind, Space::output, r, rank.binding);
    }
    post.step = rank.pc;
    Release now = release(r);
    post.clock = std::move(now.clock);
    post.known = std::move(now.known);
  }
  base::at(rank.from, from).posts.push_back(std::move(post));
}

bool Machine::await_receives(int r, const Step& step) {
  Rank& rank = base::at(ranks_, r);
  const std::int64_t missing = std::max<std::int64_t>(at(r, step.value), 0);
  for (int k = 0; k < step.ranks.count; ++k) {
    const int q = member(r, step.ranks, k);
    if (q == r) continue;
    Inbox& inbox = base::at(rank.from, q);
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
  Rank& rank = base::at(ranks_, r);
  Inbox& inbox = base::at(rank.from, from);
  Message& message = inbox.messages[inbox.received];
  if (message.sums.size() != post.place.count) {
    tell(Fault::size_mismatch, r,
         base::format("{} elements from rank {}, which sent {}", post.place.count, from,
                      message.sums.size()));
    rank.failed = true;
    return;
  }
  if (message.first_element != post.place.element && rank.schedule->kind != Kind::barrier) {
    tell(Fault::wrong_element, r,
         base::format("elements from {} on of rank {} become those from {} on",
                      message.first_element, from, post.place.element));
    std::fill(message.sums.begin(), message.sums.end(), Sums::kUndefined);
  }
  // It lands at any time between the later of post and send and now: the writer is the network.
  Clock landing = message.clock;
  join(landing, post.clock);
  Known known = message.known;
  join(known, post.known);
  acquire(r, from, {0, message.clock, message.known}, true);
  message.completed = base::at(rank.clock, r);
  std::vector<Memory::Race> races;
  memory_.write(post.place, {r, &landing}, message.completed, message.sums, races);
  tell(races, r);
  if (!post.to_output) return;
  for (std::size_t i = 0; i < post.place.count; ++i) {
    rank.written[post.output_at + i] = true;
    if (!sums_.covered(message.sums[i], known)) tell(Fault::not_compared, r, "an output");
  }
}

}  // namespace tutti::verify::proof
