#pragma once

#include <array>
#include <atomic>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tutti::models {

using Order = std::memory_order;

[[nodiscard]] constexpr bool acquires(Order order) noexcept {
  return order == Order::acquire || order == Order::acq_rel || order == Order::seq_cst;
}
[[nodiscard]] constexpr bool releases(Order order) noexcept {
  return order == Order::release || order == Order::acq_rel || order == Order::seq_cst;
}

inline constexpr int kThreads = 4;               ///< at most
inline constexpr std::size_t kMostEvents = 192;  ///< of one execution
using Set = std::bitset<kMostEvents>;

/// By thread: how many of its events happen before.
struct Clock : std::array<std::uint8_t, kThreads> {
  void join(const Clock& other) noexcept {
    for (std::size_t i = 0; i < size(); ++i)
      if (other[i] > (*this)[i]) (*this)[i] = other[i];
  }
};

/// An atomic access or a fence. `initial` is the value that a location is made with: it happens
/// before everything. `barrier` is a full fence in a call of the kernel. The barriers of a location
/// have an order, and each orders what its thread does, but the model lets nothing synchronise with
/// it.
struct Event {
  enum class Kind : std::uint8_t { initial, load, store, rmw, fence, barrier };
  Kind kind = Kind::fence;
  Order order = Order::relaxed;
  int thread = -1;
  int index = 0;  ///< in its thread
  int location = -1;
  int site = -1;
  std::uint64_t value = 0;  ///< read by a load, else written
  int reads = -1;           ///< the event that a load or rmw reads from
  Clock clock{};            ///< what happens before it, with itself
  Clock released{};         ///< of a store: what an acquire load that reads it learns

  [[nodiscard]] bool writes() const noexcept { return kind != Kind::load && kind != Kind::fence; }
  [[nodiscard]] bool is_fence() const noexcept {
    return kind == Kind::fence || kind == Kind::barrier;
  }
};

/// One execution as RC11 has it: events, reads-from, and the modification order of each location
/// (Lahav, Vafeiadis, Kang, Hur, Dreyer: Repairing Sequential Consistency in C/C++11, PLDI 2017,
/// with the release sequences of C++20). An event is only added where coherence allows it, so what
/// is left to check is the order of the sequentially consistent ones.
class Graph {
 public:
  void clear(int threads) noexcept;
  int add_location(std::uint64_t value);
  /// Stores that a load of this thread may read, the newest first. `for_rmw`: that another rmw has
  /// not read.
  [[nodiscard]] std::vector<int> visible(int thread, int location, bool for_rmw) const;
  /// Places in the modification order at which a store of this thread may stand, the last first.
  [[nodiscard]] std::vector<std::size_t> places(int thread, int location) const;
  /// Adds an event at the end of its thread. A store stands at `place` in the modification order,
  /// an rmw behind the store that it reads, a barrier at the end.
  void append(Event event, std::size_t place = 0);
  /// False: no order of the seq_cst events fits (RC11's axiom "psc is acyclic").
  [[nodiscard]] bool is_consistent() const;
  /// The same for two executions that differ only in how their threads were interleaved.
  [[nodiscard]] std::uint64_t hash() const noexcept;

  [[nodiscard]] const std::vector<Event>& events() const noexcept { return events_; }
  [[nodiscard]] const Event& event(int id) const noexcept { return events_[std::size_t(id)]; }
  [[nodiscard]] int newest(int location) const noexcept {
    return locations_[std::size_t(location)].back();
  }
  [[nodiscard]] const Clock& clock(int thread) const noexcept {
    return threads_[std::size_t(thread)].clock;
  }
  [[nodiscard]] int length(int thread) const noexcept {
    return threads_[std::size_t(thread)].length;
  }

 private:
  struct Thread {
    int length = 0;
    Clock clock{};
    Clock read{};      ///< what an acquire fence would learn
    Clock released{};  ///< what the last release fence publishes
  };
  /// Relations of an event to others.
  struct Row {
    Set before;      ///< hb
    Set apart;       ///< po to another location
    Set reads_from;  ///< rf
    Set modifies;    ///< mo and fr
    Set order;       ///< po, and hb to the same location
  };
  [[nodiscard]] std::size_t place_of(int store) const noexcept;
  [[nodiscard]] std::size_t oldest_visible(int thread, int location) const noexcept;
  [[nodiscard]] bool is_read_by_rmw(int store) const noexcept;
  void relate(int id);
  [[nodiscard]] Set image(const Set& from, Set Row::*relation) const noexcept;
  [[nodiscard]] Set follows_in_psc(int id) const noexcept;

  std::vector<Event> events_;
  std::vector<Row> rows_;
  std::vector<std::vector<int>> locations_;  ///< stores, in modification order
  std::vector<Thread> threads_;
  std::vector<int> sequential_;  ///< seq_cst events
};

}  // namespace tutti::models
