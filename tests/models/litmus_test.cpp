#include <gtest/gtest.h>

#include <array>

#include "models/checker.hpp"

// The checker against the litmus tests of the literature, with what C++20 allows and forbids:
// - Batty, Owens, Sarkar, Sewell, Weber: Mathematizing C++ Concurrency, POPL 2011 (MP, SB, IRIW,
//   coherence, release sequences)
// - Lahav, Vafeiadis, Kang, Hur, Dreyer: Repairing Sequential Consistency in C/C++11, PLDI 2017
//   (RC11: fences, RMWs, Z6.U, 2+2W; load buffering is forbidden)
// - Maranget, Sarkar, Sewell: A Tutorial Introduction to the ARM and POWER Relaxed Memory Models,
//   2012 (the names)
namespace tutti::models {
namespace {

constexpr Order kRelaxed = Order::relaxed;
constexpr Order kAcquire = Order::acquire;
constexpr Order kRelease = Order::release;
constexpr Order kBoth = Order::acq_rel;
constexpr Order kSc = Order::seq_cst;

/// Two words, two plain ones, and what the threads have read.
struct State {
  Atomic<int> x{0}, y{0};
  Plain<int> data{0};
  std::array<int, 4> r{};
};

using Body = std::function<void(State&)>;

struct Litmus final : Program {
  explicit Litmus(const std::vector<Body>& given) : bodies(given) {}
  void run(int thread) override { bodies[std::size_t(thread)](state); }
  void finish() override {
    std::string text;
    for (const int one : state.r) text += std::to_string(one);
    outcome(text + " " + std::to_string(state.x.last()) + std::to_string(state.y.last()));
  }
  const std::vector<Body>& bodies;
  State state;
};

Report run(const std::vector<Body>& bodies) {
  Sites sites;
  Options options;
  options.threads = int(bodies.size());
  return explore([&] { return std::make_unique<Litmus>(bodies); }, sites, options);
}

// Steps of a thread, one after the other.
using Place = Atomic<int> State::*;
constexpr Place X = &State::x;
constexpr Place Y = &State::y;

Body put(Place place, int value, Order order) {
  return [=](State& s) { (s.*place).store(value, order); };
}
Body get(Place place, std::size_t into, Order order) {
  return [=](State& s) { s.r[into] = (s.*place).load(order); };
}
/// With relaxed: none.
Body fenced(Order order) {
  return [=](State&) { fence(order); };
}
Body steps(std::vector<Body> all) {
  return [all = std::move(all)](State& s) {
    for (const Body& one : all) one(s);
  };
}

/// The outcome, whose other digits do not matter ('.'), is among those that were found.
bool allows(const Report& report, const std::string& wanted) {
  EXPECT_EQ(report.error, "") << report.trace;
  for (const std::string& one : report.outcomes) {
    bool same = true;
    for (std::size_t i = 0; i < wanted.size(); ++i) same &= wanted[i] == '.' || wanted[i] == one[i];
    if (same) return true;
  }
  return false;
}

constexpr const char* kReadRace = "a data race: a read beside a write";
constexpr const char* kForEver = "threads wait or sleep for ever";

Report message_passing(Order store, Order load) {
  return run({steps({put(X, 1, kRelaxed), put(Y, 1, store)}),
              steps({get(Y, 0, load), get(X, 1, kRelaxed)})});
}

TEST(Litmus, PassesMessages) {
  EXPECT_FALSE(allows(message_passing(kRelease, kAcquire), "10"));
  EXPECT_FALSE(allows(message_passing(kSc, kSc), "10"));
  EXPECT_TRUE(allows(message_passing(kRelaxed, kAcquire), "10"));
  EXPECT_TRUE(allows(message_passing(kRelease, kRelaxed), "10"));
  const Report all = message_passing(kRelaxed, kRelaxed);
  EXPECT_EQ(all.executions, 4U) << "one for each pair of values that is read";
  for (const char* const seen : {"00", "01", "10", "11"}) EXPECT_TRUE(allows(all, seen));
  EXPECT_EQ(message_passing(kRelease, kAcquire).executions, 3U);
}

TEST(Litmus, PassesMessagesByFences) {
  const auto by_fences = [](Order first, Order second) {
    return run({steps({put(X, 1, kRelaxed), fenced(first), put(Y, 1, kRelaxed)}),
                steps({get(Y, 0, kRelaxed), fenced(second), get(X, 1, kRelaxed)})});
  };
  for (const Order strong : {kBoth, kSc}) {
    EXPECT_FALSE(allows(by_fences(strong, strong), "10"));
    EXPECT_TRUE(allows(by_fences(strong, kRelaxed), "10"));
    EXPECT_TRUE(allows(by_fences(kRelaxed, strong), "10"));
  }
  EXPECT_FALSE(allows(by_fences(kRelease, kAcquire), "10"));
  EXPECT_TRUE(allows(by_fences(kAcquire, kAcquire), "10"));
  EXPECT_TRUE(allows(by_fences(kRelease, kRelease), "10"));
}

TEST(Litmus, SeesRacesOfPlainMemory) {
  const Body write = [](State& s) { s.data = 1; };
  const Body read = [](State& s) { s.r[0] = s.data; };
  const auto if_told = [](Order load, const Body& then) -> Body {
    return [=](State& s) {
      if (s.y.load(load) == 1) then(s);
    };
  };
  const auto racing = [&](Order store, Order load) {
    return run({steps({write, put(Y, 1, store)}), if_told(load, read)});
  };
  EXPECT_TRUE(allows(racing(kRelease, kAcquire), "1"));
  EXPECT_EQ(racing(kRelaxed, kAcquire).error, kReadRace);
  EXPECT_EQ(racing(kRelease, kRelaxed).error, kReadRace);
  const auto reused = [&](Order done) {
    return run({steps({read, put(Y, 1, done)}), if_told(kAcquire, write)});
  };
  EXPECT_EQ(reused(kRelease).error, "");
  EXPECT_EQ(reused(kRelaxed).error, "a data race: a write beside a read");
  EXPECT_EQ(run({write, write}).error, "a data race: two writes");
}

Report store_buffering(Order store, Order load, Order between) {
  return run({steps({put(X, 1, store), fenced(between), get(Y, 0, load)}),
              steps({put(Y, 1, store), fenced(between), get(X, 1, load)})});
}

TEST(Litmus, BuffersStores) {
  EXPECT_TRUE(allows(store_buffering(kRelease, kAcquire, kRelaxed), "00"));
  EXPECT_FALSE(allows(store_buffering(kSc, kSc, kRelaxed), "00"));
  EXPECT_TRUE(allows(store_buffering(kSc, kAcquire, kRelaxed), "00"));
  EXPECT_TRUE(allows(store_buffering(kRelease, kSc, kRelaxed), "00"));
  EXPECT_FALSE(allows(store_buffering(kRelaxed, kRelaxed, kSc), "00"));
  EXPECT_TRUE(allows(store_buffering(kRelaxed, kRelaxed, kBoth), "00"));
  EXPECT_EQ(store_buffering(kRelaxed, kRelaxed, kRelaxed).executions, 4U);
  EXPECT_EQ(store_buffering(kSc, kSc, kRelaxed).executions, 3U);
}

TEST(Litmus, BuffersStoresUnlessBothFence) {
  const auto mixed = [](Order second) {
    return run({steps({put(X, 1, kRelaxed), fenced(kSc), get(Y, 0, kRelaxed)}),
                steps({put(Y, 1, second), get(X, 1, second)})});
  };
  EXPECT_TRUE(allows(mixed(kRelaxed), "00"));
  EXPECT_FALSE(allows(mixed(kSc), "00")) << "a fence here, seq_cst accesses there";
  const Report all =
      run({steps({put(X, 1, kRelaxed), [](State&) { membarrier(); }, get(Y, 0, kRelaxed)}),
           steps({put(Y, 1, kRelaxed), get(X, 1, kRelaxed)})});
  EXPECT_FALSE(allows(all, "00")) << "the fence of one thread is one in the other, too";
  EXPECT_TRUE(allows(all, "01"));
  EXPECT_TRUE(allows(all, "10"));
}

Report independent_reads(Order store, Order load, Order between) {
  return run({put(X, 1, store), put(Y, 1, store),
              steps({get(X, 0, load), fenced(between), get(Y, 1, load)}),
              steps({get(Y, 2, load), fenced(between), get(X, 3, load)})});
}

TEST(Litmus, ReadsIndependentWrites) {
  EXPECT_TRUE(allows(independent_reads(kRelease, kAcquire, kRelaxed), "1010"));
  EXPECT_FALSE(allows(independent_reads(kSc, kSc, kRelaxed), "1010"));
  EXPECT_FALSE(allows(independent_reads(kRelaxed, kRelaxed, kSc), "1010"));
  EXPECT_TRUE(allows(independent_reads(kRelease, kAcquire, kBoth), "1010"));
}

/// WRC.
TEST(Litmus, IsCausal) {
  const auto three = [](Order first, Order second) {
    return run({put(X, 1, kRelease), steps({get(X, 0, kAcquire), put(Y, 1, first)}),
                steps({get(Y, 1, second), get(X, 2, kRelaxed)})});
  };
  EXPECT_FALSE(allows(three(kRelease, kAcquire), "110"));
  EXPECT_TRUE(allows(three(kRelaxed, kAcquire), "110"));
  EXPECT_TRUE(allows(three(kRelease, kRelaxed), "110"));
}

TEST(Litmus, IsCoherent) {
  const Report reads = run({steps({put(X, 1, kRelaxed), put(X, 2, kRelaxed)}),
                            steps({get(X, 0, kRelaxed), get(X, 1, kRelaxed)})});
  for (const char* const backward : {"10", "20", "21"}) EXPECT_FALSE(allows(reads, backward));
  for (const char* const forward : {"00", "01", "02", "11", "12", "22"})
    EXPECT_TRUE(allows(reads, forward));
  const Report three = run({put(X, 1, kRelaxed), put(X, 2, kRelaxed), put(X, 3, kRelaxed)});
  EXPECT_EQ(three.executions, 6U) << "the orders of three stores";
  const Report both = run({put(X, 1, kRelaxed), put(X, 2, kRelaxed),
                           steps({get(X, 0, kRelaxed), get(X, 1, kRelaxed)}),
                           steps({get(X, 2, kRelaxed), get(X, 3, kRelaxed)})});
  EXPECT_FALSE(allows(both, "1221"));
  EXPECT_TRUE(allows(both, "1212"));
}

TEST(Litmus, OrdersTwoWritesTwice) {
  const auto twice = [](Order order, Order between) {
    return run({steps({put(X, 1, order), fenced(between), put(Y, 2, order)}),
                steps({put(Y, 1, order), fenced(between), put(X, 2, order)})});
  };
  EXPECT_TRUE(allows(twice(kRelaxed, kRelaxed), ".... 11")) << "against the order of execution";
  EXPECT_TRUE(allows(twice(kRelease, kRelaxed), ".... 11"));
  EXPECT_FALSE(allows(twice(kSc, kRelaxed), ".... 11"));
  EXPECT_FALSE(allows(twice(kRelaxed, kSc), ".... 11"));
}

TEST(Litmus, HasReleaseSequences) {
  const Body write = [](State& s) { s.data = 1; };
  const Body read = [](State& s) {
    if (s.x.load(kAcquire) == 2) s.r[0] = s.data;
  };
  const auto through = [&](const Body& between) {
    return run({steps({write, put(X, 1, kRelease)}), between, read});
  };
  const Report rmw = through([](State& s) { (void)s.x.fetch_add(1, kRelaxed); });
  EXPECT_TRUE(allows(rmw, "1")) << "an rmw goes on with it";
  const Report store = through([](State& s) {
    if (s.x.load(kRelaxed) == 1) s.x.store(2, kRelaxed);
  });
  EXPECT_EQ(store.error, kReadRace);
  const Report own = run({steps({write, put(X, 1, kRelease), put(X, 2, kRelaxed)}), read});
  EXPECT_EQ(own.error, kReadRace) << "in C++20 a store of the same thread ends it";
}

TEST(Litmus, ChangesAtOnce) {
  const auto add = [](std::size_t into) -> Body {
    return [=](State& s) { s.r[into] = s.x.fetch_add(1, kRelaxed); };
  };
  const Report adds = run({add(0), add(1), add(2)});
  EXPECT_EQ(adds.executions, 6U);
  EXPECT_FALSE(allows(adds, ".... 2"));
  EXPECT_TRUE(allows(adds, "201. 3"));
  const Body lock = [](State& s) {
    int free = 0;
    if (s.x.compare_exchange_strong(free, 1, kAcquire)) {
      s.data = s.data + 1;
      s.x.store(0, kRelease);
    }
  };
  EXPECT_EQ(run({lock, lock, lock}).error, "");
  const auto exchange = [](Place place, Order order) -> Body {
    return [=](State& s) { (void)(s.*place).exchange(1, order); };
  };
  for (const Order order : {kBoth, kSc}) {
    const Report buffered = run({steps({exchange(X, order), get(Y, 0, kRelaxed)}),
                                 steps({exchange(Y, order), get(X, 1, kRelaxed)})});
    EXPECT_TRUE(allows(buffered, "00")) << "an rmw is no fence";
  }
}

/// Z6.U of RC11, which C11 forbade and the compilation to POWER allows.
TEST(Litmus, OrdersSequentialAccessesAsRc11) {
  const Body add = [](State& s) { s.r[0] = s.y.fetch_add(1, kSc); };
  const auto z6u = [&](Order order) {
    return run({steps({put(X, 1, kSc), put(Y, 1, order)}), steps({add, get(Y, 1, kRelaxed)}),
                steps({put(Y, 3, kSc), get(X, 2, kSc)})});
  };
  EXPECT_TRUE(allows(z6u(kRelease), "130"));
  EXPECT_FALSE(allows(z6u(kSc), "130"));
}

TEST(Litmus, HasNoLoadBuffering) {
  const Report report = run({steps({get(X, 0, kRelaxed), put(Y, 1, kRelaxed)}),
                             steps({get(Y, 1, kRelaxed), put(X, 1, kRelaxed)})});
  EXPECT_FALSE(allows(report, "11")) << "RC11 forbids it; C++20 and ARM allow it";
  EXPECT_EQ(report.executions, 3U);
}

Body wait_for(Place place, int value) {
  return [=](State& s) { await([&] { return (s.*place).load(kRelaxed) == value; }); };
}

TEST(Litmus, FindsThreadsThatWaitForEver) {
  const Report waits = run({put(X, 1, kRelaxed), wait_for(X, 1)});
  EXPECT_EQ(waits.error, "");
  EXPECT_EQ(waits.executions, 1U);
  EXPECT_EQ(run({put(X, 1, kRelaxed), wait_for(X, 2)}).error, kForEver);
  EXPECT_EQ(run({steps({wait_for(Y, 1), put(X, 1, kRelaxed)}),
                 steps({wait_for(X, 1), put(Y, 1, kRelaxed)})})
                .error,
            kForEver);
}

TEST(Litmus, SleepsAsFutexDoes) {
  const Body sleep = [](State& s) { s.x.word().futex_wait(0); };
  const auto wake = [](int count) -> Body {
    return [=](State& s) { s.x.word().futex_wake(count); };
  };
  const Body store = put(X, 1, kRelaxed);
  EXPECT_EQ(run({steps({store, wake(1)}), sleep}).error, "");
  EXPECT_EQ(run({steps({wake(1), store}), sleep}).error, kForEver) << "woken before the store";
  EXPECT_EQ(run({steps({store, wake(2)}), sleep, sleep}).error, "");
  EXPECT_EQ(run({steps({store, wake(1)}), sleep, sleep}).error, kForEver);
}

}  // namespace
}  // namespace tutti::models
