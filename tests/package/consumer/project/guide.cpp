// The pieces of docs/learn/guide.md, docs/reference/cpp.md and docs/how-to/after-a-failure.md
// compile, each in the scope of those before. They are not run.
// tests/package/pages/blocks_test.py compiles those of every page in the same way.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <tutti/tutti.hpp>

void compute();
void compute(std::vector<float>& gradient);
void train(tutti::ProcessGroup& world, int rank);
void work_on(tutti::ProcessGroup& world);
void write_checkpoint();

struct Plan {
  static Plan read(const char* path);
  static Plan from_json(std::span<const std::byte> bytes);
  [[nodiscard]] std::string to_json() const;
};

struct Pair {
  int length;
  int rank;
};

#include "guide_specialisations.hpp"

int all_pieces(tutti::ProcessGroup& world, int rank, int n, const std::string& host,
               const std::string& host_name, std::uint16_t port) {
  // The pieces take these as given.
  const auto size = static_cast<std::size_t>(n);
  const float score = 1;
  std::vector<float> sums(1000);
  std::vector<float> weights(10);
  std::vector<float> bias(10);
  std::vector<std::vector<float>> gradients(3, weights);
  std::vector<Pair> pairs(3);
#include "guide_pieces.hpp"
}
