#include "static_graph.hpp"

#include <utility>

#include <c10/util/Exception.h>

namespace tutti::torch {

StaticGraph::StaticGraph(std::vector<std::string> names)
    : names_(std::move(names)), gradients_(names_.size()), missing_(names_.size()) {}

void StaticGraph::begin_step() {
  if (learned_)
    missing_ = gradients_;
  else
    gradients_.assign(gradients_.size(), 0);
}

bool StaticGraph::count(std::size_t number) {
  if (!learned_) {
    ++gradients_[number];
    return false;
  }
  if (gradients_[number] == 0) refuse(number);
  TORCH_CHECK(missing_[number] > 0, "tutti: DistributedDataParallel: '", names_[number],
              "' got more gradients than the ", gradients_[number],
              " of the first step; with static_graph all steps must be alike");
  return --missing_[number] == 0;
}

void StaticGraph::learn() {
  learned_ = true;
  for (std::size_t number = 0; number < gradients_.size(); ++number)
    if (gradients_[number] == 0) unused_.push_back(number);
}

void StaticGraph::refuse(std::size_t number) const {
  TORCH_CHECK(false, "tutti: DistributedDataParallel: '", names_[number],
              "' got a gradient, but none in the first step; with static_graph all steps must use "
              "the same parameters. If they change, set find_unused_parameters instead");
}

}  // namespace tutti::torch
