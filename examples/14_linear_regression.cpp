// Data parallelism in its smallest form: fits y = w x + b to points of y = 3 x + 2 + noise. Every
// rank has points of its own and the whole model; in each step the gradients are averaged over all
// ranks, so all models make the same step and stay equal to the last bit.
//
//   tuttirun --nproc-per-node 4 14_linear_regression

#include <array>
#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

#include <tutti/tutti.hpp>

namespace {

constexpr int kPoints = 500;  // on each rank
constexpr int kSteps = 300;
constexpr double kRate = 0.2;

struct Point {
  double x;
  double y;
};

std::vector<Point> points_of(int rank) {
  std::mt19937 random(static_cast<unsigned>(rank) + 1);
  std::uniform_real_distribution<double> place(-1, 1);
  std::normal_distribution<double> noise(0, 0.1);
  std::vector<Point> points;
  for (int i = 0; i < kPoints; ++i) {
    const double x = place(random);
    points.push_back({x, 3 * x + 2 + noise(random)});
  }
  return points;
}

}  // namespace

int main() {
  tutti::ProcessGroup world = tutti::init_process_group();
  const std::vector<Point> points = points_of(world.rank());

  std::array<double, 2> model{0, 0};  // w and b
  if (world.rank() == 0) model = {-1, 1};
  world.broadcast(model, {.root = 0}).wait();  // all start at the same place

  double loss = 0;
  for (int step = 0; step < kSteps; ++step) {
    std::array<double, 3> mean{0, 0, 0};  // the gradient, and the loss
    for (const Point& point : points) {
      const double error = model[0] * point.x + model[1] - point.y;
      mean[0] += 2 * error * point.x / kPoints;
      mean[1] += 2 * error / kPoints;
      mean[2] += error * error / kPoints;
    }
    world.all_reduce(mean, {.op = tutti::ReduceOp::avg}).wait();
    model[0] -= kRate * mean[0];
    model[1] -= kRate * mean[1];
    loss = mean[2];
  }

  // Equal to the last bit: smallest and largest are the same.
  std::array<double, 2> least = model;
  std::array<double, 2> most = model;
  world.all_reduce(least, {.op = tutti::ReduceOp::min}).wait();
  world.all_reduce(most, {.op = tutti::ReduceOp::max}).wait();
  if (world.rank() == 0) {
    std::printf("%d ranks x %d points: y = %.3f x + %.3f, loss %.4f\n", world.size(), kPoints,
                model[0], model[1], loss);
  }
  const bool fits = std::abs(model[0] - 3) < 0.05 && std::abs(model[1] - 2) < 0.05;
  return fits && least == most ? 0 : 1;
}
