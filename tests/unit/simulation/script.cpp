#include "unit/simulation/script.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include <tutti/backend/kinds.hpp>

#include "unit/kernels/reduce_reference.hpp"

namespace tutti::engine::simulation {
namespace {

constexpr std::byte kUntouched{0xa5};
constexpr std::byte kTakenBack{0xdd};
constexpr std::size_t kKiB = 1024;

std::size_t random_count(Random& random, std::size_t element) {
  // Around the limits of lines, frames, unasked bytes, and of the algorithms.
  constexpr std::array<std::size_t, 10> kEdges{48,         1 * kKiB,  4 * kKiB,  8 * kKiB,
                                               16 * kKiB,  32 * kKiB, 64 * kKiB, 128 * kKiB,
                                               256 * kKiB, 512 * kKiB};
  const std::uint64_t kind = random.below(100);
  if (kind < 4) return 0;
  if (kind < 50) return 1 + random.below(40);
  if (kind < 75) return 1 + random.below(3000);
  if (kind < 90) {
    const std::size_t edge = kEdges[random.below(random.chance(30) ? 10 : 7)] / element;
    return edge - std::min<std::size_t>(edge, random.below(3)) + random.below(3);
  }
  if (kind < 98) return 1 + random.below(20'000);
  return 1 + random.below(70'000);
}

Item random_call(Random& random, int group, std::size_t size, bool exact) {
  constexpr std::array kTypes{DType::float32, DType::float64, DType::int32, DType::int64};
  Item item;
  item.group = group;
  item.number = random.next();
  constexpr std::array kBlocks{Kind::reduce,  Kind::all_gather,     Kind::gather,
                               Kind::scatter, Kind::reduce_scatter, Kind::all_to_all};
  const std::uint64_t kind = random.below(16);
  item.kind = kind < 6    ? Kind::all_reduce
              : kind < 9  ? Kind::broadcast
              : kind < 10 ? Kind::barrier
                          : kBlocks[kind - 10];
  // Without another draw, so that known seeds mean the calls that they meant.
  if (item.kind == Kind::all_reduce && item.number % 6 == 0) item.kind = Kind::scan;
  if (item.kind == Kind::all_reduce && item.number % 6 == 1) item.kind = Kind::exclusive_scan;
  item.op = random.chance(70) ? ReduceOp::sum : ReduceOp::max;
  item.dtype = kTypes[random.below(4)];
  if (exact && item.op == ReduceOp::sum) item.dtype = kTypes[2 + random.below(2)];
  item.root = static_cast<int>(random.below(size));
  if (item.kind != Kind::barrier) item.count = random_count(random, size_of(item.dtype));
  if (kind > 10) item.count = random.chance(80) ? item.count % 3000 : item.count / size;
  item.uneven =
      random.chance(50) && (item.kind == Kind::all_gather || item.kind == Kind::reduce_scatter ||
                            item.kind == Kind::all_to_all);
  return item;
}

std::vector<int> random_ranks(Random& random, std::vector<int> from) {
  for (std::size_t i = from.size(); i > 1; --i) std::swap(from[i - 1], from[random.below(i)]);
  from.resize(1 + random.below(from.size()));
  if (random.chance(70)) std::sort(from.begin(), from.end());
  return from;
}

template <class T>
T value(Random& random) {
  const std::uint64_t bits = random.next();
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(bits);
  } else {
    // Of very different sizes, so that every other order of additions gives other bits.
    constexpr std::array<T, 8> kScales{T(1),     T(0.001), T(1e3), T(3e-5),
                                       T(1.5e5), T(0.1),   T(7e6), T(1)};
    return static_cast<T>(static_cast<std::int32_t>(bits)) * kScales[bits >> 61];
  }
}

template <class Body>
auto with_type(DType dtype, Body body) {
  switch (dtype) {
    case DType::float64: return body(double{});
    case DType::int32: return body(std::int32_t{});
    case DType::int64: return body(std::int64_t{});
    default: return body(float{});
  }
}

/// The inputs of the first `ranks` ranks combined in the order of the tree.
std::vector<std::byte> combination(const Item& item, int ranks, int size) {
  std::vector<std::vector<std::byte>> sums;
  for (int rank = 0; rank < ranks; ++rank) sums.push_back(input_of(item, rank, size));
  with_type(item.dtype, [&](auto zero) {
    using T = decltype(zero);
    const std::size_t count = sums.front().size() / sizeof(T);
    for (std::size_t distance = 1; distance < sums.size(); distance *= 2) {
      for (std::size_t left = 0; left + distance < sums.size(); left += 2 * distance) {
        for (std::size_t i = 0; i < count; ++i) {
          T a{};
          T b{};
          std::memcpy(&a, sums[left].data() + i * sizeof(T), sizeof(T));
          std::memcpy(&b, sums[left + distance].data() + i * sizeof(T), sizeof(T));
          const T c = kernels::testing::combine<T>(item.op, a, b);
          std::memcpy(sums[left].data() + i * sizeof(T), &c, sizeof(T));
        }
      }
    }
  });
  return sums.front();
}

/// Block `which` of what rank `from` gives.
void append_block(std::vector<std::byte>& to, const std::vector<std::byte>& input, const Item& item,
                  const std::vector<std::size_t>& blocks, int which) {
  std::size_t first = 0;
  for (int b = 0; b < which; ++b) first += blocks[static_cast<std::size_t>(b)];
  const std::size_t element = size_of(item.dtype);
  const auto begin = input.begin() + static_cast<std::ptrdiff_t>(first * element);
  const std::size_t bytes = blocks[static_cast<std::size_t>(which)] * element;
  to.insert(to.end(), begin, begin + static_cast<std::ptrdiff_t>(bytes));
}

/// Each is as the one behind it, and the last one as it should be: without a loop of ours.
bool all_are(std::byte value, const std::vector<std::byte>& bytes) noexcept {
  return bytes.empty() || (bytes.back() == value &&
                           std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0);
}

}  // namespace

Script make_script(Random& random, const ScriptOptions& options) {
  Script script;
  const auto add_group = [&](std::vector<int> ranks) {
    const std::string name = "group " + std::to_string(script.groups.size());
    script.groups.push_back({.id = options.first_id + script.groups.size(),
                             .name = script.groups.empty() ? "world" : name,
                             .ranks = std::move(ranks)});
    const int group = static_cast<int>(script.groups.size()) - 1;
    // As new_group does; else members may come at any time.
    if (group > 0 && random.chance(50)) script.items.push_back({.kind = Kind::new_group});
    script.items.push_back({.action = Action::make, .group = group});
    return group;
  };
  const auto remove_group = [&](int group) {
    // All wait for all before the first of them lets go.
    script.items.push_back({.group = group, .kind = Kind::new_group});
    script.items.push_back({.action = Action::remove, .group = group});
  };
  std::vector<int> open{add_group(options.ranks)};
  for (int i = 0; i < options.items; ++i) {
    const std::uint64_t what = random.below(100);
    if (what < 8 && open.size() < 4) {
      open.push_back(add_group(random_ranks(random, options.ranks)));
    } else if (what < 12 && open.size() > 1) {
      const std::size_t which = 1 + random.below(open.size() - 1);
      remove_group(open[which]);
      open.erase(open.begin() + static_cast<std::ptrdiff_t>(which));
    } else {
      const int group = open[random.below(open.size())];
      script.items.push_back(
          random_call(random, group, script.groups[static_cast<std::size_t>(group)].ranks.size(),
                      options.exact));
    }
  }
  for (auto group = open.rbegin(); group != open.rend(); ++group) remove_group(*group);
  return script;
}

std::size_t block_of(const Item& item, int from, int to) {
  if (!item.uneven) return item.count;
  // all_gather: each rank has one block for all; reduce_scatter: all have the same for a rank.
  if (item.kind == Kind::all_gather) to = 0;
  if (item.kind == Kind::reduce_scatter) from = 0;
  Random random(item.number ^ (static_cast<std::uint64_t>(from) * 1000 + 77) *
                                  (static_cast<std::uint64_t>(to) + 3));
  return random.chance(20) ? 0 : random.below(2 * item.count + 1);
}

std::vector<std::size_t> input_blocks(const Item& item, int rank, int size) {
  const Layout layout = traits_of(item.kind).layout;
  if (layout == Layout::none || (item.kind == Kind::scatter && rank != item.root)) return {};
  std::vector<std::size_t> blocks{block_of(item, rank, 0)};
  if (layout == Layout::same || layout == Layout::gather) return blocks;
  for (int to = 1; to < size; ++to) blocks.push_back(block_of(item, rank, to));
  return blocks;
}

std::vector<std::size_t> output_blocks(const Item& item, int rank, int size) {
  const Layout layout = traits_of(item.kind).layout;
  // Of a broadcast the root has its own values.
  if (layout == Layout::none ||
      (item.kind != Kind::broadcast && !uses_output(item.kind, rank, item.root)))
    return {};
  if (layout == Layout::same) return {item.count};
  if (layout == Layout::scatter) return {block_of(item, 0, rank)};
  std::vector<std::size_t> blocks;
  for (int from = 0; from < size; ++from) blocks.push_back(block_of(item, from, rank));
  return blocks;
}

std::vector<std::byte> input_of(const Item& item, int rank, int size) {
  std::size_t count = 0;
  for (const std::size_t block : input_blocks(item, rank, size)) count += block;
  std::vector<std::byte> bytes(count * size_of(item.dtype));
  Random random(item.number + static_cast<std::uint64_t>(rank) * 0x632be59bd9b4e019ULL);
  with_type(item.dtype, [&](auto zero) {
    using T = decltype(zero);
    for (std::size_t i = 0; i < count; ++i) {
      const T one = value<T>(random);
      std::memcpy(bytes.data() + i * sizeof(T), &one, sizeof(T));
    }
  });
  return bytes;
}

std::vector<std::byte> result_of(const Item& item, int rank, int size) {
  if (output_blocks(item, rank, size).empty()) return input_of(item, rank, size);
  std::vector<std::byte> result;
  switch (item.kind) {
    case Kind::all_reduce:
    case Kind::reduce:
    case Kind::scan:
    case Kind::exclusive_scan:
      return combination(item, ranks_in_result(item.kind, rank, 0, size).count, size);
    case Kind::reduce_scatter:
      append_block(result, combination(item, size, size), item, input_blocks(item, 0, size), rank);
      return result;
    case Kind::scatter:
      append_block(result, input_of(item, item.root, size), item,
                   input_blocks(item, item.root, size), rank);
      return result;
    case Kind::broadcast: return input_of(item, item.root, size);
    default: break;
  }
  for (int from = 0; from < size; ++from) {
    const std::vector<std::size_t> blocks = input_blocks(item, from, size);
    append_block(result, input_of(item, from, size), item, blocks,
                 item.kind == Kind::all_to_all ? rank : 0);
  }
  return result;
}

Buffer::Buffer(Random& random, DType dtype, std::size_t count) : dtype_(dtype), count_(count) {
  lead_ = random.below(4);
  const std::uint64_t kind = random.below(10);
  std::size_t elements = count;
  if (kind == 0) {
    layout_ = Layout::steps;
    stride_ = 2 + random.below(2);
    elements = count * stride_;
  } else if (kind == 1 && count > 0) {
    stride_ = 2 + random.below(6);
    if (count % stride_ == 0) layout_ = Layout::transposed;
  }
  bytes_.assign((lead_ + elements + 3) * size_of(dtype), kUntouched);
}

std::size_t Buffer::offset(std::size_t index) const noexcept {
  std::size_t at = index;
  if (layout_ == Layout::steps) at = index * stride_;
  if (layout_ == Layout::transposed) {
    const std::size_t columns = count_ / stride_;
    at = index / columns + index % columns * stride_;
  }
  return (lead_ + at) * size_of(dtype_);
}

TensorView Buffer::view() noexcept {
  std::byte* const first = bytes_.data() + lead_ * size_of(dtype_);
  const auto n = static_cast<std::int64_t>(count_);
  const auto stride = static_cast<std::int64_t>(stride_);
  if (layout_ == Layout::steps) return TensorView(first, dtype_, std::array{n}, std::array{stride});
  if (layout_ == Layout::transposed)
    return TensorView(first, dtype_, std::array{stride, n / stride},
                      std::array{std::int64_t{1}, stride});
  return TensorView(first, dtype_, count_);
}

void Buffer::put(const std::vector<std::byte>& values) noexcept {
  const std::size_t element = size_of(dtype_);
  if (layout_ == Layout::row) {
    if (!values.empty()) std::memcpy(bytes_.data() + lead_ * element, values.data(), values.size());
    return;
  }
  for (std::size_t i = 0; i < count_; ++i)
    std::memcpy(bytes_.data() + offset(i), values.data() + i * element, element);
}

bool Buffer::holds(const std::vector<std::byte>& values) const noexcept {
  Buffer expected = *this;
  expected.bytes_.assign(bytes_.size(), kUntouched);
  expected.put(values);
  // With == GCC compares byte after byte, which took a sixth of a test's time.
  return bytes_.empty() || std::memcmp(expected.bytes_.data(), bytes_.data(), bytes_.size()) == 0;
}

bool Buffer::untouched() const noexcept { return all_are(kUntouched, bytes_); }

void Buffer::take_back() noexcept { std::fill(bytes_.begin(), bytes_.end(), kTakenBack); }

bool Buffer::left_alone() const noexcept { return all_are(kTakenBack, bytes_); }

}  // namespace tutti::engine::simulation
