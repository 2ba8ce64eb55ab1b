// Each collective with rows, then with columns of a matrix. A row lies in one piece; a column is a
// view with strides, every n-th element, used where it lies: nobody copies it together.
//
//   tuttirun --nproc-per-node 4 11_rows_and_columns

#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

#include <tutti/tutti.hpp>

namespace {

enum class Form { rows, columns };

/// n x n numbers, row after row, of which we use whole lines: rows or columns.
class Matrix {
 public:
  Matrix(int n, Form form) : n_(n), form_(form), cells_(static_cast<std::size_t>(n * n), kEmpty) {}

  [[nodiscard]] tutti::TensorView line(int which) {
    if (form_ == Form::rows) return std::span(cells_).subspan(index(which, 0), extent());
    return tutti::TensorView(&cells_[index(which, 0)], tutti::DType::int32, {n_}, {n_});
  }
  /// All of them, as a list: one for each rank.
  [[nodiscard]] std::vector<tutti::TensorView> lines() {
    std::vector<tutti::TensorView> all;
    for (int which = 0; which < n_; ++which) all.push_back(line(which));
    return all;
  }
  [[nodiscard]] int& at(int which, int place) { return cells_[index(which, place)]; }

  /// `value(place)` in one line.
  template <class Value>
  void fill(int which, Value value) {
    for (int place = 0; place < n_; ++place) at(which, place) = value(place);
  }
  /// Nothing but this line was written, and that is right.
  template <class Value>
  [[nodiscard]] bool holds_only(int which, Value value) {
    bool right = true;
    for (int line = 0; line < n_; ++line) {
      for (int place = 0; place < n_; ++place)
        right = right && at(line, place) == (line == which ? value(place) : kEmpty);
    }
    return right;
  }
  /// `value(line, place)` everywhere.
  template <class Value>
  [[nodiscard]] bool holds(Value value) {
    bool right = true;
    for (int line = 0; line < n_; ++line) {
      for (int place = 0; place < n_; ++place)
        right = right && at(line, place) == value(line, place);
    }
    return right;
  }
  void print(const char* what) const {
    std::printf("  %s\n", what);
    for (int row = 0; row < n_; ++row) {
      for (int column = 0; column < n_; ++column)
        std::printf("%5d", cells_[static_cast<std::size_t>(row * n_ + column)]);
      std::printf("\n");
    }
  }

 private:
  static constexpr int kEmpty = -1;
  [[nodiscard]] std::size_t extent() const { return static_cast<std::size_t>(n_); }
  [[nodiscard]] std::size_t index(int which, int place) const {
    return static_cast<std::size_t>(form_ == Form::rows ? which * n_ + place : place * n_ + which);
  }

  int n_;
  Form form_;
  std::vector<int> cells_;
};

class Tour {
 public:
  Tour(tutti::ProcessGroup& world, Form form)
      : world_(world), form_(form), n_(world.size()), me_(world.rank()), middle_(n_ / 2) {}

  int run() {
    if (me_ == 0) std::printf("%s\n", form_ == Form::rows ? "rows" : "columns");
    broadcast();
    sums();
    to_and_from_one();
    among_all();
    return wrong_;
  }

 private:
  [[nodiscard]] Matrix matrix() const { return {n_, form_}; }
  /// The number that rank r puts at a place.
  [[nodiscard]] static int number(int rank, int place) { return 10 * rank + place; }
  [[nodiscard]] int sum_at(int place) const { return 10 * n_ * (n_ - 1) / 2 + n_ * place; }

  void check(bool right, const char* what, const Matrix& result) {
    if (!right) ++wrong_;
    if (me_ == 0 || !right) result.print(what);
  }

  void broadcast() {
    Matrix m = matrix();
    if (me_ == 0) m.fill(middle_, [](int place) { return number(7, place); });
    world_.broadcast(m.line(middle_), {.root = 0}).wait();
    check(m.holds_only(middle_, [](int place) { return number(7, place); }), "broadcast", m);
  }

  void sums() {
    const auto mine = [&](int place) { return number(me_, place); };
    const auto sum = [&](int place) { return sum_at(place); };
    Matrix all = matrix();
    all.fill(middle_, mine);
    world_.all_reduce(all.line(middle_)).wait();
    check(all.holds_only(middle_, sum), "all_reduce", all);

    Matrix one = matrix();
    one.fill(middle_, mine);
    world_.reduce(one.line(middle_), {.root = 0}).wait();
    check(me_ == 0 ? one.holds_only(middle_, sum) : one.holds_only(middle_, mine), "reduce", one);
  }

  void to_and_from_one() {
    const auto of_all = [](int line, int place) { return number(line, place); };
    Matrix lines = matrix();
    Matrix own = matrix();
    own.fill(middle_, [&](int place) { return number(me_, place); });
    const auto list = me_ == 0 ? lines.lines() : std::vector<tutti::TensorView>();
    world_.gather(list, own.line(middle_), {.root = 0}).wait();
    check(me_ != 0 || lines.holds(of_all), "gather", lines);

    Matrix part = matrix();
    world_.scatter(part.line(middle_), list, {.root = 0}).wait();
    check(part.holds_only(middle_, [&](int place) { return number(me_, place); }), "scatter", part);
  }

  void among_all() {
    Matrix own = matrix();
    own.fill(middle_, [&](int place) { return number(me_, place); });
    Matrix lines = matrix();
    world_.all_gather(lines.lines(), own.line(middle_)).wait();
    check(lines.holds([](int line, int place) { return number(line, place); }), "all_gather",
          lines);

    // Every rank has the same lines now, so line r of the sum is n times as much.
    Matrix part = matrix();
    world_.reduce_scatter(part.line(middle_), lines.lines()).wait();
    check(part.holds_only(middle_, [&](int place) { return n_ * number(me_, place); }),
          "reduce_scatter", part);

    // Line r goes to rank r: rank s has line `me` of everybody.
    Matrix given = matrix();
    for (int line = 0; line < n_; ++line)
      given.fill(line, [&](int place) { return 100 * me_ + number(line, place); });
    Matrix got = matrix();
    world_.all_to_all(got.lines(), given.lines()).wait();
    check(got.holds([&](int line, int place) { return 100 * line + number(me_, place); }),
          "all_to_all", got);
  }

  tutti::ProcessGroup& world_;
  Form form_;
  int n_;
  int me_;
  int middle_;  ///< the line that is used where there is one
  int wrong_ = 0;
};

}  // namespace

int main() {
  tutti::ProcessGroup world = tutti::init_process_group();
  const int wrong = Tour(world, Form::rows).run() + Tour(world, Form::columns).run();
  return wrong == 0 ? 0 : 1;
}
