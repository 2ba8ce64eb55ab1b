// Halo exchange: heat on a plate that a grid of ranks shares. Each rank has a block of cells and,
// around it, a halo of its neighbours' outermost cells. At the borders of the plate there is no
// neighbour, and the halo stays cold.
//
//   tuttirun --nproc-per-node 4 17_halo

#include <cstdio>
#include <utility>
#include <vector>

#include <tutti/tutti.hpp>

namespace {

/// A block of cells with its halo, in rows.
struct Block {
  Block(int high, int wide)
      : rows(high), columns(wide), cells(static_cast<std::size_t>((high + 2) * (wide + 2))) {}

  double& at(int row, int column) {
    return cells[static_cast<std::size_t>(row * (columns + 2) + column)];
  }
  /// The inner cells of a row, which lie side by side, and of a column, which do not.
  tutti::TensorView row(int i) {
    return tutti::TensorView(&at(i, 1), tutti::DType::float64, static_cast<std::size_t>(columns));
  }
  tutti::TensorView column(int j) {
    return tutti::TensorView(&at(1, j), tutti::DType::float64, {rows}, {columns + 2});
  }
  /// Each cell becomes the mean of its four neighbours.
  void spread() {
    Block next = *this;
    for (int i = 1; i <= rows; ++i) {
      for (int j = 1; j <= columns; ++j)
        next.at(i, j) = (at(i - 1, j) + at(i + 1, j) + at(i, j - 1) + at(i, j + 1)) / 4;
    }
    cells = std::move(next.cells);
  }

  int rows;
  int columns;
  std::vector<double> cells;
};

}  // namespace

int main() {
  constexpr int kRows = 12;  // of each rank
  constexpr int kColumns = 9;
  constexpr int kSteps = 100;
  tutti::ProcessGroup world = tutti::init_process_group({.or_alone = true});
  tutti::CartGroup grid = tutti::cart(world, {0, 0});  // as square as the number of ranks allows
  Block mine(kRows, kColumns);
  if (world.rank() == 0) mine.at(kRows, kColumns) = 1000;

  for (int step = 0; step < kSteps; ++step) {
    // Into the halo: from the rows above and below, from the columns left and right; and out of the
    // block: the outermost cells on these sides.
    tutti::wait_all(grid.neighbor_all_to_all(
        {mine.row(0), mine.row(kRows + 1), mine.column(0), mine.column(kColumns + 1)},
        {mine.row(1), mine.row(kRows), mine.column(1), mine.column(kColumns)}));
    mine.spread();
  }

  // The same on one rank gives the same numbers.
  Block plate(grid.dims()[0] * kRows, grid.dims()[1] * kColumns);
  plate.at(kRows, kColumns) = 1000;
  for (int step = 0; step < kSteps; ++step) plate.spread();
  bool right = true;
  const std::vector<int> place = grid.coords();
  for (int i = 1; i <= kRows; ++i) {
    for (int j = 1; j <= kColumns; ++j)
      right = right && mine.at(i, j) == plate.at(place[0] * kRows + i, place[1] * kColumns + j);
  }
  std::vector<int> all_right{right ? 1 : 0};
  world.all_reduce(all_right, tutti::logical_and<int>()).wait();
  if (world.rank() == 0)
    std::printf("%d x %d ranks, %s\n", grid.dims()[0], grid.dims()[1],
                all_right[0] == 1 ? "as on one" : "NOT as on one");
  return all_right[0] == 1 ? 0 : 1;
}
