#include "apps/tutti/explain_flow.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "apps/tutti/explain_hops.hpp"
#include "base/format.hpp"
#include "base/index.hpp"
#include "engine/rank_row.hpp"
#include "plan/step_cursor.hpp"

namespace tutti::cli::explain {
namespace {

using engine::RankRow;
using plan::Operand;
using plan::Range;
using plan::Slice;
using plan::Space;
using plan::Step;
using plan::StepKind;

struct Message {
  std::size_t count = 0;
  int round = 0;
  std::size_t transfer = 0;
};

/// A receive that was posted.
struct Post {
  Hops* memory = nullptr;
  Range at;
  Space lands = Space::output;
};

struct Channel {
  std::deque<Message> messages;  ///< not yet received
  std::size_t sent = 0;
  std::vector<Post> posts;
  std::size_t completed = 0;
};

struct Rank : plan::StepCursor {
  const engine::BoundPlan* bound = nullptr;
  int winner = -1;
  int heard = 0;  ///< barriers: hops of what it knows
  int line = -1;  ///< hops of its line; -1: not published
  std::int64_t counters[plan::kCounters] = {0, 0};
  int counter_hops[plan::kCounters] = {0, 0};
  std::map<std::pair<Space, std::int64_t>, Hops> memory;  ///< by slot
  std::map<int, Channel> from;
};

class Walk {
 public:
  explicit Walk(std::span<const engine::BoundPlan* const> all) : ranks_(all.size()) {
    for (std::size_t r = 0; r < all.size(); ++r) ranks_[r].bound = all[r];
    flow_.ranks.resize(all.size());
    flow_.tokens = !has_data(ranks_.front().bound->kind);
  }

  Flow run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (int r = 0; r < size(); ++r) moved |= advance(r);
    }
    for (int r = 0; r < size(); ++r) {
      const Rank& rank = at(r);
      if (rank.pc < steps(rank).size())
        throw std::logic_error(base::format("rank {} waits for ever at step {} of {}", r, rank.pc,
                                            rank.bound->schedule->algorithm));
      for (const auto& [from, channel] : rank.from) {
        if (!channel.messages.empty())
          throw std::logic_error(
              base::format("rank {} never receives a message of rank {}", r, from));
      }
    }
    std::ranges::stable_sort(flow_.transfers, {}, [](const Transfer& t) {
      return std::tuple(t.round, t.how == How::message ? t.from : t.to);
    });
    std::ranges::stable_sort(flow_.sums, {},
                             [](const Sum& s) { return std::pair(s.round, s.rank); });
    return std::move(flow_);
  }

 private:
  [[nodiscard]] int size() const noexcept { return static_cast<int>(ranks_.size()); }
  [[nodiscard]] Rank& at(int r) { return base::at(ranks_, r); }
  [[nodiscard]] RankTotals& totals(int r) { return base::at(flow_.ranks, r); }
  [[nodiscard]] static const std::vector<Step>& steps(const Rank& rank) {
    return rank.bound->schedule->steps;
  }
  [[nodiscard]] RankRow row(const Rank& rank, const plan::RankSet& set) const {
    return {set, size(), rank.var};
  }
  [[nodiscard]] int rank_at(const Rank& rank, const plan::Expr& e) const {
    return row(rank, {e, 1, 1})[0];
  }
  [[nodiscard]] static std::int64_t value(const Rank& rank, const plan::Expr& e) {
    return e.at(rank.var[0], rank.var[1]);
  }
  [[nodiscard]] static Range range(const Rank& rank, const Operand& o) {
    return plan::range_of(o, rank.bound->binding, rank.var[0], rank.var[1]);
  }

  bool advance(int r) {
    Rank& rank = at(r);
    bool moved = false;
    while (rank.pc < steps(rank).size()) {
      if (!execute(r, rank, steps(rank)[rank.pc])) break;
      moved = true;
    }
    return moved;
  }

  /// False: the rank must wait.
  bool execute(int r, Rank& rank, const Step& step) {
    switch (step.kind) {
      case StepKind::publish: rank.line = rank.heard; break;
      case StepKind::await_line:
        if (!await_lines(r, rank, step)) return false;
        break;
      case StepKind::agree: break;
      case StepKind::copy: copy(r, rank, step); break;
      case StepKind::reduce: reduce(r, rank, step); break;
      case StepKind::signal:
        if (const std::int64_t v = value(rank, step.value); v > 0) {
          rank.counters[step.counter] = v;
          rank.counter_hops[step.counter] = rank.heard;
        }
        break;
      case StepKind::await:
        if (!await_counters(r, rank, step)) return false;
        break;
      case StepKind::claim:
        if (claim(r, rank, step)) return true;
        break;
      case StepKind::send: send(r, rank, step); break;
      case StepKind::recv: receive(rank, step); break;
      case StepKind::await_recv:
        if (!await_receives(r, rank, step)) return false;
        break;
      case StepKind::jump:
      case StepKind::loop:
      case StepKind::end_loop: rank.pass(step, rank.bound->binding); return true;
    }
    ++rank.pc;
    return true;
  }

  bool await_lines(int r, Rank& rank, const Step& step) {
    const RankRow lines = row(rank, step.ranks);
    for (int k = 0; k < lines.count; ++k) {
      if (lines[k] != r && at(lines[k]).line < 0) return false;
    }
    for (int k = 0; k < lines.count; ++k) {
      if (lines[k] == r) continue;
      ++totals(r).lines;
      hear(r, rank, lines[k], at(lines[k]).line + 1, How::line);
    }
    return true;
  }

  bool await_counters(int r, Rank& rank, const Step& step) {
    const RankRow of = row(rank, step.ranks);
    const std::int64_t least = value(rank, step.value);
    if (least <= 0) return true;
    for (int k = 0; k < of.count; ++k) {
      if (of[k] != r && at(of[k]).counters[step.counter] < least) return false;
    }
    for (int k = 0; k < of.count; ++k) {
      if (of[k] == r) continue;
      hear(r, rank, of[k], at(of[k]).counter_hops[step.counter] + 1, How::counter);
    }
    return true;
  }

  /// Barriers move no elements: there the news itself is what is told.
  void hear(int r, Rank& rank, int from, int round, How how) {
    if (!flow_.tokens) return;
    rank.heard = std::max(rank.heard, round);
    add({round, from, r, how, {}, {}, 0, Space::scratch});
  }

  bool claim(int r, Rank& rank, const Step& step) {
    const RankRow of = row(rank, step.ranks);
    for (int k = 0; k < of.count; ++k) {
      if (of[k] == r || at(of[k]).counters[step.counter] < value(rank, step.value)) continue;
      rank.winner = of[k];
      rank.pc = base::as_size(step.jump);
      return true;
    }
    flow_.winner = r;
    return false;
  }

  /// The memory of an operand, the elements in it, and the rank that it belongs to.
  struct Place {
    Hops* hops = nullptr;
    Range at;
    int owner = 0;
  };
  Place place(int r, Rank& rank, const Operand& o, std::int64_t slot_plus = 0) {
    const Range elements = range(rank, o);
    if (o.space == Space::input || o.space == Space::output)
      return {&rank.memory[{o.space, 0}], elements, r};
    const bool stage = o.space == Space::stage;
    const int owner = !stage ? r : o.of_winner ? rank.winner : rank_at(rank, o.rank);
    const std::size_t origin = plan::slot_origin(o, rank.bound->binding, rank.var[0], rank.var[1]);
    return {&at(owner).memory[{o.space, value(rank, o.slot) + slot_plus}],
            {elements.first - origin, elements.count},
            owner};
  }

  Piece piece_of(const Rank& rank, const Slice& s) {
    using Shape = Slice::Shape;
    Piece piece{s.shape, -1, -1, 1};
    if (s.shape == Shape::chunk || s.shape == Shape::chunk_part || s.shape == Shape::part_chunk ||
        s.shape == Shape::block_chunk) {
      piece.chunk = value(rank, s.chunk);
      flow_.chunks = std::max(flow_.chunks, piece.chunk + 1);
    }
    if (s.shape != Shape::whole && s.shape != Shape::chunk) piece.part = value(rank, s.part);
    if (s.shape == Shape::blocks) piece.parts = s.parts;
    return piece;
  }
  [[nodiscard]] static std::size_t bytes_of(const Rank& rank, Range elements) {
    return elements.count * rank.bound->binding.element;
  }

  void add(const Transfer& transfer) {
    if (flow_.transfers.size() == kMostTransfers)
      throw std::length_error(
          base::format("there are more than {} messages and reads; ask about fewer ranks or bytes",
                       kMostTransfers));
    flow_.rounds = std::max(flow_.rounds, transfer.round);
    flow_.transfers.push_back(transfer);
  }

  /// Reads an operand; of another rank's stage this is a hop. Returns the hops of the elements.
  int read(int r, Rank& rank, const Operand& o, How how, Space lands, std::int64_t slot_plus = 0) {
    const Place from = place(r, rank, o, slot_plus);
    const int hops = from.hops->most(from.at);
    if (from.owner == r) return hops;
    const Range elements = range(rank, o);
    add({hops + 1, from.owner, r, how, piece_of(rank, o.slice), elements, bytes_of(rank, elements),
         lands});
    totals(r).read += bytes_of(rank, elements);
    return hops + 1;
  }

  void write(int r, Rank& rank, const Operand& o, int hops) {
    const Place to = place(r, rank, o);
    to.hops->set(to.at, hops);
    if (o.space == Space::stage) totals(r).staged += bytes_of(rank, to.at);
  }

  void copy(int r, Rank& rank, const Step& step) {
    if (range(rank, step.src).count == 0) return;
    write(r, rank, step.dst, read(r, rank, step.src, How::copy, step.dst.space));
    if (step.src.space == Space::input && step.dst.space == Space::stage)
      totals(r).given += bytes_of(rank, range(rank, step.src));
  }

  void reduce(int r, Rank& rank, const Step& step) {
    const Range elements = range(rank, step.dst);
    if (elements.count == 0) return;
    const RankRow of = row(rank, step.ranks);
    int hops = 0;
    for (int k = 0; k < of.count; ++k) {
      Operand source = step.src;
      std::int64_t slot_plus = 0;
      if (step.own_input && of[k] == r)
        source.space = Space::input;
      else if (step.sources == plan::Sources::stages)
        source.rank = of[k];
      else
        slot_plus = k;
      hops = std::max(hops, read(r, rank, source, How::add, step.dst.space, slot_plus));
    }
    flow_.sums.push_back(
        {hops, r, piece_of(rank, step.dst.slice), of.count, bytes_of(rank, elements), step.last});
    write(r, rank, step.dst, hops);
  }

  void send(int r, Rank& rank, const Step& step) {
    const Range elements = range(rank, step.src);
    if (elements.count == 0) return;
    const int to = rank_at(rank, step.peer);
    const Place from = place(r, rank, step.src);
    const int round = (flow_.tokens ? rank.heard : from.hops->most(from.at)) + 1;
    Channel& channel = at(to).from[r];
    channel.messages.push_back({elements.count, round, flow_.transfers.size()});
    const std::size_t bytes = bytes_of(rank, elements);
    add({round, r, to, How::message, piece_of(rank, step.src.slice), elements, bytes,
         Space::scratch, channel.sent});
    ++channel.sent;
    ++totals(r).messages;
    totals(r).sent += bytes;
  }

  void receive(Rank& rank, const Step& step) {
    Place to;
    if (range(rank, step.dst).count > 0)
      to = place(static_cast<int>(&rank - ranks_.data()), rank, step.dst);
    rank.from[rank_at(rank, step.peer)].posts.push_back({to.hops, to.at, step.dst.space});
  }

  bool await_receives(int r, Rank& rank, const Step& step) {
    const RankRow of = row(rank, step.ranks);
    const std::int64_t missing = std::max<std::int64_t>(value(rank, step.value), 0);
    for (int k = 0; k < of.count; ++k) {
      if (of[k] == r) continue;
      Channel& channel = rank.from[of[k]];
      while (static_cast<std::int64_t>(channel.completed) + missing <
             static_cast<std::int64_t>(channel.posts.size())) {
        const Post& post = channel.posts[channel.completed];
        if (post.at.count > 0 && !complete(r, rank, of[k], channel, post)) return false;
        ++channel.completed;
      }
    }
    return true;
  }

  bool complete(int r, Rank& rank, int from, Channel& channel, const Post& post) {
    if (channel.messages.empty()) return false;
    const Message message = channel.messages.front();
    channel.messages.pop_front();
    if (message.count != post.at.count)
      throw std::logic_error(base::format("rank {} expects {} elements of rank {}, which sends {}",
                                          r, post.at.count, from, message.count));
    post.memory->set(post.at, message.round);
    rank.heard = std::max(rank.heard, message.round);
    Transfer& transfer = flow_.transfers[message.transfer];
    transfer.lands = post.lands;
    if (post.lands == Space::stage) totals(r).staged += transfer.bytes;
    return true;
  }

  std::vector<Rank> ranks_;
  Flow flow_;
};

}  // namespace

Flow flow_of(std::span<const engine::BoundPlan* const> all) { return Walk(all).run(); }

}  // namespace tutti::cli::explain
