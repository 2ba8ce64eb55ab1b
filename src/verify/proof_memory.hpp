#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "verify/prover.hpp"

// The prover's knowledge of memory: which rank wrote and read each element when, and its value.
namespace tutti::verify::proof {

/// Time of each rank as far as known: what happened on rank q up to clock[q] happened before.
using Clock = std::vector<std::uint32_t>;
/// Ranks of which it is known that they make the same call.
using Known = std::vector<bool>;

void join(Clock& a, const Clock& b);
void join(Known& a, const Known& b);

/// Sums as trees. Leaves 0..P-1 are the inputs of the ranks.
class Sums {
 public:
  explicit Sums(int size);
  static constexpr int kUndefined = -1;  ///< and everything made of it

  [[nodiscard]] int add(int left, int right);
  /// The sum in the order of the lowest-bit binomial tree over the sources.
  [[nodiscard]] int combine(const std::vector<int>& sources);
  /// The sum of the ranks 0 to count - 1.
  [[nodiscard]] int first_ranks(int count);
  /// The value after a reduce step that is marked as the last.
  [[nodiscard]] int divided(int sum) { return add(sum, kDivided); }
  [[nodiscard]] bool is_divided(int sum) const;
  [[nodiscard]] int undivided(int sum) const;
  [[nodiscard]] bool is_input(int sum) const noexcept { return sum >= 0 && sum < size_; }
  /// Every rank is in it.
  [[nodiscard]] bool complete(int sum) const;
  /// No rank is in it that one before it is missing of: what a scan gives to some rank.
  [[nodiscard]] bool is_prefix(int sum) const;
  /// How often each rank counts in it.
  [[nodiscard]] std::vector<int> inputs_of(int sum) const;
  /// The ranks in it are all known.
  [[nodiscard]] bool covered(int sum, const Known& known) const;

 private:
  static constexpr int kDivided = -2;  // as the right one of a node
  [[nodiscard]] int combine(const int* sources, std::size_t count);
  int size_;
  std::vector<std::pair<int, int>> nodes_;  // node size_ + i
  std::vector<Known> inputs_;               // of every sum
  std::map<std::pair<int, int>, int> index_;
};

/// A message on its way: its sender may read its memory until `completed` on `to`.
struct Message {
  int from = 0;
  int to = 0;
  std::size_t first_element = 0;
  std::vector<int> sums;
  Clock clock;
  Known known;
  std::uint32_t completed = 0;  ///< the receiver's time; 0: not yet
};

/// A read that a later write must come after.
struct Read {
  int rank = 0;
  std::uint32_t time = 0;
  const Message* message = nullptr;  ///< a send reads until its receiver has it
  std::size_t wanted = 0;            ///< element
  int suspect = -1;                  ///< number of a doubt about this read, see Memory
  int next = -1;
};

struct Cell {
  int sum = Sums::kUndefined;
  std::size_t element = 0;
  int writer = -1;  ///< rank; -1: nobody yet
  std::uint32_t written = 0;
  int reads = -1;  ///< the last of a list
};

/// Where elements lie: a run of cells.
struct Place {
  std::vector<Cell>* cells = nullptr;
  std::size_t at = 0;
  std::size_t count = 0;
  std::size_t element = 0;  ///< the first
};

/// The rank that reads or writes, and the steps that came before for sure.
struct Access {
  int rank = 0;
  const Clock* clock = nullptr;
};

/// All accesses go through here. Findings go to `report`.
class Memory {
 public:
  /// kind, rank concerned, whether the memory's other user, and the element
  struct Race {
    Fault kind;
    int other;
    std::size_t element;
  };

  /// The sums in the cells. A cell that holds something else than the wanted element is doubtful:
  /// it may turn out later that its writer was just not waited for, so this is told at the end.
  void read(const Place& place, const Access& by, const Message* message, std::vector<int>& sums,
            std::vector<Race>& races);
  void write(const Place& place, const Access& by, std::uint32_t time, const std::vector<int>& sums,
             std::vector<Race>& races);
  /// A finding that is still doubtful: undefined_read or wrong_element, with the reader.
  struct Doubt {
    Fault kind;
    int rank;
    std::size_t element;
    bool settled = false;
    std::size_t step = 0;
  };
  [[nodiscard]] const std::vector<Doubt>& doubts() const noexcept { return doubts_; }
  /// The step that reads are made by from now on.
  void set_step(std::size_t step) noexcept { step_ = step; }

 private:
  [[nodiscard]] bool before(const Read& read, const Clock& clock) const noexcept;

  std::vector<Read> reads_;
  std::vector<Doubt> doubts_;
  std::size_t step_ = 0;
};

}  // namespace tutti::verify::proof
