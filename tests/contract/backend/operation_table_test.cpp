#include <gtest/gtest.h>

#include <algorithm>
#include <complex>
#include <cstring>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <tutti/backends.hpp>
#include <tutti/tutti.hpp>

#include "contract/group/reduced_values.hpp"
#include "launched_world.hpp"
#include "support/any_order.hpp"
#include "support/cell.hpp"
#include "support/hex.hpp"
#include "support/operations.hpp"
#include "table_cells.hpp"

// Every operation with every dtype and every reduce op, at several sizes, dense and strided. Values
// are compared bit by bit with the rules of docs/semantics.md; where the backend does not promise
// the order of additions, with all results that any order gives.
namespace tutti::test {
namespace {

[[maybe_unused]] testing::Environment* const kPrints =
    testing::AddGlobalTestEnvironment(new PrintTable);

constexpr std::size_t kCounts[] = {0, 1, 7, 1000};
/// One factor for all, where a call takes no more.
constexpr double kFactor = 2;

/// A row of elements, dense or every second one; what lies between them must stay as it is.
class Strip {
 public:
  using Bytes = ReducedValues::Bytes;

  Strip(std::span<const std::byte> elements, DType dtype, bool strided)
      : dtype_(dtype), step_(strided ? 2 : 1), count_(elements.size() / size_of(dtype)) {
    memory_.assign((count_ * step_ + 1) * size_of(dtype), kMark);
    for (std::size_t i = 0; i < count_; ++i)
      std::memcpy(place(i), elements.data() + i * size_of(dtype), size_of(dtype));
  }
  [[nodiscard]] TensorView view() { return view(0, count_); }
  [[nodiscard]] TensorView view(std::size_t first, std::size_t count) {
    if (step_ == 1) return TensorView(place(first), dtype_, count);
    const std::int64_t shape[] = {static_cast<std::int64_t>(count)};
    const std::int64_t strides[] = {static_cast<std::int64_t>(step_)};
    return TensorView(place(first), dtype_, shape, strides);
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
  [[nodiscard]] Bytes elements() const {
    Bytes all;
    for (std::size_t i = 0; i < count_; ++i) {
      const std::byte* const at = memory_.data() + i * step_ * size_of(dtype_);
      all.insert(all.end(), at, at + size_of(dtype_));
    }
    return all;
  }
  [[nodiscard]] bool marks_are_whole() const {
    for (std::size_t at = 0; at < memory_.size(); ++at) {
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
  std::size_t step_;
  std::size_t count_;
  Bytes memory_;
};

template <class T>
T element(std::span<const std::byte> bytes, std::size_t i) {
  T value{};
  std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
  return value;
}

/// What may come out of each element, for one op.
class Wanted {
 public:
  virtual ~Wanted() = default;
  [[nodiscard]] virtual bool takes(std::size_t i, std::span<const std::byte> found) const = 0;
  [[nodiscard]] virtual std::span<const std::byte> native(std::size_t i) const = 0;
};

template <class T>
class WantedOf final : public Wanted {
 public:
  /// `factor`: one for all, instead of one for each element and rank.
  WantedOf(const ReducedValues& values, ReduceOp op, bool one_order, bool one_factor)
      : values_(values),
        op_(op),
        one_factor_(one_factor),
        exact_(one_order || exact(op)),
        any_order_(values.count) {
    if (op == ReduceOp::premul_sum && one_factor) {
      if constexpr (!std::same_as<T, bool>) {
        std::vector<T> results;
        for (std::size_t i = 0; i < values.count; ++i)
          results.push_back(reduced<T>(op, column(values.inputs, i), factors(i)));
        of_one_factor_ = bytes_of(results);
      }
    }
  }

  [[nodiscard]] bool takes(std::size_t i, std::span<const std::byte> found) const override {
    const std::span<const std::byte> native = this->native(i);
    if constexpr (std::same_as<T, bool>) {
      return std::equal(found.begin(), found.end(), native.begin());
    } else {
      // Rounded once or in each step: the result of native may be one that MPI cannot give.
      const bool same = std::equal(found.begin(), found.end(), native.begin());
      if (exact_ || (same && !kernels::testing::Narrow<T>)) return same;
      const T value = element<T>(found, 0);
      std::vector<T>& all = any_order_[i];
      if (all.empty()) all = any_order(i);
      return std::any_of(all.begin(), all.end(),
                         [&](const T& one) { return same_value(one, value); });
    }
  }
  [[nodiscard]] std::span<const std::byte> native(std::size_t i) const override {
    const ReducedValues::Bytes& all =
        of_one_factor_.empty() ? values_.results[static_cast<std::size_t>(op_)] : of_one_factor_;
    return std::span(all).subspan(i * sizeof(T), sizeof(T));
  }

 private:
  /// One result in any order.
  [[nodiscard]] static bool exact(ReduceOp op) {
    return op == ReduceOp::min || op == ReduceOp::max || std::integral<T>;
  }
  [[nodiscard]] static std::vector<T> column(const std::vector<ReducedValues::Bytes>& rows,
                                             std::size_t i) {
    std::vector<T> all;
    for (const ReducedValues::Bytes& row : rows) all.push_back(element<T>(row, i));
    return all;
  }
  [[nodiscard]] std::vector<T> factors(std::size_t i) const {
    if (!one_factor_) return column(values_.factors, i);
    if constexpr (kernels::testing::Narrow<T>)
      return std::vector<T>(values_.inputs.size(),
                            kernels::testing::narrowed<T>(static_cast<float>(kFactor)));
    else
      return std::vector<T>(values_.inputs.size(), static_cast<T>(kFactor));
  }
  [[nodiscard]] std::vector<T> any_order(std::size_t i) const {
    std::vector<T> given = column(values_.inputs, i);
    const auto ranks = static_cast<std::int64_t>(given.size());
    if (op_ == ReduceOp::premul_sum) {
      const std::vector<T> by = factors(i);
      for (std::size_t r = 0; r < given.size(); ++r)
        given[r] = kernels::testing::scaled<T>(given[r], by[r]);
    }
    const bool sums = op_ == ReduceOp::avg || op_ == ReduceOp::premul_sum;
    std::vector<T> all = in_any_order<T>(sums ? ReduceOp::sum : op_, given);
    if (op_ == ReduceOp::avg) {
      for (T& one : all) one = kernels::testing::average<T>({one}, ranks);
    }
    return all;
  }

  const ReducedValues& values_;
  ReduceOp op_;
  bool one_factor_;
  bool exact_;
  ReducedValues::Bytes of_one_factor_;
  mutable std::vector<std::vector<T>> any_order_;  ///< by element; empty until it is asked for
};

/// The part that depends on the C++ type of an element. The rest is compiled once for all of them.
struct Element {
  DType dtype;
  ReducedValues (*values)(std::size_t count, int ranks, std::uint64_t seed);
  ReducedValues (*of_first_ranks)(const ReducedValues& all, std::size_t ranks, ReduceOp op);
  std::unique_ptr<Wanted> (*wanted)(const ReducedValues& values, ReduceOp op, bool one_order,
                                    bool one_factor);
};

template <class T>
Element element_of() {
  return {kernels::testing::dtype<T>(), reduced_values<T>, of_first_ranks<T>,
          [](const ReducedValues& values, ReduceOp op, bool one_order,
             bool one_factor) -> std::unique_ptr<Wanted> {
            return std::make_unique<WantedOf<T>>(values, op, one_order, one_factor);
          }};
}

template <class... T>
std::vector<Element> elements_of() {
  return {element_of<T>()...};
}

/// The reductions of one dtype, op and count on one rank.
class Reductions {
 public:
  Reductions(ProcessGroup& world, const Element& element, const ReducedValues& values, ReduceOp op,
             bool one_order)
      : world_(world),
        element_(element),
        values_(values),
        op_(op),
        one_order_(one_order),
        wanted_(element.wanted(values, op, one_order, false)),
        wanted_of_one_factor_(element.wanted(values, op, one_order, true)) {}

  /// `count` elements from number `first` on; of reduce_scatter as many as divide.
  void run(std::size_t first, std::size_t count, bool strided) {
    first_ = first;
    strided_ = strided;
    all_reduce(count);
    reduce(count, 0);
    reduce(count, world_.size() - 1);
    scan(count, false);
    scan(count, true);
    scatter(count);
    if (strided) return;  // below, tensors of a list
    all_reduce_coalesced(count);
    scatter_list(count);
    scatter_uneven(count);
    scatter_coalesced(count);
  }

 private:
  [[nodiscard]] std::size_t bytes() const { return size_of(values_.dtype); }
  [[nodiscard]] std::size_t ranks() const { return static_cast<std::size_t>(world_.size()); }
  [[nodiscard]] std::size_t rank() const { return static_cast<std::size_t>(world_.rank()); }
  [[nodiscard]] std::span<const std::byte> mine(std::size_t count) const {
    return std::span(values_.inputs[rank()]).subspan(first_ * bytes(), count * bytes());
  }
  [[nodiscard]] TensorView factors(std::size_t count) {
    if (op_ != ReduceOp::premul_sum) return {};
    const auto given =
        std::span(values_.factors[rank()]).subspan(first_ * bytes(), count * bytes());
    factors_.assign(given.begin(), given.end());
    factors_.push_back(std::byte{});  // an address even of none
    return TensorView(factors_.data(), values_.dtype, count);
  }
  [[nodiscard]] ReducedValues::Bytes none(std::size_t count) const {
    return ReducedValues::Bytes(count * bytes(), std::byte{0x5a});
  }

  void all_reduce(std::size_t count) {
    Strip buffer(mine(count), values_.dtype, strided_);
    world_.all_reduce(buffer.view(), {.op = op_, .factors = factors(count)}).wait();
    compare("all_reduce", buffer, 0);
  }
  void all_reduce_coalesced(std::size_t count) {
    Strip buffer(mine(count), values_.dtype, false);
    const std::vector<std::size_t> counts = tensors_of(count);
    world_.all_reduce_coalesced(buffer.views(counts), {.op = op_, .factors = factors(count)})
        .wait();
    compare("all_reduce_coalesced", buffer, 0);
  }
  void reduce(std::size_t count, int root) {
    Strip buffer(mine(count), values_.dtype, strided_);
    world_.reduce(buffer.view(), {.root = root, .op = op_, .factors = factors(count)}).wait();
    if (world_.rank() == root) return compare("reduce", buffer, 0);
    unchanged("reduce", buffer, count);
  }
  /// As an all_reduce of the ranks up to this one.
  void scan(std::size_t count, bool exclusive) {
    const char* const name = exclusive ? "exclusive_scan" : "scan";
    Strip buffer(mine(count), values_.dtype, strided_);
    world_.scan(buffer.view(), {.op = op_, .exclusive = exclusive, .factors = factors(count)})
        .wait();
    const std::size_t combined = rank() + (exclusive ? 0 : 1);
    if (combined == 0) return unchanged(name, buffer, count);
    const ReducedValues values = element_.of_first_ranks(values_, combined, op_);
    compare(name, buffer, 0, *element_.wanted(values, op_, one_order_, false));
  }
  /// Elements of a block where all are divided evenly.
  [[nodiscard]] std::size_t block(std::size_t count) const { return count / ranks(); }

  void scatter(std::size_t count) {
    const std::size_t all = block(count) * ranks();
    Strip input(mine(all), values_.dtype, strided_);
    Strip output(none(block(count)), values_.dtype, strided_);
    world_.reduce_scatter(output.view(), input.view(), {.op = op_, .factors = factors(all)}).wait();
    compare("reduce_scatter", output, block(count) * rank());
    unchanged("reduce_scatter", input, all);
  }
  void scatter_list(std::size_t count) {
    const std::size_t all = block(count) * ranks();
    Strip input(mine(all), values_.dtype, false);
    Strip output(none(block(count)), values_.dtype, false);
    const std::vector<std::size_t> counts(ranks(), block(count));
    world_.reduce_scatter(output.view(), input.views(counts), {.op = op_, .factors = factors(all)})
        .wait();
    compare("reduce_scatter_list", output, block(count) * rank());
    unchanged("reduce_scatter_list", input, all);
  }
  /// The last rank gets what is left over, the first one nothing.
  void scatter_uneven(std::size_t count) {
    std::vector<std::size_t> counts(ranks(), block(count));
    counts.back() += count - block(count) * ranks() + (ranks() > 1 ? counts.front() : 0);
    if (ranks() > 1) counts.front() = 0;
    const std::size_t begin =
        std::accumulate(counts.begin(), counts.begin() + world_.rank(), std::size_t{0});
    Strip input(mine(count), values_.dtype, false);
    Strip output(none(counts[rank()]), values_.dtype, false);
    world_
        .reduce_scatter(output.view(), input.view(),
                        {.op = op_, .factors = factors(count), .input_counts = counts})
        .wait();
    compare("reduce_scatter_uneven", output, begin);
    unchanged("reduce_scatter_uneven", input, count);
  }
  /// Two tensors, each divided among the ranks. They take one factor.
  void scatter_coalesced(std::size_t count) {
    const std::size_t large = block(count) / 2;
    const std::vector<std::size_t> outputs{block(count) - large, large};
    const std::vector<std::size_t> inputs{outputs[0] * ranks(), outputs[1] * ranks()};
    Strip input(mine(block(count) * ranks()), values_.dtype, false);
    Strip first(none(outputs[0]), values_.dtype, false);
    Strip second(none(outputs[1]), values_.dtype, false);
    const std::optional<double> factor =
        op_ == ReduceOp::premul_sum ? std::optional<double>(kFactor) : std::nullopt;
    world_
        .reduce_scatter_coalesced(std::vector{first.view(), second.view()}, input.views(inputs),
                                  {.op = op_, .factor = factor})
        .wait();
    compare("reduce_scatter_coalesced", first, outputs[0] * rank(), *wanted_of_one_factor_);
    compare("reduce_scatter_coalesced", second, inputs[0] + outputs[1] * rank(),
            *wanted_of_one_factor_);
  }

  void unchanged(const char* operation, const Strip& strip, std::size_t count) {
    const auto given = mine(count);
    const bool right = strip.marks_are_whole() && std::ranges::equal(strip.elements(), given);
    TableCells::of_process().add(operation, values_.dtype, to_string(op_), right);
    EXPECT_TRUE(right) << operation << " changes what is not its output";
  }
  void compare(const char* operation, const Strip& strip, std::size_t begin) {
    compare(operation, strip, begin, *wanted_);
  }
  /// `begin`: the place of the first of them behind first_.
  void compare(const char* operation, const Strip& strip, std::size_t begin, const Wanted& wanted) {
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
    TableCells::of_process().add(operation, values_.dtype, to_string(op_), right);
    EXPECT_TRUE(right) << operation << ", " << to_string(op_) << " of " << to_string(values_.dtype)
                       << ", rank " << world_.rank() << " of " << world_.size()
                       << (strided_ ? ", strided" : "") << text;
  }

  ProcessGroup& world_;
  const Element& element_;
  const ReducedValues& values_;
  ReduceOp op_;
  bool one_order_;
  std::unique_ptr<Wanted> wanted_;
  std::unique_ptr<Wanted> wanted_of_one_factor_;
  std::size_t first_ = 0;
  bool strided_ = false;
  ReducedValues::Bytes factors_;
};

/// A pair that has no meaning is an error at the call.
void expect_refused(ProcessGroup& world, ReduceOp op, DType dtype) {
  std::vector<std::byte> buffer(size_of(dtype) * static_cast<std::size_t>(world.size()));
  const std::optional<double> factor =
      op == ReduceOp::premul_sum ? std::optional<double>(kFactor) : std::nullopt;
  const TensorView one(buffer.data(), dtype, 1);
  const TensorView all(buffer.data(), dtype, static_cast<std::size_t>(world.size()));
  EXPECT_THROW((void)world.all_reduce(one, {.op = op, .factor = factor}), InvalidArgument);
  EXPECT_THROW((void)world.reduce(one, {.op = op, .factor = factor}), InvalidArgument);
  EXPECT_THROW((void)world.reduce_scatter(one, all, {.op = op, .factor = factor}), InvalidArgument);
  TableCells::of_process().add_refused();
}

/// All but the reductions, and those that have no data. `kBytes`: of an element.
template <std::size_t kBytes>
void move_all(ProcessGroup& world, DType dtype) {
  if (size_of(dtype) != kBytes) return;
  std::vector<Operation> operations = all_operations();
  operations.insert(operations.end(), std::begin(kCoalesced), std::end(kCoalesced));
  for (const Operation& operation : operations) {
    if (traits_of(operation.kind).reduces || !has_data(operation.kind)) continue;
    for (const std::size_t count : kCounts) {
      for (const bool strided : {false, true}) {
        Arguments arguments;
        arguments.count = count;
        arguments.root = (world.size() - 1) / 2;
        CallPlan plan = plan_of(operation, arguments, world.rank(), world.size());
        if (strided && plan.in == Form::tensor) plan.in = Form::strided;
        if (strided && plan.out == Form::tensor) plan.out = Form::strided;
        PreparedCall<Cell<kBytes>> call(std::move(plan), dtype);
        call.run(world);
        const bool right = call.wrong() == 0;
        TableCells::of_process().add(operation.name, dtype, "", right);
        EXPECT_TRUE(right) << operation.name << ": " << call.text() << (strided ? ", strided" : "");
      }
    }
  }
}

class OperationTable : public testing::TestWithParam<Element> {};

INSTANTIATE_TEST_SUITE_P(
    Of, OperationTable,
    testing::ValuesIn(
        elements_of<bool, std::uint8_t, std::int8_t, std::uint16_t, std::int16_t, std::uint32_t,
                    std::int32_t, std::uint64_t, std::int64_t, float, double,
                    kernels::testing::Half, kernels::testing::Brain, kernels::testing::E4M3,
                    kernels::testing::E5M2, std::complex<float>, std::complex<double>>()),
    [](const testing::TestParamInfo<Element>& one) {
      return std::string(to_string(one.param.dtype));
    });

TEST_P(OperationTable, Reduces) {
  ProcessGroup world = launched_world();
  TableCells::of_process().set_world(world);
  const Element& element = GetParam();
  const bool one_order = keeps_promise(world.backend(), Promise::same_bits);
  const ReducedValues values = element.values(kCounts[3] + 64, world.size(), 1);
  for (int o = 0; o < kReduceOps; ++o) {
    const auto op = static_cast<ReduceOp>(o);
    if (values.results[static_cast<std::size_t>(o)].empty()) {
      expect_refused(world, op, values.dtype);
      continue;
    }
    Reductions reductions(world, element, values, op, one_order);
    for (const std::size_t count : kCounts) {
      for (const bool strided : {false, true})
        reductions.run(count < 8 ? 9 * static_cast<std::size_t>(o) : 0, count, strided);
    }
  }
  world.barrier().wait();
}

TEST_P(OperationTable, Moves) {
  ProcessGroup world = launched_world();
  TableCells::of_process().set_world(world);
  move_all<1>(world, GetParam().dtype);
  move_all<2>(world, GetParam().dtype);
  move_all<4>(world, GetParam().dtype);
  move_all<8>(world, GetParam().dtype);
  move_all<16>(world, GetParam().dtype);
  world.barrier().wait();
}

}  // namespace
}  // namespace tutti::test
