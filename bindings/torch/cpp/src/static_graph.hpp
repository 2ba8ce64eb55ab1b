#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace tutti::torch {

/// Which parameters get gradients, and how often: learnt in the first step, equal in all others.
///
/// A parameter gets several gradients in one step where a backward runs within another.
class StaticGraph {
 public:
  /// The names of all parameters, for errors.
  explicit StaticGraph(std::vector<std::string> names);

  /// The first step of this rank is over.
  [[nodiscard]] bool learned() const noexcept { return learned_; }
  void begin_step();
  /// Counts a gradient. True if it is the parameter's last one in this step, which the first step
  /// cannot know. c10::Error if the first step had fewer of it.
  bool count(std::size_t number);
  /// Ends the first step: its gradients are what each step must bring.
  void learn();
  /// The parameters that got no gradient in the first step.
  [[nodiscard]] const std::vector<std::size_t>& unused() const noexcept { return unused_; }
  /// c10::Error: this parameter is used, and was not in the first step.
  [[noreturn]] void refuse(std::size_t number) const;

 private:
  std::vector<std::string> names_;
  std::vector<std::size_t> gradients_;  ///< in the first step, of each parameter
  std::vector<std::size_t> missing_;    ///< in this step
  std::vector<std::size_t> unused_;
  bool learned_ = false;
};

}  // namespace tutti::torch
