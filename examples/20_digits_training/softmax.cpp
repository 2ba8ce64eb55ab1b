#include "softmax.hpp"

#include <algorithm>
#include <cmath>

namespace {

using Scores = std::array<float, kClasses>;

Scores scores_of(const Parameters& parameters, const Digit& digit) {
  Scores scores{};
  for (int c = 0; c < kClasses; ++c) {
    const float* const weights = &parameters[static_cast<std::size_t>(c * (kPixels + 1))];
    float sum = weights[kPixels];
    for (int p = 0; p < kPixels; ++p) sum += weights[p] * digit.pixels[static_cast<std::size_t>(p)];
    scores[static_cast<std::size_t>(c)] = sum;
  }
  return scores;
}

}  // namespace

void add_gradient(const Parameters& parameters, std::span<const Digit* const> rows,
                  Gradient& gradient) {
  for (const Digit* const digit : rows) {
    Scores p = scores_of(parameters, *digit);
    const float largest = *std::ranges::max_element(p);
    float total = 0;
    for (float& score : p) {
      score = std::exp(score - largest);
      total += score;
    }
    for (float& score : p) score /= total;
    gradient[kParameters] -= std::log(p[static_cast<std::size_t>(digit->label)]);
    for (int c = 0; c < kClasses; ++c) {
      const float error = p[static_cast<std::size_t>(c)] - (c == digit->label ? 1.0F : 0.0F);
      float* const weights = &gradient[static_cast<std::size_t>(c * (kPixels + 1))];
      for (int i = 0; i < kPixels; ++i)
        weights[i] += error * digit->pixels[static_cast<std::size_t>(i)];
      weights[kPixels] += error;
    }
  }
}

int predict(const Parameters& parameters, const Digit& digit) {
  const Scores scores = scores_of(parameters, digit);
  return static_cast<int>(std::ranges::max_element(scores) - scores.begin());
}
