#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <tutti/backend/kinds.hpp>
#include <tutti/tensor.hpp>

#include "factor.hpp"
#include "group.hpp"
#include "running.hpp"

// The common parts of all collectives: arrays, options, and the end of the call.
namespace tutti::python {

using Counts = std::optional<std::vector<std::size_t>>;

inline std::span<const std::size_t> span_of(const Counts& counts) {
  return counts ? std::span<const std::size_t>(*counts) : std::span<const std::size_t>();
}

/// One side of a call in Python: an array, or a list of arrays.
struct One {
  nanobind::handle given;
  TensorView view = {};

  void take(Memory& memory, const char* what, Use use) { view = memory.one(given, what, use); }
  [[nodiscard]] const TensorView& get() const { return view; }
};
struct List {
  nanobind::handle given;
  std::vector<TensorView> views = {};

  void take(Memory& memory, const char* what, Use use) { views = memory.list(given, what, use); }
  [[nodiscard]] std::span<const TensorView> get() const { return views; }
};

/// The end of every call.
struct End {
  nanobind::handle timeout;
  bool asynchronous;
};

/// A collective of one kind. The table of kinds says which of its arrays a rank has.
template <Kind kind, class Options>
class Call {
 public:
  /// `name` begins error texts; a literal.
  Call(const char* name, const GroupHandle& self, Options options, const End& end)
      : group_(self.open()),
        memory_(name),
        options_(std::move(options)),
        asynchronous_(end.asynchronous) {
    options_.timeout = timeout_of(end.timeout);
    if constexpr (traits_of(kind).rooted) root_ = options_.root;
  }

  /// Runs `start(group, options)`, which has no arrays.
  template <class Start>
  nanobind::object alone(const Start& start) {
    return run(group_, std::move(memory_), asynchronous_,
               [&](ProcessGroup& group) { return start(group, options_); });
  }

  /// Runs `start(group, array, options)`, which reads and writes the same arrays.
  template <class Side, class Start>
  nanobind::object in_place(Side side, const Start& start, nanobind::handle factor = {}) {
    side.take(memory_, "array", uses_output(kind, group_->rank(), root_) ? Use::write : Use::shown);
    take(factor);
    return run(group_, std::move(memory_), asynchronous_,
               [&](ProcessGroup& group) { return start(group, side.get(), options_); });
  }

  /// Runs `start(group, output, input, options)`.
  template <class Out, class In, class Start>
  nanobind::object apart(Out output, In input, const Start& start, nanobind::handle factor = {}) {
    const int rank = group_->rank();
    if (uses_output(kind, rank, root_)) output.take(memory_, "output", Use::write);
    if (uses_input(kind, rank, root_)) input.take(memory_, "input", Use::read);
    take(factor);
    return run(group_, std::move(memory_), asynchronous_, [&](ProcessGroup& group) {
      return start(group, output.get(), input.get(), options_);
    });
  }

 private:
  void take(nanobind::handle factor) {
    if constexpr (traits_of(kind).reduces) {
      memory_.check_op(options_.op);
      if (factor.is_valid()) take_factor(factor, memory_, options_);
    }
  }

  Group group_;
  Memory memory_;
  Options options_;
  int root_ = 0;
  bool asynchronous_;
};

}  // namespace tutti::python
