#include "models/checker.hpp"

#include <algorithm>

#include "models/machine.hpp"

namespace tutti::models {

namespace {

void call_kernel(int thread, int location, std::uint64_t value = 0) {
  machine->append({Event::Kind::barrier, Order::seq_cst, thread, 0, location, -1, value});
}

}  // namespace

std::string name_of(Order order) {
  static constexpr const char* kNames[] = {"relaxed", "consume", "acquire",
                                           "release", "acq_rel", "seq_cst"};
  return kNames[std::size_t(order)];
}

std::vector<Order> weaker_than(const Site& site) {
  const auto is = [&](const char* what) { return site.name.find(what) != std::string::npos; };
  if (is(" membarrier")) return {Order::relaxed};
  const Order less = is(" load") ? Order::acquire : is(" store") ? Order::release : Order::acq_rel;
  if (site.order == Order::seq_cst) return {less, Order::relaxed};
  if (site.order == Order::acq_rel) return {Order::acquire, Order::release};
  if (site.order == Order::relaxed) return {};
  return {Order::relaxed};
}

Report explore(const Make& make, Sites& sites, const Options& options) {
  Machine own(make, sites, options);
  machine = &own;
  Report report = own.explore();
  machine = nullptr;
  return report;
}

int this_thread() noexcept { return machine->thread(); }

void require(bool holds, const char* text) {
  if (!holds) machine->fail(text);
}

void outcome(const std::string& text) { machine->report().outcomes.insert(text); }

void await(const std::function<bool()>& look) { machine->await(look); }

void fence(Order order, At at) {
  const int site = machine->site_of("fence", order, at);
  if (order == Order::relaxed) return;
  machine->step();
  machine->append({.kind = Event::Kind::fence, .order = order, .site = site});
}

void membarrier(At at) {
  Order order = Order::seq_cst;
  (void)machine->site_of("membarrier", order, at);
  if (order == Order::relaxed) return;
  const int self = machine->thread();
  machine->step();
  call_kernel(self, 0);
  for (int other = 0; other < machine->threads(); ++other) {
    if (other == self) continue;
    if (!machine->has_ended(other)) machine->step();
    call_kernel(other, 0);
  }
  call_kernel(self, 0);
}

Word::Word(std::uint64_t value)
    : location_(machine->graph().add_location(value)), kernel_(machine->graph().add_location(0)) {}

/// Chooses a store that this thread may read there.
int Word::choose(bool for_rmw) const {
  const std::vector<int> visible = machine->graph().visible(machine->thread(), location_, for_rmw);
  return visible[machine->choose(visible.size())];
}

std::uint64_t Word::load(Order order, At at) const {
  const int site = machine->site_of("load", order, at);
  machine->step();
  const int from = choose(false);
  machine->append({Event::Kind::load, order, -1, 0, location_, site, 0, from});
  return machine->graph().event(from).value;
}

void Word::store(std::uint64_t value, Order order, At at) {
  const int site = machine->site_of("store", order, at);
  machine->step();
  const std::vector<std::size_t> places = machine->graph().places(machine->thread(), location_);
  machine->append({Event::Kind::store, order, -1, 0, location_, site, value},
                  places[machine->choose(places.size())]);
}

std::uint64_t Word::change(const std::function<std::uint64_t(std::uint64_t)>& to, Order order,
                           const char* what, At at) {
  const int site = machine->site_of(what, order, at);
  machine->step();
  const int from = choose(true);
  const std::uint64_t old = machine->graph().event(from).value;
  machine->append({Event::Kind::rmw, order, -1, 0, location_, site, to(old), from});
  return old;
}

bool Word::compare_exchange(std::uint64_t& expected, std::uint64_t desired, Order order, At at) {
  const int site = machine->site_of("compare_exchange", order, at);
  machine->step();
  const Graph& graph = machine->graph();
  std::vector<int> visible = graph.visible(machine->thread(), location_, false);
  const std::vector<int> free = graph.visible(machine->thread(), location_, true);
  std::erase_if(visible, [&](int id) {
    return graph.event(id).value == expected && std::ranges::find(free, id) == free.end();
  });
  const int from = visible[machine->choose(visible.size())];
  const std::uint64_t seen = graph.event(from).value;
  if (seen == expected) {
    machine->append({Event::Kind::rmw, order, -1, 0, location_, site, desired, from});
    return true;
  }
  if (order == Order::acq_rel) order = Order::acquire;
  if (order == Order::release) order = Order::relaxed;
  machine->append({Event::Kind::load, order, -1, 0, location_, site, 0, from});
  expected = seen;
  return false;
}

std::uint64_t Word::last() const {
  return machine->graph().event(machine->graph().newest(location_)).value;
}

void Word::futex_wait(std::uint32_t expected) {
  machine->step();
  call_kernel(machine->thread(), kernel_);
  const int from = choose(false);
  machine->append({Event::Kind::load, Order::relaxed, -1, 0, location_, -1, 0, from});
  if (machine->graph().event(from).value == expected) machine->sleep(kernel_);
}

void Word::futex_wake(int count) {
  machine->step();
  std::vector<int> sleepers = machine->sleepers(kernel_);
  std::uint64_t woken = 0;
  for (; count > 0 && !sleepers.empty(); --count) {
    const bool all = std::size_t(count) >= sleepers.size();
    const auto place = std::ptrdiff_t(all ? 0 : machine->choose(sleepers.size()));
    woken |= std::uint64_t{1} << sleepers[std::size_t(place)];
    machine->wake(sleepers[std::size_t(place)]);
    sleepers.erase(sleepers.begin() + place);
  }
  call_kernel(machine->thread(), kernel_, woken);
}

/// Stops where an access of another thread does not happen before that of this thread.
void Cell::check(int other, int at, const char* text) const {
  const Clock& clock = machine->graph().clock(machine->thread());
  if (other != machine->thread() && at >= 0 && int(clock[std::size_t(other)]) <= at)
    machine->fail(text);
}

void Cell::read() const {
  if (machine->thread() < 0) return;
  check(writer_, written_, "a data race: a read beside a write");
  reads_[std::size_t(machine->thread())] = machine->graph().length(machine->thread());
}

void Cell::write() {
  if (machine->thread() < 0) return;
  check(writer_, written_, "a data race: two writes");
  for (int other = 0; other < kThreads; ++other)
    check(other, reads_[std::size_t(other)], "a data race: a write beside a read");
  writer_ = machine->thread();
  written_ = machine->graph().length(writer_);
}

}  // namespace tutti::models
