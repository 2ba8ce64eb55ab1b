#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <tutti/tutti.hpp>

// Random programs that every rank runs alike, with results that are known beforehand. Values are
// small whole numbers, so sums are exact in any order and compare with ==.
namespace tutti::test {

/// One operation with its buffer and the result that it must have.
struct Planned {
  enum class What { sum, max, broadcast, barrier, scan, exclusive_scan } what = What::barrier;
  DType dtype = DType::float32;
  std::size_t count = 0;
  int root = 0;
  bool strided = false;
};

template <class T>
void set(std::vector<std::byte>& bytes, std::size_t at, double value) {
  const T typed = static_cast<T>(value);
  std::memcpy(bytes.data() + at * sizeof(T), &typed, sizeof(T));
}

template <class T>
double get(const std::vector<std::byte>& bytes, std::size_t at) {
  T typed;
  std::memcpy(&typed, bytes.data() + at * sizeof(T), sizeof(T));
  return static_cast<double>(typed);
}

/// A buffer of a planned operation: contiguous, or every second element of a larger one, whose gaps
/// must stay as they are.
class Buffer {
 public:
  Buffer(const Planned& plan, int rank, std::uint64_t salt)
      : plan_(plan), step_(plan.strided ? 2 : 1) {
    bytes_.resize((plan.count * step_ + 1) * size_of(plan.dtype));
    for (std::size_t i = 0; i < plan.count * step_; ++i) write(i, -7);
    for (std::size_t i = 0; i < plan.count; ++i) write(i * step_, value(rank, i, salt));
  }

  [[nodiscard]] TensorView view() {
    if (!plan_.strided) return TensorView(bytes_.data(), plan_.dtype, plan_.count);
    const std::int64_t shape[] = {static_cast<std::int64_t>(plan_.count)};
    const std::int64_t strides[] = {2};
    return TensorView(bytes_.data(), plan_.dtype, shape, strides);
  }

  void check(int rank, int size, std::uint64_t salt) const {
    using What = Planned::What;
    const int ranks = plan_.what == What::scan             ? rank + 1
                      : plan_.what == What::exclusive_scan ? rank
                                                           : size;
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < plan_.count; ++i) {
      double expected = value(plan_.root, i, salt);
      if (plan_.what != What::broadcast) {
        expected = value(0, i, salt);  // of an exclusive scan's rank 0: its own
        for (int r = 1; r < ranks; ++r) {
          const double one = value(r, i, salt);
          expected = plan_.what == What::max ? std::max(expected, one) : expected + one;
        }
      }
      if (read(i * step_) != expected) ++wrong;
      if (plan_.strided && read(i * step_ + 1) != -7) ++wrong;
    }
    EXPECT_EQ(wrong, 0U) << "count " << plan_.count << " dtype " << to_string(plan_.dtype)
                         << " size " << size;
  }

 private:
  static double value(int rank, std::size_t i, std::uint64_t salt) {
    return static_cast<double>((i * 31 + salt * 7 + static_cast<std::size_t>(rank) * 13) % 101) -
           50;
  }
  void write(std::size_t at, double v) {
    switch (plan_.dtype) {
      case DType::float32: return set<float>(bytes_, at, v);
      case DType::float64: return set<double>(bytes_, at, v);
      case DType::int32: return set<std::int32_t>(bytes_, at, v);
      default: return set<std::int64_t>(bytes_, at, v);
    }
  }
  [[nodiscard]] double read(std::size_t at) const {
    switch (plan_.dtype) {
      case DType::float32: return get<float>(bytes_, at);
      case DType::float64: return get<double>(bytes_, at);
      case DType::int32: return get<std::int32_t>(bytes_, at);
      default: return get<std::int64_t>(bytes_, at);
    }
  }

  Planned plan_;
  std::size_t step_;
  std::vector<std::byte> bytes_;
};

inline Planned draw(std::mt19937_64& random, int size, std::size_t most) {
  constexpr DType kTypes[] = {DType::float32, DType::float64, DType::int32, DType::int64};
  Planned plan;
  plan.what = static_cast<Planned::What>(random() % 6);
  plan.dtype = kTypes[random() % 4];
  // Small counts often, and each size class now and then.
  const std::size_t limits[] = {2, 13, 200, 3000, 20000, most};
  plan.count = random() % (limits[random() % 6] + 1);
  plan.root = static_cast<int>(random() % static_cast<std::uint64_t>(size));
  plan.strided = random() % 4 == 0;
  return plan;
}

inline Work start(ProcessGroup& group, const Planned& plan, Buffer& buffer) {
  switch (plan.what) {
    case Planned::What::sum: return group.all_reduce(buffer.view());
    case Planned::What::max: return group.all_reduce(buffer.view(), {.op = ReduceOp::max});
    case Planned::What::broadcast: return group.broadcast(buffer.view(), {.root = plan.root});
    case Planned::What::scan: return group.scan(buffer.view());
    case Planned::What::exclusive_scan: return group.scan(buffer.view(), {.exclusive = true});
    case Planned::What::barrier: break;
  }
  return group.barrier();
}

/// `rounds` rounds of up to 20 operations in flight, waited for in a random order.
inline void run_program(ProcessGroup& group, std::uint64_t seed, int rounds, std::size_t most) {
  std::mt19937_64 random(seed);
  for (int round = 0; round < rounds; ++round) {
    const std::size_t n = 1 + random() % (round % 3 == 0 ? 20 : 3);
    std::vector<Planned> plans;
    std::vector<std::unique_ptr<Buffer>> buffers;
    std::vector<Work> works;
    for (std::size_t i = 0; i < n; ++i) {
      plans.push_back(draw(random, group.size(), most));
      buffers.push_back(std::make_unique<Buffer>(plans.back(), group.rank(), seed + i));
      works.push_back(start(group, plans.back(), *buffers.back()));
    }
    std::vector<std::size_t> order(n);
    for (std::size_t i = 0; i < n; ++i) order[i] = i;
    std::mt19937_64 own(seed + static_cast<std::uint64_t>(group.rank()));  // differs between ranks
    std::shuffle(order.begin(), order.end(), own);
    for (const std::size_t i : order) works[i].wait();
    for (std::size_t i = 0; i < n; ++i) {
      if (plans[i].what != Planned::What::barrier)
        buffers[i]->check(group.rank(), group.size(), seed + i);
    }
  }
}

}  // namespace tutti::test
