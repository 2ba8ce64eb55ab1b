#include "order_of_additions.hpp"

#include <bit>
#include <cstddef>
#include <vector>

namespace tutti::lightgbm {
namespace {

// The sum goes around: it begins behind `rank` and ends there.
char* add_around(std::span<char* const> blocks, std::size_t rank, const Add& add) {
  const std::size_t size = blocks.size();
  for (std::size_t step = 2; step <= size; ++step)
    add(blocks[(rank + step - 1) % size], blocks[(rank + step) % size]);
  return blocks[rank];
}

// The last ranks form pairs, so that a power of two of parts remains. Then the farther half is
// added to the half that `rank` is in, again and again.
char* add_by_halves(std::span<char* const> blocks, std::size_t rank, const Add& add) {
  const std::size_t kept = std::bit_floor(blocks.size());
  const std::size_t alone = 2 * kept - blocks.size();
  std::vector<char*> parts;
  std::size_t own = 0;
  for (std::size_t r = 0; r < blocks.size(); ++r) {
    if (r > alone && (r - alone) % 2 == 1)
      add(blocks[r], parts.back());
    else
      parts.push_back(blocks[r]);
    if (r == rank) own = parts.size() - 1;
  }
  for (std::size_t half = kept / 2; half > 0; half /= 2) {
    const std::size_t first = own / half * half;
    for (std::size_t part = first; part < first + half; ++part)
      add(parts[part ^ half], parts[part]);
  }
  return parts[own];
}

}  // namespace

char* add_in_order_of_sockets(std::span<char* const> blocks, int rank, std::int32_t input_bytes,
                              const Add& add) {
  constexpr std::int32_t kRing = 10 * 1024 * 1024;
  const auto own = static_cast<std::size_t>(rank);
  const bool around = !std::has_single_bit(blocks.size()) && input_bytes >= kRing;
  return around ? add_around(blocks, own, add) : add_by_halves(blocks, own, add);
}

}  // namespace tutti::lightgbm
