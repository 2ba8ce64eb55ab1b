#include "engine/queued.hpp"

#include <cstring>

namespace tutti::engine {

Queued::Queued(const Collective& call, std::uint64_t record)
    : call_(call), record_(record), detailed_(call.details != nullptr) {
  if (!detailed_) return;
  const Details& from = *call.details;
  inputs_.assign(from.inputs.begin(), from.inputs.end());
  outputs_.assign(from.outputs.begin(), from.outputs.end());
  input_counts_.assign(from.input_counts.begin(), from.input_counts.end());
  output_counts_.assign(from.output_counts.begin(), from.output_counts.end());
  input_pieces_.assign(from.input_pieces.begin(), from.input_pieces.end());
  output_pieces_.assign(from.output_pieces.begin(), from.output_pieces.end());
  details_.factor = from.factor;
  if (from.factor.count() == 1) {
    std::memcpy(factor_.data(), from.factor.data(), size_of(from.factor.dtype()));
  }
}

const Collective& Queued::call() noexcept {
  if (!detailed_) return call_;
  details_.inputs = inputs_;
  details_.outputs = outputs_;
  details_.input_counts = input_counts_;
  details_.output_counts = output_counts_;
  details_.input_pieces = input_pieces_;
  details_.output_pieces = output_pieces_;
  if (details_.factor.count() == 1) {
    details_.factor = TensorView(factor_.data(), details_.factor.dtype(), 1);
  }
  call_.details = &details_;
  return call_;
}

}  // namespace tutti::engine
