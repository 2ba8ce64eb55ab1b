#pragma once

#include <array>
#include <span>
#include <vector>

#include "digits.hpp"

/// Weights of each class (64 pixels and a constant), class after class.
inline constexpr int kParameters = kClasses * (kPixels + 1);
using Parameters = std::vector<float>;

/// The result of one batch, or of a part of one: the gradient summed over its rows, and behind it
/// the summed loss: one buffer, so that one all_reduce carries both.
using Gradient = std::vector<float>;
inline constexpr int kGradient = kParameters + 1;

/// Adds the rows' part to `gradient`.
void add_gradient(const Parameters& parameters, std::span<const Digit* const> rows,
                  Gradient& gradient);

/// The digit that the model sees.
int predict(const Parameters& parameters, const Digit& digit);
