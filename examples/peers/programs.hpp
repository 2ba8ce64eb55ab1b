#pragma once

// Seven programs for tutti.cpp, mpi.cpp and c10d.cpp: all of them but the communication, which each
// of those files has in a struct Programs. So all three work on the same data, under one check.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

namespace programs {

/// Gradients of a model, layer by layer.
using Layers = std::vector<std::vector<float>>;

/// A block of cells with a halo of one cell around it, in rows.
struct Block {
  Block(int high, int wide)
      : rows(high), columns(wide), cells(static_cast<std::size_t>((high + 2) * (wide + 2))) {}
  double& at(int row, int column) { return cells[static_cast<std::size_t>(place(row, column))]; }
  int place(int row, int column) const { return row * (columns + 2) + column; }
  /// Each cell becomes the mean of its four neighbours. The cells stay in their memory.
  void spread() {
    Block next = *this;
    for (int i = 1; i <= rows; ++i) {
      for (int j = 1; j <= columns; ++j)
        next.at(i, j) = (at(i - 1, j) + at(i + 1, j) + at(i, j - 1) + at(i, j + 1)) / 4;
    }
    cells = next.cells;
  }
  int rows;
  int columns;
  std::vector<double> cells;
};

/// Where this rank's block lies in a grid of blocks.
struct Place {
  int rows;
  int columns;
  int row;
  int column;
};

/// Values of all ranks in a row, and how many each has.
template <class T, class Count>
struct Gathered {
  std::vector<T> values;
  std::vector<Count> counts;
};

constexpr std::size_t kSamples = 16;  // of each rank

inline std::vector<int> samples_of(const std::vector<int>& sorted) {
  std::vector<int> samples;
  for (std::size_t i = 0; i < kSamples; ++i)
    samples.push_back(sorted[i * sorted.size() / kSamples]);
  return samples;
}

/// How many of the sorted numbers go to each rank, by the samples of all.
template <class Count>
std::vector<Count> counts_of(const std::vector<int>& sorted, std::vector<int> samples, int size) {
  std::sort(samples.begin(), samples.end());
  std::vector<Count> counts;
  auto begin = sorted.begin();
  for (std::size_t next = 1; next <= static_cast<std::size_t>(size); ++next) {
    const auto end = next * kSamples == samples.size()
                         ? sorted.end()
                         : std::lower_bound(begin, sorted.end(), samples[next * kSamples]);
    counts.push_back(static_cast<Count>(end - begin));
    begin = end;
  }
  return counts;
}

/// The task that says that there is none.
constexpr int kNoTask = -1;
/// A worker's message: a task that it has done, and the result.
struct Done {
  int task = kNoTask;
  int result = 0;
};
inline int result_of(int task) { return task * task + 1; }

// ---- Checks

inline bool check(bool right, const char* name, int rank) {
  if (!right) std::printf("rank %d: %s is wrong\n", rank, name);
  return right;
}

inline float gradient_of(int rank, std::size_t layer) {
  return static_cast<float>(rank + 10 * static_cast<int>(layer));
}

/// The sum of `gradient_of` over all ranks.
inline float sum_of(int size, std::size_t layer) {
  return static_cast<float>(size * (size - 1) / 2 + 10 * size * static_cast<int>(layer));
}

template <class Programs>
bool gradients_are_right(Programs& on) {
  Layers averaged;
  Layers summed(4, std::vector<float>(20'000));
  for (std::size_t layer = 0; layer < 4; ++layer)
    averaged.emplace_back(100 * (layer + 1), gradient_of(on.rank, layer));
  on.average(averaged);
  on.overlap(summed, [&](std::size_t layer) {
    std::fill(summed[layer].begin(), summed[layer].end(), gradient_of(on.rank, layer));
  });
  bool right = true;
  for (std::size_t layer = 0; layer < 4; ++layer) {
    const float sum = sum_of(on.size, layer);
    right = right && averaged[layer].back() == sum / static_cast<float>(on.size) &&
            summed[layer].back() == sum;
  }
  return check(right, "gradients or overlap", on.rank);
}

template <class Programs>
bool halo_is_right(Programs& on) {
  constexpr int kSteps = 50;
  Block mine(6, 5);
  if (on.rank == 0) mine.at(6, 5) = 1000;
  const Place place = on.heat(mine, kSteps);
  Block plate(place.rows * 6, place.columns * 5);  // the same on one rank
  plate.at(6, 5) = 1000;
  for (int step = 0; step < kSteps; ++step) plate.spread();
  bool right = place.rows * place.columns == on.size;
  for (int i = 1; i <= 6; ++i) {
    for (int j = 1; j <= 5; ++j)
      right = right && mine.at(i, j) == plate.at(place.row * 6 + i, place.column * 5 + j);
  }
  return check(right, "halo", on.rank);
}

template <class Programs>
bool gather_is_right(Programs& on) {
  const std::vector<double> mine(static_cast<std::size_t>(on.rank), on.rank);
  const auto gathered = on.gather(mine);  // rank r gives r times r
  bool right = true;
  if (on.rank == 0) {
    std::vector<double> expected;
    for (int rank = 0; rank < on.size; ++rank) {
      right = right && static_cast<int>(gathered.counts[static_cast<std::size_t>(rank)]) == rank;
      expected.insert(expected.end(), static_cast<std::size_t>(rank), rank);
    }
    right = right && gathered.values == expected;
  }
  return check(right, "gather of unlike sizes", on.rank);
}

template <class Programs>
bool config_is_right(Programs& on) {
  std::string config = on.rank == 0 ? "steps = 100\nrate = 0.2\n" : "";
  on.broadcast(config);
  return check(config == "steps = 100\nrate = 0.2\n", "broadcast of a config", on.rank);
}

template <class Programs>
bool sort_is_right(Programs& on) {
  std::vector<int> all;
  std::vector<int> mine;
  for (int rank = 0; rank < on.size; ++rank) {
    std::mt19937 random(static_cast<unsigned>(rank) + 1);
    std::vector<int> theirs(1000 + 500 * static_cast<std::size_t>(rank % 3));
    for (int& number : theirs) number = static_cast<int>(random() % 100'000);
    std::sort(theirs.begin(), theirs.end());
    all.insert(all.end(), theirs.begin(), theirs.end());
    if (rank == on.rank) mine = theirs;
  }
  std::sort(all.begin(), all.end());
  std::vector<int> sorted = on.sort(mine);
  std::sort(sorted.begin(), sorted.end());
  // All ranks have all numbers between them, and this one has a part of the sorted ones.
  const std::vector<double> has(sorted.begin(), sorted.end());
  const auto gathered = on.gather(has);
  bool right = !sorted.empty() &&
               std::search(all.begin(), all.end(), sorted.begin(), sorted.end()) != all.end();
  if (on.rank == 0) right = right && gathered.values == std::vector<double>(all.begin(), all.end());
  return check(right, "sample sort", on.rank);
}

template <class Programs>
bool farm_is_right(Programs& on) {
  const std::vector<int> results = on.farm(20);
  bool right = true;
  for (int task = 0; on.rank == 0 && task < 20; ++task)
    right = right && results[static_cast<std::size_t>(task)] == result_of(task);
  return check(right, "farm", on.rank);
}

/// Runs all programs; the status for main.
template <class Programs>
int run(Programs& on) {
  bool right = gradients_are_right(on);
  right = halo_is_right(on) && right;
  right = gather_is_right(on) && right;
  right = config_is_right(on) && right;
  right = sort_is_right(on) && right;
  right = farm_is_right(on) && right;
  if (on.rank == 0) std::printf("%d ranks: %s\n", on.size, right ? "all right" : "WRONG");
  return right ? 0 : 1;
}

}  // namespace programs
