#include "support/thread_worlds.hpp"

// Views of every shape and dtype in every operation: without dimensions, without elements,
// transposed, backwards. What lies between their elements stays as it is.
namespace tutti {
namespace {

using test::after;
using test::before;

/// A view of one block within its own stretch of memory, in elements.
struct Shape {
  const char* name;
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> strides;
  std::int64_t first = 0;  ///< where its first element lies
  std::size_t extent = 1;  ///< elements of the stretch

  [[nodiscard]] std::size_t count() const {
    std::size_t all = 1;
    for (const std::int64_t size : sizes) all *= static_cast<std::size_t>(size);
    return all;
  }
  /// Where its i-th element lies.
  [[nodiscard]] std::size_t place(std::size_t i) const {
    std::int64_t at = first;
    for (std::size_t d = sizes.size(); d-- > 0;) {
      const auto size = static_cast<std::size_t>(sizes[d]);
      at += static_cast<std::int64_t>(i % size) * strides[d];
      i /= size;
    }
    return static_cast<std::size_t>(at);
  }
};

std::vector<Shape> shapes() {
  return {{"no dimensions", {}, {}, 0, 1},
          {"no elements", {0, 4}, {4, 1}, 0, 1},
          {"transposed", {5, 3}, {1, 7}, 0, 21},
          {"backwards", {4}, {-2}, 7, 9},
          {"three dimensions", {2, 3, 2}, {20, 1, 5}, 1, 40}};
}

/// So large that it goes in pieces.
Shape large_shape() { return {"transposed, in pieces", {90, 70}, {1, 91}, 0, 70 * 91}; }

/// The value of an element as every rank can tell it; small, so that sums are exact in any type
/// that they are made of here.
std::int64_t value(int from, std::size_t to, std::size_t i) {
  return static_cast<std::int64_t>((i * 7 + to * 3 + static_cast<std::size_t>(from) * 5) % 11);
}

/// Blocks of elements, one for each rank or one for all.
class Side {
 public:
  Side(const Shape& shape, DType dtype, std::size_t blocks)
      : shape_(shape),
        dtype_(dtype),
        blocks_(blocks),
        bytes_(blocks * shape.extent * size_of(dtype), kMark) {}

  [[nodiscard]] TensorView block(std::size_t b) {
    const std::size_t first = b * shape_.extent + static_cast<std::size_t>(shape_.first);
    return {bytes_.data() + first * size_of(dtype_), dtype_, shape_.sizes, shape_.strides};
  }
  [[nodiscard]] std::vector<TensorView> list() {
    std::vector<TensorView> all;
    for (std::size_t b = 0; b < blocks_; ++b) all.push_back(block(b));
    return all;
  }
  /// All blocks as one tensor, with a dimension more.
  [[nodiscard]] TensorView whole() {
    std::vector<std::int64_t> sizes = shape_.sizes;
    std::vector<std::int64_t> strides = shape_.strides;
    sizes.insert(sizes.begin(), static_cast<std::int64_t>(blocks_));
    strides.insert(strides.begin(), static_cast<std::int64_t>(shape_.extent));
    return {bytes_.data() + static_cast<std::size_t>(shape_.first) * size_of(dtype_), dtype_, sizes,
            strides};
  }

  /// `of(b, i)`: the value of an element.
  template <class Of>
  void fill(Of of) {
    for (std::size_t b = 0; b < blocks_; ++b) {
      for (std::size_t i = 0; i < shape_.count(); ++i) put(bytes_, b, i, of(b, i));
    }
  }
  template <class Of>
  void expect(Of of, const char* operation) const {
    std::vector<std::uint8_t> expected(bytes_.size(), kMark);
    for (std::size_t b = 0; b < blocks_; ++b) {
      for (std::size_t i = 0; i < shape_.count(); ++i) put(expected, b, i, of(b, i));
    }
    EXPECT_TRUE(bytes_ == expected)
        << operation << ", " << shape_.name << ", " << to_string(dtype_);
  }
  void expect_untouched(const char* operation) const {
    EXPECT_TRUE(std::all_of(bytes_.begin(), bytes_.end(), [](auto b) { return b == kMark; }))
        << operation << ", " << shape_.name << ", " << to_string(dtype_);
  }

 private:
  static constexpr std::uint8_t kMark = 1;  // of every byte; true as a bool

  /// Of whole numbers the number itself. Operations that only move elements take any bytes, of a
  /// bool 0 and 1.
  void put(std::vector<std::uint8_t>& bytes, std::size_t b, std::size_t i, std::int64_t v) const {
    std::uint8_t* const at = bytes.data() + (b * shape_.extent + shape_.place(i)) * size_of(dtype_);
    for (std::size_t byte = 0; byte < size_of(dtype_); ++byte) {
      at[byte] = dtype_ == DType::int64 ? static_cast<std::uint8_t>(v >> (8 * byte))
                 : dtype_ == DType::bool_
                     ? static_cast<std::uint8_t>(v & 1)
                     : static_cast<std::uint8_t>(v * 19 + static_cast<std::int64_t>(byte) * 7);
    }
  }

  const Shape& shape_;
  DType dtype_;
  std::size_t blocks_;
  std::vector<std::uint8_t> bytes_;
};

/// The operations that move elements, with a root that is not rank 0 where there is one.
void move(ProcessGroup& world, const Shape& shape, DType dtype) {
  const int me = world.rank();
  const int root = world.size() - 1;
  const auto n = static_cast<std::size_t>(world.size());
  const auto of_me = [&](std::size_t, std::size_t i) { return value(me, 0, i); };
  const auto of_each = [](std::size_t b, std::size_t i) {
    return value(static_cast<int>(b), 0, i);
  };
  Side one(shape, dtype, 1);
  one.fill(of_me);
  Side all(shape, dtype, n);
  world.all_gather(all.list(), one.block(0)).wait();
  all.expect(of_each, "all_gather, list");
  Side joined(shape, dtype, n);
  world.all_gather(joined.whole(), one.block(0)).wait();
  joined.expect(of_each, "all_gather");

  Side gathered(shape, dtype, n);
  if (me == root) {
    world.gather(gathered.list(), one.block(0), {.root = root}).wait();
    gathered.expect(of_each, "gather");
  } else {
    world.gather(TensorView(), one.block(0), {.root = root}).wait();
    gathered.expect_untouched("gather");
  }
  one.expect(of_me, "an input");

  Side row(shape, dtype, n);
  row.fill([&](std::size_t b, std::size_t i) { return value(me, b, i); });
  Side part(shape, dtype, 1);
  world.scatter(part.block(0), me == root ? row.whole() : TensorView(), {.root = root}).wait();
  part.expect(
      [&](std::size_t, std::size_t i) { return value(root, static_cast<std::size_t>(me), i); },
      "scatter");

  const auto column = [&](std::size_t b, std::size_t i) {
    return value(static_cast<int>(b), static_cast<std::size_t>(me), i);
  };
  Side received(shape, dtype, n);
  world.all_to_all(received.list(), row.list()).wait();
  received.expect(column, "all_to_all, list");
  Side exchanged(shape, dtype, n);
  world.all_to_all(exchanged.whole(), row.whole()).wait();
  exchanged.expect(column, "all_to_all");

  Side got(shape, dtype, 1);
  Work send = world.isend(one.block(0), after(world));
  world.recv(got.block(0), before(world));
  send.wait();
  got.expect([&](std::size_t, std::size_t i) { return value(before(world), 0, i); }, "recv");

  world.broadcast(one.block(0), {.root = root}).wait();
  one.expect([&](std::size_t, std::size_t i) { return value(root, 0, i); }, "broadcast");
}

void add(ProcessGroup& world, const Shape& shape) {
  const int me = world.rank();
  const auto n = static_cast<std::size_t>(world.size());
  const auto sum = [&](std::size_t to, std::size_t i) {
    std::int64_t all = 0;
    for (int rank = 0; rank < world.size(); ++rank) all += value(rank, to, i);
    return all;
  };
  Side one(shape, DType::int64, 1);
  const auto mine = [&](std::size_t, std::size_t i) { return value(me, 0, i); };
  one.fill(mine);
  world.reduce(one.block(0), {.root = 0}).wait();
  one.expect([&](std::size_t, std::size_t i) { return me == 0 ? sum(0, i) : value(me, 0, i); },
             "reduce");
  one.fill(mine);
  world.all_reduce(one.block(0)).wait();
  one.expect([&](std::size_t, std::size_t i) { return sum(0, i); }, "all_reduce");

  Side row(shape, DType::int64, n);
  row.fill([&](std::size_t b, std::size_t i) { return value(me, b, i); });
  for (const bool listed : {true, false}) {
    Side part(shape, DType::int64, 1);
    if (listed)
      world.reduce_scatter(part.block(0), row.list()).wait();
    else
      world.reduce_scatter(part.block(0), row.whole()).wait();
    part.expect([&](std::size_t, std::size_t i) { return sum(static_cast<std::size_t>(me), i); },
                "reduce_scatter");
  }
}

class Views : public test::OnWorlds {};
INSTANTIATE_TEST_SUITE_P(Sizes, Views, testing::ValuesIn(test::plain_worlds()), test::world_name);

TEST_P(Views, OfAnyShapeAndTypeAreMovedAndAdded) {
  run([](ProcessGroup& world) {
    for (const Shape& shape : shapes()) {
      for (int dtype = 0; dtype < kDTypeCount; ++dtype)
        move(world, shape, static_cast<DType>(dtype));
      add(world, shape);
    }
    const Shape large = large_shape();
    for (const DType dtype : {DType::uint8, DType::complex128}) move(world, large, dtype);
    add(world, large);
  });
}

}  // namespace
}  // namespace tutti
