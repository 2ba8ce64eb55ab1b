#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <tutti/dtype.hpp>
#include <tutti/tensor.hpp>

namespace tutti::test {

/// One side of a call: blocks of elements of T, which are of this dtype, each somewhere in memory,
/// with marks between them that must stay as they are.
template <class T>
class Side {
 public:
  enum class Form { tensor, strided, list };

  Side(Form form, std::vector<std::size_t> counts, DType dtype)
      : form_(form), counts_(std::move(counts)), dtype_(dtype) {
    std::size_t all = 0;
    for (const std::size_t count : counts_) all += count;
    const std::size_t step = form_ == Form::strided ? 2 : 1;
    memory_.assign((all + counts_.size() + 1) * step, T(kMark));
    std::size_t begin = 0;
    for (const std::size_t count : counts_) {
      begins_.push_back(begin);
      begin += count + (form_ == Form::list ? 1 : 0);
    }
  }

  [[nodiscard]] bool listed() const { return form_ == Form::list; }
  [[nodiscard]] const std::vector<std::size_t>& counts() const { return counts_; }

  [[nodiscard]] TensorView tensor() {
    std::size_t all = 0;
    for (const std::size_t count : counts_) all += count;
    if (form_ != Form::strided) return TensorView(memory_.data(), dtype_, all);
    const std::int64_t shape[] = {static_cast<std::int64_t>(all)};
    const std::int64_t strides[] = {2};
    return TensorView(memory_.data(), dtype_, shape, strides);
  }
  [[nodiscard]] std::vector<TensorView> list() {
    std::vector<TensorView> views;
    for (std::size_t b = 0; b < counts_.size(); ++b)
      views.emplace_back(&memory_[place(b, 0)], dtype_, counts_[b]);
    return views;
  }

  template <class Value>
  void fill(Value value) {
    for (std::size_t b = 0; b < counts_.size(); ++b) {
      for (std::size_t i = 0; i < counts_[b]; ++i) memory_[place(b, i)] = T(value(b, i));
    }
  }
  /// How many elements, marks included, are not as they must be.
  template <class Value>
  [[nodiscard]] std::size_t wrong(Value value) const {
    std::vector<T> expected(memory_.size(), T(kMark));
    for (std::size_t b = 0; b < counts_.size(); ++b) {
      for (std::size_t i = 0; i < counts_[b]; ++i) expected[place(b, i)] = T(value(b, i));
    }
    std::size_t n = 0;
    for (std::size_t at = 0; at < memory_.size(); ++at) n += memory_[at] != expected[at] ? 1 : 0;
    return n;
  }
  [[nodiscard]] std::size_t touched() const {
    std::size_t n = 0;
    for (const T& one : memory_) n += one != T(kMark) ? 1 : 0;
    return n;
  }

 private:
  static constexpr int kMark = -77;
  [[nodiscard]] std::size_t place(std::size_t block, std::size_t index) const {
    const std::size_t at = begins_[block] + index;
    return form_ == Form::strided ? at * 2 : at;
  }

  Form form_;
  std::vector<std::size_t> counts_;
  DType dtype_;
  std::vector<std::size_t> begins_;  ///< of the blocks, in elements
  std::vector<T> memory_;
};

}  // namespace tutti::test
