#include "models/graph.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace tutti::models {

namespace {

constexpr std::uint64_t mix(std::uint64_t hash, std::uint64_t value) noexcept {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15;
  hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9;
  return hash ^ (hash >> 31);
}

}  // namespace

void Graph::clear(int threads) noexcept {
  events_.clear();
  rows_.clear();
  locations_.clear();
  sequential_.clear();
  threads_.assign(std::size_t(threads), Thread());
}

int Graph::add_location(std::uint64_t value) {
  Event initial;
  initial.kind = Event::Kind::initial;
  initial.location = int(locations_.size());
  initial.value = value;
  events_.push_back(initial);
  rows_.emplace_back();
  locations_.push_back({int(events_.size()) - 1});
  return initial.location;
}

std::size_t Graph::place_of(int store) const noexcept {
  const std::vector<int>& order = locations_[std::size_t(event(store).location)];
  return std::size_t(std::ranges::find(order, store) - order.begin());
}

/// Coherence: nothing older than a store that happens before this thread's next event, or that an
/// access before it has read.
std::size_t Graph::oldest_visible(int thread, int location) const noexcept {
  const Clock& clock = threads_[std::size_t(thread)].clock;
  std::size_t oldest = 0;
  for (std::size_t id = 0; id < events_.size(); ++id) {
    const Event& one = events_[id];
    if (one.location != location || one.thread < 0 ||
        int(clock[std::size_t(one.thread)]) <= one.index)
      continue;
    oldest = std::max(oldest, place_of(one.writes() ? int(id) : one.reads));
  }
  return oldest;
}

bool Graph::is_read_by_rmw(int store) const noexcept {
  return std::ranges::any_of(events_, [&](const Event& one) {
    return one.kind == Event::Kind::rmw && one.reads == store;
  });
}

std::vector<int> Graph::visible(int thread, int location, bool for_rmw) const {
  const std::vector<int>& order = locations_[std::size_t(location)];
  std::vector<int> found;
  for (std::size_t place = order.size(); place-- > oldest_visible(thread, location);) {
    if (!for_rmw || !is_read_by_rmw(order[place])) found.push_back(order[place]);
  }
  return found;
}

std::vector<std::size_t> Graph::places(int thread, int location) const {
  const std::vector<int>& order = locations_[std::size_t(location)];
  std::vector<std::size_t> found;
  for (std::size_t place = order.size(); place > oldest_visible(thread, location); --place) {
    if (!is_read_by_rmw(order[place - 1])) found.push_back(place);
  }
  return found;
}

void Graph::append(Event one, std::size_t place) {
  if (events_.size() == kMostEvents) {
    std::fprintf(stderr, "models: an execution of more than %zu events\n", kMostEvents);
    std::abort();
  }
  const int id = int(events_.size());
  Thread& self = threads_[std::size_t(one.thread)];
  Clock learnt{};
  if (one.reads >= 0) {
    learnt = event(one.reads).released;
    if (one.kind == Event::Kind::rmw)
      place = place_of(one.reads) + 1;
    else
      one.value = event(one.reads).value;
  }
  self.read.join(learnt);
  const bool fence = one.kind == Event::Kind::fence;
  const bool barrier = one.kind == Event::Kind::barrier;
  if (acquires(one.order) && !barrier) self.clock.join(fence ? self.read : learnt);
  one.index = self.length++;
  self.clock[std::size_t(one.thread)] = std::uint8_t(self.length);
  one.clock = self.clock;
  if (fence && releases(one.order)) self.released = self.clock;
  if (one.writes()) {
    one.released = releases(one.order) ? self.clock : self.released;
    one.released.join(learnt);  // an rmw goes on with the release sequence
    std::vector<int>& all = locations_[std::size_t(one.location)];
    all.insert(barrier ? all.end() : all.begin() + std::ptrdiff_t(place), id);
  }
  if (one.order == Order::seq_cst) sequential_.push_back(id);
  events_.push_back(one);
  rows_.emplace_back();
  relate(id);
}

/// Fills in how the last event is related to those before it.
void Graph::relate(int id) {
  const Event& one = event(id);
  const auto at = std::size_t(id);
  for (std::size_t other = 0; other < at; ++other) {
    const Event& before = events_[other];
    if (before.thread < 0 || int(one.clock[std::size_t(before.thread)]) <= before.index) continue;
    rows_[other].before.set(at);
    const bool same_place = before.location == one.location && !one.is_fence();
    const bool same_thread = before.thread == one.thread;
    if (same_thread && !same_place) rows_[other].apart.set(at);
    if (same_thread || same_place) rows_[other].order.set(at);
  }
  if (one.kind == Event::Kind::fence) return;
  const std::vector<int>& order = locations_[std::size_t(one.location)];
  if (one.reads >= 0) {
    rows_[std::size_t(one.reads)].reads_from.set(at);
    for (std::size_t place = place_of(one.reads) + 1; place < order.size(); ++place)
      if (order[place] != id) rows_[at].modifies.set(std::size_t(order[place]));
  }
  if (!one.writes()) return;
  const std::size_t mine = place_of(id);
  for (std::size_t place = 0; place < order.size(); ++place) {
    if (place > mine) rows_[at].modifies.set(std::size_t(order[place]));
    if (place < mine) {
      Row& older = rows_[std::size_t(order[place])];
      older.modifies.set(at);
      for (std::size_t reader = 0; reader < at; ++reader)
        if (older.reads_from.test(reader)) rows_[reader].modifies.set(at);
    }
  }
}

Set Graph::image(const Set& from, Set Row::*relation) const noexcept {
  Set found;
  for (std::size_t id = from._Find_first(); id < kMostEvents; id = from._Find_next(id))
    found |= rows_[id].*relation;
  return found;
}

/// The seq_cst events that must follow this one: RC11's psc_base and psc_F.
Set Graph::follows_in_psc(int id) const noexcept {
  Set start;
  start.set(std::size_t(id));
  const bool fence = event(id).is_fence();
  if (fence) start |= rows_[std::size_t(id)].before;
  // scb: po, po to another place; hb; po to another place, hb within a location, mo, fr.
  const Set apart = image(image(image(start, &Row::apart), &Row::before), &Row::apart);
  const Set scb = image(start, &Row::order) | image(start, &Row::modifies) | apart;
  Set to_fences = scb | image(scb, &Row::before);
  if (fence) {
    // hb, and hb; eco; hb.
    const Set hb = rows_[std::size_t(id)].before;
    Set eco = image(hb, &Row::modifies) | image(hb, &Row::reads_from);
    eco |= image(eco, &Row::reads_from) | image(eco, &Row::modifies);
    to_fences |= hb | image(eco, &Row::before);
  }
  Set found;
  for (const int other : sequential_) {
    if ((event(other).is_fence() ? to_fences : scb).test(std::size_t(other)))
      found.set(std::size_t(other));
  }
  return found;
}

bool Graph::is_consistent() const {
  if (sequential_.size() < 2) return true;
  // Takes away events that none of the rest must precede, until none is left, or all have one.
  std::vector<int> rest = sequential_;
  std::vector<Set> follow(events_.size());
  for (const int id : rest) follow[std::size_t(id)] = follows_in_psc(id);
  while (!rest.empty()) {
    Set preceded;
    for (const int id : rest) preceded |= follow[std::size_t(id)];
    if (std::erase_if(rest, [&](int id) { return !preceded.test(std::size_t(id)); }) == 0)
      return false;
  }
  return true;
}

std::uint64_t Graph::hash() const noexcept {
  const auto name = [&](int id) {
    const Event& one = event(id);
    return std::uint64_t(one.thread + 1) << 32 |
           std::uint64_t(one.thread < 0 ? one.location : one.index);
  };
  std::uint64_t sum = 0;
  for (std::size_t thread = 0; thread < threads_.size(); ++thread) {
    std::uint64_t hash = thread + 1;
    for (const Event& one : events_) {
      if (one.thread != int(thread)) continue;
      hash = mix(hash, std::uint64_t(one.kind) << 32 | std::uint64_t(one.location + 1));
      hash = mix(hash, one.value);
      if (one.reads >= 0) hash = mix(hash, name(one.reads));
    }
    sum = mix(sum, hash);
  }
  for (const std::vector<int>& order : locations_) {
    for (const int id : order) sum = mix(sum, name(id));
    sum = mix(sum, ~std::uint64_t{0});
  }
  return sum;
}

}  // namespace tutti::models
