// Point to point and the six collectives that newcomers meet first, on torch::Tensor. Each rank has
// three numbers; all of it fits on paper.
//
//   tuttirun --nproc-per-node 4 collectives

#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <tutti/torch/process_group.hpp>

namespace {

using at::Tensor;

void check(bool holds, const char* what) {
  if (!holds) throw std::runtime_error(std::string(what) + ": not what was expected");
}

/// A tensor goes round the ring of ranks, and each adds what it holds.
void ring(tutti::torch::ProcessGroup& group) {
  const int size = group.size();
  const int right = (group.rank() + 1) % size;
  const int left = (group.rank() + size - 1) % size;
  const Tensor all = at::full({3}, size * (size + 1) / 2.0);

  // Blocking: rank 0 sends first, and all others receive first.
  Tensor baton = at::zeros({3}, at::kDouble);
  if (group.rank() != 0) group.recv(baton, left);
  baton += group.rank() + 1;
  group.send(baton, right);
  if (group.rank() == 0) {
    group.recv(baton, left);
    check(baton.equal(all.to(at::kDouble)), "send and recv");
  }

  // Without waiting: all send at once. A buffer must not be written before its send is done.
  Tensor held = at::full({250'000}, group.rank() + 1.0);
  Tensor total = held.clone();
  for (int step = 1; step < size; ++step) {
    Tensor arriving = at::empty_like(held);
    auto sending = group.isend(held, right);
    auto receiving = group.irecv(arriving, left);
    sending.wait();
    receiving.wait();
    total += arriving;
    held = arriving;
  }
  check(total.slice(0, 0, 3).equal(all) && total.eq(all[0]).all().item<bool>(), "isend and irecv");
}

Tensor numbers_of(int rank) { return at::tensor({1.0, 10.0, 100.0}) * (rank + 1); }

void collectives(tutti::torch::ProcessGroup& group) {
  const int size = group.size();
  const int root = size - 1;
  const bool is_root = group.rank() == root;
  const Tensor mine = numbers_of(group.rank());
  std::vector<Tensor> of_all;
  for (int rank = 0; rank < size; ++rank) of_all.push_back(numbers_of(rank));

  Tensor x = mine.clone();
  group.broadcast(x, {.root = root}).wait();
  check(x.equal(of_all.back()), "broadcast");

  x = mine.clone();
  group.reduce(x, {.root = root}).wait();
  check(!is_root || x.equal(at::stack(of_all).sum(0)), "reduce");

  x = mine.clone();
  group.all_reduce(x, {.op = tutti::ReduceOp::max}).wait();
  check(x.equal(of_all.back()), "all_reduce");

  std::vector<Tensor> parts;  // only the root gives room
  for (int rank = 0; is_root && rank < size; ++rank) parts.push_back(at::empty_like(mine));
  group.gather(parts, mine, {.root = root}).wait();
  check(!is_root || at::stack(parts).equal(at::stack(of_all)), "gather");

  x = at::empty_like(mine);
  group.scatter(x, parts, {.root = root}).wait();
  check(x.equal(mine), "scatter");

  const Tensor rows = at::empty({size, 3}, mine.options());
  group.all_gather(rows, mine).wait();
  check(rows.equal(at::stack(of_all)), "all_gather");
}

}  // namespace

int main() {
  auto group = tutti::torch::init_process_group();
  ring(group);
  collectives(group);
  if (group.rank() == 0) std::printf("%d ranks: a ring and six collectives\n", group.size());
  return 0;
}
