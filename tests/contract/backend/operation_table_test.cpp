#include <map>
#include <tuple>

#include "arrangement.hpp"
#include "contract/group/reductions.hpp"
#include "support/any_order.hpp"
#include "support/cell.hpp"
#include "support/operations.hpp"

// Every operation with every dtype and every reduce op, at several sizes, dense and strided. Values
// are compared bit by bit with the rules of docs/reference/semantics.md; where the backend does not
// promise the order of additions, with all results that any order gives.
namespace tutti::test {
namespace {

/// The cells of the table operations x dtypes x reduce ops that this rank has tried.
class TableCells {
 public:
  static TableCells& of_process() {
    static TableCells cells;
    return cells;
  }

  /// Notes the result of one call of the cell; a cell is right if all of its calls are.
  void add(std::string_view operation, DType dtype, std::string_view op, bool right) {
    const auto at = std::tuple(std::string(operation), dtype, std::string(op));
    const auto [cell, first] = cells_.try_emplace(at, right);
    cell->second = cell->second && right;
  }
  /// A pair of dtype and op that has no meaning, and was refused.
  void add_refused() { ++refused_; }
  void set_world(const ProcessGroup& world) {
    backend_ = world.backend();
    rank_ = world.rank();
    size_ = world.size();
  }

  /// One line, by rank 0: tests/processes/backend/five_mpis.py reads it.
  void print() const {
    if (rank_ != 0 || cells_.empty()) return;
    std::size_t right = 0;
    for (const auto& [at, cell] : cells_) right += cell ? 1 : 0;
    std::printf("TABLE of %s, %d ranks: %zu of %zu cells right, %d pairs refused\n",
                backend_.c_str(), size_, right, cells_.size(), refused_);
  }

 private:
  std::map<std::tuple<std::string, DType, std::string>, bool> cells_;
  std::string backend_;
  int rank_ = -1;
  int size_ = 0;
  int refused_ = 0;
};

/// Prints the line at the end of the program.
class PrintTable final : public testing::Environment {
 public:
  void TearDown() override { TableCells::of_process().print(); }
};

[[maybe_unused]] testing::Environment* const kPrints =
    testing::AddGlobalTestEnvironment(new PrintTable);

constexpr std::size_t kCounts[] = {0, 1, 7, 1000};
/// One factor for all, where a call takes no more.
constexpr double kFactor = 2;

template <class T>
T element(std::span<const std::byte> bytes, std::size_t i) {
  T value{};
  std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
  return value;
}

template <class T>
class WantedOf final : public Wanted {
 public:
  /// `factor`: one for all, instead of one for each element and rank.
  WantedOf(ReducedValues values, ReduceOp op, bool one_order, bool one_factor)
      : values_(std::move(values)),
        op_(op),
        one_factor_(one_factor),
        exact_(one_order || exact(op)),
        any_order_(values_.count) {
    if (op == ReduceOp::premul_sum && one_factor) {
      if constexpr (!std::same_as<T, bool>) {
        std::vector<T> results;
        for (std::size_t i = 0; i < values_.count; ++i)
          results.push_back(reduced<T>(op, column(values_.inputs, i), factors(i)));
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

  ReducedValues values_;
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
  std::unique_ptr<Wanted> (*wanted)(ReducedValues values, ReduceOp op, bool one_order,
                                    bool one_factor);
};

template <class T>
Element element_of() {
  return {kernels::testing::dtype<T>(), reduced_values<T>, of_first_ranks<T>,
          [](ReducedValues values, ReduceOp op, bool one_order,
             bool one_factor) -> std::unique_ptr<Wanted> {
            return std::make_unique<WantedOf<T>>(std::move(values), op, one_order, one_factor);
          }};
}

template <class... T>
struct Elements {
  static std::vector<Element> all() { return {element_of<T>()...}; }
};

/// One factor for all of them, if the op takes one.
std::optional<double> factor_of(ReduceOp op) {
  return op == ReduceOp::premul_sum ? std::optional<double>(kFactor) : std::nullopt;
}

/// Every reduction of one dtype and op, at all sizes.
void reduce_all(ProcessGroup& world, const Element& element, const ReducedValues& values,
                ReduceOp op) {
  const bool one_order = keeps_promise(world.backend(), Promise::same_bits);
  const auto wanted = element.wanted(values, op, one_order, false);
  const auto wanted_of_one_factor = element.wanted(values, op, one_order, true);
  const auto of_first_ranks = [&](std::size_t ranks) {
    return element.wanted(element.of_first_ranks(values, ranks, op), op, one_order, false);
  };
  Reductions calls(world, values, op, *wanted, [&](const char* operation, bool right) {
    TableCells::of_process().add(operation, values.dtype, to_string(op), right);
  });
  for (const std::size_t count : kCounts) {
    for (const bool strided : {false, true}) {
      calls.take(count < 8 ? 9 * static_cast<std::size_t>(op) : 0, count, strided);
      calls.all_reduce();
      calls.reduce(0);
      calls.reduce(world.size() - 1);
      calls.scan(false, of_first_ranks);
      calls.scan(true, of_first_ranks);
      calls.scatter();
      if (strided) continue;  // below, tensors of a list
      calls.all_reduce_coalesced(tensors_of(count));
      calls.scatter_list();
      // The last rank gets what is left over, the first one nothing.
      std::vector<std::size_t> counts(static_cast<std::size_t>(world.size()), calls.block());
      counts.front() = world.size() > 1 ? 0 : calls.block();
      counts.back() = 0;
      counts.back() = count - std::accumulate(counts.begin(), counts.end(), std::size_t{0});
      calls.scatter_uneven(counts);
      calls.scatter_coalesced(factor_of(op), *wanted_of_one_factor);
    }
  }
}

/// A pair that has no meaning is an error at the call.
void expect_refused(ProcessGroup& world, ReduceOp op, DType dtype) {
  std::vector<std::byte> buffer(size_of(dtype) * static_cast<std::size_t>(world.size()));
  const std::optional<double> factor = factor_of(op);
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
        CallPlan plan = plan_of(operation, {.count = count, .root = (world.size() - 1) / 2},
                                world.rank(), world.size());
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

INSTANTIATE_TEST_SUITE_P(Of, OperationTable, testing::ValuesIn(OfEveryType<Elements>::all()),
                         [](const auto& one) { return std::string(to_string(one.param.dtype)); });

TEST_P(OperationTable, Reduces) {
  ProcessGroup world = launched_world();
  TableCells::of_process().set_world(world);
  const Element& element = GetParam();
  const ReducedValues values = element.values(kCounts[3] + 64, world.size(), 1);
  for (int o = 0; o < kReduceOps; ++o) {
    const auto op = static_cast<ReduceOp>(o);
    if (values.results[static_cast<std::size_t>(o)].empty())
      expect_refused(world, op, values.dtype);
    else
      reduce_all(world, element, values, op);
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
