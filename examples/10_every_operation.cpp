// A tour: every operation once, on 4 processes, as small tables. Rank r gives r, or r * 10 + index.
// Each result is checked.
//
//   tuttirun --nproc-per-node 4 10_every_operation

#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include <tutti/tutti.hpp>

namespace {

using Row = std::vector<int>;

std::string text(const Row& row) {
  std::string all;
  for (const int value : row) {
    char one[16];
    std::snprintf(one, sizeof(one), "%4d", value);
    all += one;
  }
  return all.empty() ? "   -" : all;
}

/// The inputs and outputs of all ranks, collected and printed on rank 0.
class Table {
 public:
  explicit Table(tutti::ProcessGroup& world) : world_(world) {}

  /// `expected(rank)`: what that rank must have got. Counts what is wrong.
  void show(const char* name, const Row& before, const Row& after,
            const std::function<Row(int)>& expected) {
    if (after != expected(world_.rank())) ++wrong_;
    if (world_.rank() == 0) std::printf("\n%s\n", name);
    const std::string mine =
        "  rank " + std::to_string(world_.rank()) + " |" + text(before) + "  ->" + text(after);
    std::vector<char> line(120, '\0');
    mine.copy(line.data(), line.size() - 1);
    std::vector<char> lines(line.size() * static_cast<std::size_t>(world_.size()));
    world_.gather(lines, line).wait();
    for (int r = 0; r < world_.size() && world_.rank() == 0; ++r)
      std::printf("%s\n", &lines[static_cast<std::size_t>(r) * line.size()]);
  }
  [[nodiscard]] int wrong() const { return wrong_; }

 private:
  tutti::ProcessGroup& world_;
  int wrong_ = 0;
};

}  // namespace

int main() {
  tutti::ProcessGroup world = tutti::init_process_group();
  const int rank = world.rank();
  const int size = world.size();
  const auto n = static_cast<std::size_t>(size);
  const int all = size * (size - 1) / 2;  // the sum of the ranks
  Table table(world);

  const Row own{rank};
  Row numbers;  // rank * 10 + index
  for (int i = 0; i < size; ++i) numbers.push_back(rank * 10 + i);
  Row ranks;
  for (int r = 0; r < size; ++r) ranks.push_back(r);

  Row value{-1};
  tutti::Work sent = world.isend(own, (rank + 1) % size);
  world.recv(value, (rank + size - 1) % size);
  sent.wait();
  table.show("send to the next rank, recv from the one before", own, value,
             [&](int r) { return Row{(r + size - 1) % size}; });

  sent = world.isend(own, (rank + 1) % size);
  value = world.probe((rank + size - 1) % size).recv<Row::value_type>();
  sent.wait();
  table.show("probe, for a message of unknown size", own, value,
             [&](int r) { return Row{(r + size - 1) % size}; });

  value = own;
  world.broadcast(value, {.root = 0}).wait();
  table.show("broadcast from rank 0", own, value, [](int) { return Row{0}; });

  value = own;
  world.all_reduce(value).wait();
  table.show("all_reduce, SUM", own, value, [&](int) { return Row{all}; });

  value = own;
  world.all_reduce(value, {.op = tutti::ReduceOp::max}).wait();
  table.show("all_reduce, MAX", own, value, [&](int) { return Row{size - 1}; });

  Row first = own;
  Row second = numbers;
  const std::vector<tutti::TensorView> both{first, second};
  world.all_reduce_coalesced(both).wait();
  Row before = own;
  before.insert(before.end(), numbers.begin(), numbers.end());
  first.insert(first.end(), second.begin(), second.end());
  table.show("all_reduce of two tensors at once, SUM", before, first, [&](int) {
    Row sums{all};
    for (int i = 0; i < size; ++i) sums.push_back(all * 10 + size * i);
    return sums;
  });

  value = own;
  world.reduce(value, {.root = 0}).wait();
  table.show("reduce to rank 0, SUM", own, value,
             [&](int r) { return r == 0 ? Row{all} : Row{r}; });

  value = own;
  world.scan(value).wait();
  table.show("scan, SUM: of the ranks up to each", own, value,
             [](int r) { return Row{r * (r + 1) / 2}; });

  value = own;
  world.scan(value, {.exclusive = true}).wait();
  table.show("exclusive scan: without its own", own, value,
             [](int r) { return Row{r * (r - 1) / 2}; });

  Row row(n);
  world.all_gather(row, own).wait();
  table.show("all_gather", own, row, [&](int) { return ranks; });

  row.assign(rank == 0 ? n : 0, 0);
  world.gather(row, own, {.root = 0}).wait();
  table.show("gather on rank 0", own, row, [&](int r) { return r == 0 ? ranks : Row{}; });

  const Row given = rank == 0 ? numbers : Row{};
  value.assign(1, 0);
  world.scatter(value, given, {.root = 0}).wait();
  table.show("scatter from rank 0", given, value, [](int r) { return Row{r}; });

  value.assign(1, 0);
  world.reduce_scatter(value, numbers).wait();
  table.show("reduce_scatter, SUM", numbers, value,
             [&](int r) { return Row{all * 10 + r * size}; });

  row.assign(n, 0);
  world.all_to_all(row, numbers).wait();
  table.show("all_to_all", numbers, row, [&](int r) {
    Row column;
    for (int s = 0; s < size; ++s) column.push_back(s * 10 + r);
    return column;
  });

  // Rank r sends d elements to rank d, so it gets r from each.
  std::vector<std::size_t> to;
  Row uneven;
  for (std::size_t d = 0; d < n; ++d) {
    to.push_back(d);
    uneven.insert(uneven.end(), d, rank);
  }
  const std::vector<std::size_t> from(n, static_cast<std::size_t>(rank));
  Row got(n * static_cast<std::size_t>(rank));
  world.all_to_all(got, uneven, {.output_splits = from, .input_splits = to}).wait();
  table.show("all_to_all with splits", uneven, got, [&](int r) {
    Row result;
    for (int s = 0; s < size; ++s) result.insert(result.end(), static_cast<std::size_t>(r), s);
    return result;
  });

  world.barrier().wait();
  world.monitored_barrier({.timeout = std::chrono::seconds(60)});  // would name who does not come
  std::vector<int> wrong{table.wrong()};
  world.all_reduce(wrong).wait();
  if (rank == 0) std::printf("\n%s\n", wrong[0] == 0 ? "all as it must be" : "something is WRONG");
  return wrong[0] == 0 ? 0 : 1;
}
