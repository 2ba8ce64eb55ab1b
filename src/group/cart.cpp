#include <tutti/cart.hpp>

#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "base/format.hpp"
#include "base/index.hpp"

namespace tutti {
inline namespace v0 {
namespace {

[[noreturn]] void refuse_cart(const ProcessGroup& group, const std::string& what,
                              const std::string& why) {
  raise(Outcome(Errc::invalid_argument,
                base::format("{} in group '{}': {}", what, group.name(), why)));
}

/// Sets the dimensions that are 0 so that their product is `places`: the largest prime factors go
/// to the smallest dimensions, and the dimensions decrease.
void choose_free(std::vector<int>& dims, int places) {
  std::vector<int> primes;
  for (int prime = 2; places > 1; places % prime == 0 ? places /= prime : ++prime) {
    if (places % prime == 0) primes.push_back(prime);
  }
  std::vector<int> chosen(static_cast<std::size_t>(std::count(dims.begin(), dims.end(), 0)), 1);
  for (auto prime = primes.rbegin(); prime != primes.rend(); ++prime)
    *std::min_element(chosen.begin(), chosen.end()) *= *prime;
  std::sort(chosen.begin(), chosen.end(), std::greater<>());
  auto next = chosen.begin();
  for (int& size : dims) {
    if (size == 0) size = *next++;
  }
}

}  // namespace

CartGroup cart(const ProcessGroup& group, std::vector<int> dims, std::vector<bool> periodic) {
  const auto refuse = [&](const std::string& why) {
    refuse_cart(group, base::format("cart({{{}}})", fmt::join(dims, ", ")), why);
  };
  if (dims.empty()) refuse("a grid needs a dimension");
  if (!periodic.empty() && periodic.size() != dims.size())
    refuse(base::format("{} dimensions, but `periodic` has {}", dims.size(), periodic.size()));
  std::int64_t places = 1;
  bool chooses = false;
  for (const int size : dims) {
    if (size < 0) refuse("a dimension must not be negative");
    chooses = chooses || size == 0;
    if (size > 0) places = std::min<std::int64_t>(places * size, std::int64_t{1} << 31);
  }
  if (chooses ? group.size() % places != 0 : places != group.size()) {
    refuse(base::format("the grid must have one place for each of the {} ranks; a 0 is chosen",
                        group.size()));
  }
  if (chooses) choose_free(dims, group.size() / static_cast<int>(places));
  periodic.resize(dims.size());
  return CartGroup(group, std::move(dims), std::move(periodic));
}

std::vector<int> CartGroup::coords(int rank) const {
  if (rank < 0 || rank >= group_.size())
    refuse_cart(group_, base::format("CartGroup::coords({})", rank),
                base::format("ranks are 0 to {}", group_.size() - 1));
  std::vector<int> all(dims_.size());
  for (std::size_t d = dims_.size(); d-- > 0; rank /= dims_[d]) all[d] = rank % dims_[d];
  return all;
}

int CartGroup::rank(std::span<const int> coords) const {
  if (coords.size() != dims_.size())
    refuse_cart(group_, "CartGroup::rank",
                base::format("{} coordinates, but the grid has {} dimensions", coords.size(),
                             dims_.size()));
  int rank = 0;
  for (std::size_t d = 0; d < dims_.size(); ++d) {
    const int size = dims_[d];
    const bool inside = coords[d] >= 0 && coords[d] < size;
    if (!inside && !periodic_[d]) return no_rank;
    rank = rank * size + (inside ? coords[d] : (coords[d] % size + size) % size);
  }
  return rank;
}

CartGroup::Shift CartGroup::shift(int dimension, int displacement) const {
  if (dimension < 0 || base::as_size(dimension) >= dims_.size())
    refuse_cart(group_, base::format("CartGroup::shift({}, {})", dimension, displacement),
                base::format("dimensions are 0 to {}", dims_.size() - 1));
  const auto d = base::as_size(dimension);
  const auto moved = [&](std::int64_t by) {
    std::vector<int> there = coords();
    const std::int64_t at = there[d] + by;
    const std::int64_t size = dims_[d];
    if (!periodic_[d] && (at < 0 || at >= size)) return no_rank;
    there[d] = static_cast<int>((at % size + size) % size);
    return rank(there);
  };
  return {moved(-std::int64_t{displacement}), moved(displacement)};
}

std::vector<Work> CartGroup::neighbor_all_to_all(std::span<const TensorView> outputs,
                                                 std::span<const TensorView> inputs,
                                                 const NeighborOptions& options) {
  const std::size_t neighbors = 2 * dims_.size();
  if (outputs.size() != neighbors || inputs.size() != neighbors)
    refuse_cart(group_, "neighbor_all_to_all",
                base::format("a grid of {} dimensions has {} neighbours, but there are {} outputs "
                             "and {} inputs",
                             dims_.size(), neighbors, outputs.size(), inputs.size()));
  // Both ranks of a pair have its messages in one order, so one tag will do, though both neighbours
  // may be one rank.
  std::vector<P2POp> batch;
  for (std::size_t i = 0; i < neighbors; ++i) {
    const auto [lower, upper] = shift(static_cast<int>(i / 2));
    const std::size_t across = i ^ 1;  // what comes this way comes from the other neighbour
    batch.push_back(P2POp::irecv(outputs[across], i % 2 == 0 ? upper : lower, options.tag));
    batch.push_back(P2POp::isend(inputs[i], i % 2 == 0 ? lower : upper, options.tag));
  }
  return group_.batch_isend_irecv(batch, {.timeout = options.timeout});
}

}  // namespace v0
}  // namespace tutti
