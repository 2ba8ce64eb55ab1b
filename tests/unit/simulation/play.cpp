#include "unit/simulation/play.hpp"

#include <numeric>

#include <tutti/backend/kinds.hpp>

namespace tutti::engine::simulation {

Play::Play(Simulation& simulation, const Script& script, std::chrono::nanoseconds timeout,
           std::map<int, Script> own)
    : simulation_(simulation),
      script_(script),
      own_(std::move(own)),
      timeout_(timeout),
      players_(static_cast<std::size_t>(simulation.size())) {
  for (Player& player : players_)
    player.most = 1 + simulation_.random().below(simulation_.random().chance(30) ? 24 : 6);
}

const Script& Play::script_of(int rank) const {
  const auto found = own_.find(rank);
  return found == own_.end() ? script_ : found->second;
}

void Play::stop_calling(int rank) {
  player(rank).stopped_at = player(rank).at;
  player(rank).at = script_of(rank).items.size();
}

void Play::let_go(int rank) {
  Player& let_go = player(rank);
  if (std::exchange(let_go.has_let_go, true)) return;
  const Script& script = script_of(rank);
  for (std::size_t i = let_go.stopped_at; i < script.items.size(); ++i) {
    const Item& item = script.items[i];
    if (item.action == Action::make && is_member(rank, item)) (void)make(rank, item.group);
  }
  for (const auto& [index, group] : let_go.groups) simulation_.engine(rank).remove_group(*group);
  let_go.groups.clear();
}

bool Play::make(int rank, int group) {
  const GroupPlan& plan = script_.groups[static_cast<std::size_t>(group)];
  Result<Group*> made = simulation_.engine(rank).add_group(
      {.id = plan.id, .name = plan.name, .ranks = plan.ranks, .timeout = timeout_});
  if (!made) {
    complain("cannot make " + plan.name + ": " + std::string(made.status().message()));
    return false;
  }
  player(rank).groups[group] = *made;
  return true;
}

const Op* Play::running(int rank) const {
  for (const auto& call : player(rank).pending) {
    const Op& op = call->group->window.at(call->ticket);
    if (op.seq == call->ticket && op.state == Op::State::running) return &op;
  }
  return nullptr;
}

bool Play::waits_with(int rank, int one, int other) const {
  return std::ranges::any_of(player(rank).pending, [&](const auto& call) {
    const Item& item = script_of(rank).items[call->item];
    return is_member(one, item) && is_member(other, item) &&
           !simulation_.engine(rank).is_done(*call->group, call->ticket);
  });
}

const std::vector<std::byte>& Play::result(const Item& item, int rank, int size) {
  // Most results are the same on all ranks.
  const bool one = item.kind == Kind::all_reduce || item.kind == Kind::broadcast;
  auto& known = results_[{item.number, one ? 0 : rank}];
  if (known.empty() && item.count > 0) known = result_of(item, rank, size);
  return known;
}

bool Play::act(int rank) {
  Random& random = simulation_.random();
  bool did = false;
  if (random.chance(60)) did = next_item(rank);
  if (!did || random.chance(30)) did |= end_one(rank);
  return did || next_item(rank);
}

bool Play::next_item(int rank) {
  Player& one = player(rank);
  const auto& items = script_of(rank).items;
  while (one.at < items.size() && !is_member(rank, items[one.at])) ++one.at;
  if (one.at >= items.size()) return false;
  const Item& item = items[one.at];
  switch (item.action) {
    case Action::call:
      if (one.pending.size() >= one.most) return false;
      call(rank, item);
      break;
    case Action::make:
      if (!make(rank, item.group)) return false;
      break;
    case Action::remove: {
      Group* const group = one.groups.at(item.group);
      if (std::ranges::any_of(one.pending, [&](const auto& call) { return call->group == group; }))
        return false;
      simulation_.engine(rank).remove_group(*group);
      one.groups.erase(item.group);
      break;
    }
  }
  ++one.at;
  return true;
}

void Play::call(int rank, const Item& item) {
  Player& one = player(rank);
  Random& random = simulation_.random();
  Engine& engine = simulation_.engine(rank);
  auto made = std::make_unique<Call>();
  made->item = one.at;
  made->group = one.groups.at(item.group);
  Collective collective{.kind = item.kind,
                        .op = item.op,
                        .root = item.root,
                        .digest = item.kind == Kind::new_group ? 99U : 0U,
                        .timeout = timeout_,
                        .input = {},
                        .output = {}};
  const Group& group = *made->group;
  const std::vector<std::size_t> in = input_blocks(item, group.rank, group.size);
  const std::vector<std::size_t> out = output_blocks(item, group.rank, group.size);
  Details details;
  if (has_data(item.kind)) {
    const auto sum = [](const std::vector<std::size_t>& blocks) {
      return std::accumulate(blocks.begin(), blocks.end(), std::size_t{0});
    };
    made->in = std::make_unique<Buffer>(random, item.dtype, sum(in));
    made->given = input_of(item, group.rank, group.size);
    made->in->put(made->given);
    const bool same = traits_of(item.kind).layout == Layout::same;
    const bool in_place = item.kind == Kind::broadcast || (same && random.chance(50));
    if (!in_place && !out.empty())
      made->out = std::make_unique<Buffer>(random, item.dtype, sum(out));
    collective.input = made->in->view();
    collective.output = in_place      ? collective.input
                        : out.empty() ? TensorView(nullptr, item.dtype, same ? item.count : 0)
                                      : made->out->view();
    if (item.uneven) {
      if (in.size() > 1 || item.kind == Kind::all_to_all) details.input_counts = in;
      if (out.size() > 1 || item.kind == Kind::all_to_all) details.output_counts = out;
      collective.details = &details;
    }
  }
  ++one.calls;
  made->ticket = engine.submit(*made->group, collective);
  const auto broken = one.broken.find(item.group);
  if (broken != one.broken.end()) {
    const std::optional<Outcome> outcome = engine.outcome(*made->group, made->ticket);
    if (!engine.is_done(*made->group, made->ticket) || !outcome) {
      complain("rank " + std::to_string(rank) + ": a call on a broken group does not fail at once");
    } else if (outcome->message() != broken->second) {
      complain("rank " + std::to_string(rank) + ": the cause of the break has changed from '" +
               broken->second + "' to '" + std::string(outcome->message()) + "'");
    }
  }
  if (random.chance(30)) {
    made->wants_callback = true;
    engine.on_done(*made->group, made->ticket,
                   {[](void* context, const Outcome& status) noexcept {
                      auto* const told = static_cast<Call*>(context);
                      told->told = status;
                      ++told->times_told;
                    },
                    made.get()});
  }
  one.pending.push_back(std::move(made));
}

bool Play::end_one(int rank) {
  Player& one = player(rank);
  if (one.pending.empty()) return false;
  Engine& engine = simulation_.engine(rank);
  const std::size_t first = simulation_.random().below(one.pending.size());
  for (std::size_t i = 0; i < one.pending.size(); ++i) {
    const std::size_t at = (first + i) % one.pending.size();
    Call& call = *one.pending[at];
    if (!engine.is_done(*call.group, call.ticket)) continue;
    const std::optional<Outcome> outcome = engine.outcome(*call.group, call.ticket);
    if (!outcome) {
      complain("rank " + std::to_string(rank) + ": done without an outcome");
      return false;
    }
    if (call.wants_callback && call.times_told == 0) continue;  // it comes with the next turn
    end(rank, call, *outcome);
    graveyard_.push_back(std::move(one.pending[at]));
    one.pending.erase(one.pending.begin() + static_cast<std::ptrdiff_t>(at));
    return true;
  }
  return false;
}

void Play::end(int rank, Call& call, const Outcome& status) {
  const Item& item = script_of(rank).items[call.item];
  const std::string name =
      "rank " + std::to_string(rank) + ", item " + std::to_string(call.item) + " (group " +
      std::to_string(item.group) + ", operation " + std::to_string(call.ticket) + ", kind " +
      std::string(to_string(item.kind)) + ", count " + std::to_string(item.count) + ")";
  simulation_.network().note(static_cast<std::uint64_t>(rank) << 32 | call.item << 8 |
                             static_cast<std::uint64_t>(status.code()));
  Ending ending{rank, call.item, status, false, Simulation::now()};
  Buffer* const output = call.out ? call.out.get() : call.in.get();
  if (status.ok() && output != nullptr) {
    if (!output->holds(result(item, call.group->rank, call.group->size)))
      complain(name + ": wrong result");
  }
  if (call.out && !call.in->holds(call.given)) complain(name + ": the input was written");
  if (!status.ok()) {
    if (output != nullptr) {
      ending.output_touched = call.out ? !call.out->untouched() : !call.in->holds(call.given);
    }
    auto& cause = player(rank).broken[item.group];
    if (cause.empty()) cause = status.message();
    if (cause != status.message()) complain(name + ": another cause than the calls before");
  }
  if (call.wants_callback) {
    const bool same = call.told && call.told->code() == status.code();
    if (call.times_told != 1 || !same) complain(name + ": the callback and the outcome differ");
  }
  endings_.push_back(std::move(ending));
  if (call.in) call.in->take_back();
  if (call.out) call.out->take_back();
}

std::vector<std::string> Play::complaints() {
  for (const auto& call : graveyard_) {
    const bool alone =
        (!call->in || call->in->left_alone()) && (!call->out || call->out->left_alone());
    if (!alone)
      complain("memory of item " + std::to_string(call->item) + " was written after its end");
    if (call->times_told > 1) complain("a second callback for item " + std::to_string(call->item));
  }
  if (simulation_.network().violations() > 0) complain("a connection was dropped by its receiver");
  return complaints_;
}

std::string Play::standing() const {
  std::string text;
  for (const int rank : numbers(players_.size())) {
    if (finished(rank)) continue;
    text += "\n  rank " + std::to_string(rank) + (simulation_.runs(rank) ? "" : " (does not run)") +
            " at item " + std::to_string(player(rank).at) + ", pending:";
    for (const auto& call : player(rank).pending) {
      const Item& item = script_of(rank).items[call->item];
      text += " [" + std::to_string(call->item) + ": group " + std::to_string(item.group) + " op " +
              std::to_string(call->ticket) + " " + std::string(to_string(item.kind)) + " count " +
              std::to_string(item.count) + " x " + std::to_string(size_of(item.dtype)) +
              " started " + std::to_string(call->group->window.started()) + "]";
    }
  }
  return text;
}

}  // namespace tutti::engine::simulation
