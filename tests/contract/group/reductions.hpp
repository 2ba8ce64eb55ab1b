#pragma once

#include <functional>
#include <memory>
#include <numeric>

#include <gtest/gtest.h>
#include <tutti/tutti.hpp>

#include "reduced_values.hpp"
#include "support/hex.hpp"

// Calls that reduce what reduced_values.hpp gives; results are compared bit by bit.
namespace tutti::test {

/// A row of elements, dense or every second one; what lies between them must stay as it is.
class Strip {
 public:
  using Bytes = ReducedValues::Bytes;

  Strip(std::span<const std::byte> elements, DType dtype, bool strided, Device device = {})
      : dtype_(dtype),
        device_(device),
        step_(strided ? 2 : 1),
        count_(elements.size() / size_of(dtype)) {
    memory_.assign((count_ * step_ + 1) * size_of(dtype), kMark);
    for (std::size_t i = 0; i < (strided ? count_ : 0); ++i)
      std::memcpy(place(i), elements.data() + i * size_of(dtype), size_of(dtype));
    if (!strided) std::ranges::copy(elements, memory_.begin());
  }
  [[nodiscard]] TensorView view() { return view(0, count_); }
  [[nodiscard]] TensorView view(std::size_t first, std::size_t count) {
    if (step_ == 1) return TensorView(place(first), dtype_, count, device_);
    const std::int64_t shape[] = {static_cast<std::int64_t>(count)};
    const std::int64_t strides[] = {static_cast<std::int64_t>(step_)};
    return TensorView(place(first), dtype_, shape, strides, device_);
  }
  /// One tensor after the other.
  [[nodiscard]] std::vector<TensorView> views(std::span<const std::size_t> counts) {
    std::vector<TensorView> all;
    std::size_t first = 0;
    for (const std::size_t count : counts) {
      all.push_back(view(first, count));
      first += count;
    }
    return all;
  }
  /// With all that lies between the elements.
  [[nodiscard]] bool operator==(const Strip&) const = default;
  [[nodiscard]] Bytes elements() const {
    if (step_ == 1) return {memory_.begin(), memory_.end() - size_of(dtype_)};
    Bytes all;
    for (std::size_t i = 0; i < count_; ++i) {
      const std::byte* const at = memory_.data() + i * step_ * size_of(dtype_);
      all.insert(all.end(), at, at + size_of(dtype_));
    }
    return all;
  }
  [[nodiscard]] bool marks_are_whole() const {
    for (std::size_t at = step_ == 1 ? count_ * size_of(dtype_) : 0; at < memory_.size(); ++at) {
      const std::size_t i = at / size_of(dtype_);
      const bool mark = i >= count_ * step_ || i % step_ != 0;
      if (mark && memory_[at] != kMark) return false;
    }
    return true;
  }

 private:
  static constexpr std::byte kMark{0xa5};
  [[nodiscard]] std::byte* place(std::size_t i) {
    return memory_.data() + i * step_ * size_of(dtype_);
  }

  DType dtype_;
  Device device_;
  std::size_t step_;
  std::size_t count_;
  Bytes memory_;
};

/// The values that may come out of each element, for one op.
class Wanted {
 public:
  virtual ~Wanted() = default;
  [[nodiscard]] virtual bool takes(std::size_t i, std::span<const std::byte> found) const = 0;
  /// The result by the reference.
  [[nodiscard]] virtual std::span<const std::byte> native(std::size_t i) const = 0;
};

/// Nothing but the results by the reference.
class OneResult final : public Wanted {
 public:
  OneResult(ReducedValues::Bytes results, DType dtype)
      : results_(std::move(results)), element_(size_of(dtype)) {}
  [[nodiscard]] bool takes(std::size_t i, std::span<const std::byte> found) const override {
    return std::ranges::equal(found, native(i));
  }
  [[nodiscard]] std::span<const std::byte> native(std::size_t i) const override {
    return std::span(results_).subspan(i * element_, element_);
  }

 private:
  ReducedValues::Bytes results_;
  std::size_t element_;
};

/// The reductions of one dtype and op on one rank, of a part of the elements.
class Reductions {
 public:
  /// Takes the result of a call of an operation.
  using Told = std::function<void(const char* operation, bool right)>;
  using OfFirstRanks = std::function<std::unique_ptr<Wanted>(std::size_t ranks)>;

  Reductions(ProcessGroup& world, const ReducedValues& values, ReduceOp op, const Wanted& wanted,
             Told told = {}, Device device = {})
      : world_(world),
        values_(values),
        op_(op),
        wanted_(wanted),
        told_(std::move(told)),
        device_(device) {}

  /// From now on `count` elements from number `first` on; of a reduce_scatter as many as divide.
  void take(std::size_t first, std::size_t count, bool strided = false) {
    first_ = first;
    count_ = count;
    strided_ = strided;
  }
  /// PREMUL_SUM has one factor, there, and not one for each element.
  void take_one_factor(Device device) {
    factors_device_ = device;
    one_factor_ = true;
  }

  void all_reduce() {
    Strip buffer = strip(mine(count_));
    end(world_.all_reduce(buffer.view(), {.op = op_, .factors = factors(count_)}));
    compare("all_reduce", buffer, 0);
  }
  /// Two tensors or more.
  void all_reduce_coalesced(std::span<const std::size_t> counts) {
    Strip buffer = strip(mine(count_));
    end(world_.all_reduce_coalesced(buffer.views(counts), {.op = op_, .factors = factors(count_)}));
    compare("all_reduce_coalesced", buffer, 0);
  }
  void reduce(int root) {
    Strip buffer = strip(mine(count_));
    end(world_.reduce(buffer.view(), {.root = root, .op = op_, .factors = factors(count_)}));
    if (world_.rank() == root) return compare("reduce", buffer, 0);
    unchanged("reduce", buffer, count_);
  }
  /// As an all_reduce of the ranks up to this one.
  void scan(bool exclusive, const OfFirstRanks& wanted) {
    const char* const name = exclusive ? "exclusive_scan" : "scan";
    Strip buffer = strip(mine(count_));
    end(world_.scan(buffer.view(),
                    {.op = op_, .exclusive = exclusive, .factors = factors(count_)}));
    const std::size_t combined = rank() + (exclusive ? 0 : 1);
    if (combined == 0) return unchanged(name, buffer, count_);
    compare(name, buffer, 0, *wanted(combined));
  }
  /// Elements of a block where all are divided evenly.
  [[nodiscard]] std::size_t block() const { return count_ / ranks(); }

  void scatter() {
    const std::size_t all = block() * ranks();
    Strip input = strip(mine(all));
    Strip output = strip(none(block()));
    end(world_.reduce_scatter(output.view(), input.view(), {.op = op_, .factors = factors(all)}));
    compare("reduce_scatter", output, block() * rank());
    unchanged("reduce_scatter", input, all);
  }
  void scatter_list() {
    const std::size_t all = block() * ranks();
    Strip input = strip(mine(all));
    Strip output = strip(none(block()));
    const std::vector<std::size_t> counts(ranks(), block());
    end(world_.reduce_scatter(output.view(), input.views(counts),
                              {.op = op_, .factors = factors(all)}));
    compare("reduce_scatter_list", output, block() * rank());
    unchanged("reduce_scatter_list", input, all);
  }
  void scatter_uneven(const std::vector<std::size_t>& counts) {
    const auto own = counts.begin() + world_.rank();
    Strip input = strip(mine(count_));
    Strip output = strip(none(*own));
    end(world_.reduce_scatter(output.view(), input.view(),
                              {.op = op_, .factors = factors(count_), .input_counts = counts}));
    compare("reduce_scatter_uneven", output, std::accumulate(counts.begin(), own, std::size_t{0}));
    unchanged("reduce_scatter_uneven", input, count_);
  }
  /// Two tensors, each divided among the ranks. They take one factor.
  void scatter_coalesced(std::optional<double> factor, const Wanted& wanted) {
    const std::size_t large = block() / 2;
    const std::vector<std::size_t> outputs{block() - large, large};
    const std::vector<std::size_t> inputs{outputs[0] * ranks(), outputs[1] * ranks()};
    Strip input = strip(mine(block() * ranks()));
    Strip first = strip(none(outputs[0]));
    Strip second = strip(none(outputs[1]));
    end(world_.reduce_scatter_coalesced(std::vector{first.view(), second.view()},
                                        input.views(inputs), {.op = op_, .factor = factor}));
    compare("reduce_scatter_coalesced", first, outputs[0] * rank(), wanted);
    compare("reduce_scatter_coalesced", second, inputs[0] + outputs[1] * rank(), wanted);
  }

 private:
  [[nodiscard]] std::size_t bytes() const { return size_of(values_.dtype); }
  [[nodiscard]] std::size_t ranks() const { return static_cast<std::size_t>(world_.size()); }
  [[nodiscard]] std::size_t rank() const { return static_cast<std::size_t>(world_.rank()); }
  [[nodiscard]] std::span<const std::byte> part(const ReducedValues::Bytes& all,
                                                std::size_t count) const {
    return std::span(all).subspan(first_ * bytes(), count * bytes());
  }
  [[nodiscard]] std::span<const std::byte> mine(std::size_t count) const {
    return part(values_.inputs[rank()], count);
  }
  [[nodiscard]] ReducedValues::Bytes none(std::size_t count) const {
    return ReducedValues::Bytes(count * bytes(), std::byte{0x5a});
  }
  [[nodiscard]] Strip strip(std::span<const std::byte> elements) const {
    return Strip(elements, values_.dtype, strided_, device_);
  }
  [[nodiscard]] TensorView factors(std::size_t count) {
    if (op_ != ReduceOp::premul_sum) return {};
    if (one_factor_) count = 1;
    const auto given = part(values_.factors[rank()], count);
    factors_.assign(given.begin(), given.end());
    factors_.push_back(std::byte{});  // an address even of none
    return TensorView(factors_.data(), values_.dtype, count, factors_device_);
  }
  void end(Work work) const { device_ == Device() ? work.wait() : work.synchronize(); }

  void unchanged(const char* operation, const Strip& strip, std::size_t count) const {
    const bool right = strip.marks_are_whole() && std::ranges::equal(strip.elements(), mine(count));
    if (told_) told_(operation, right);
    EXPECT_TRUE(right) << operation << " changes what is not its output";
  }
  void compare(const char* operation, const Strip& strip, std::size_t begin) const {
    compare(operation, strip, begin, wanted_);
  }
  /// `begin`: the place of the first of them behind first_.
  void compare(const char* operation, const Strip& strip, std::size_t begin,
               const Wanted& wanted) const {
    const ReducedValues::Bytes found = strip.elements();
    bool right = strip.marks_are_whole();
    std::string text = right ? "" : " writes beside its output";
    for (std::size_t i = 0; right && i < found.size() / bytes(); ++i) {
      const auto one = std::span(found).subspan(i * bytes(), bytes());
      right = wanted.takes(first_ + begin + i, one);
      if (right) continue;
      text = ": element " + std::to_string(i) + " is " + hex(one) + ", native gives " +
             hex(wanted.native(first_ + begin + i)) + ", from";
      for (const auto& row : values_.inputs)
        text += " " + hex(std::span(row).subspan((first_ + begin + i) * bytes(), bytes()));
    }
    if (told_) told_(operation, right);
    EXPECT_TRUE(right) << operation << ", " << to_string(op_) << " of " << to_string(values_.dtype)
                       << ", rank " << world_.rank() << " of " << world_.size()
                       << (strided_ ? ", strided" : "") << text;
  }

  ProcessGroup& world_;
  const ReducedValues& values_;
  ReduceOp op_;
  const Wanted& wanted_;
  Told told_;
  Device device_;
  std::size_t first_ = 0;
  std::size_t count_ = 0;
  bool strided_ = false;
  bool one_factor_ = false;
  Device factors_device_;
  ReducedValues::Bytes factors_;
};

}  // namespace tutti::test
