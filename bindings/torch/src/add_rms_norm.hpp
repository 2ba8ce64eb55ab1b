#pragma once

#include <cstdint>

namespace tutti::torch_plugin {

/// Rows [begin, end) of matrices with `columns` columns, in place: first residual += values,
/// rounded to the type, then values = residual / sqrt(mean(residual^2) + eps) * weight, computed as
/// float32 and rounded once. The bits are the same on every CPU. bfloat16 comes as its bits.
void add_rms_norm(std::uint16_t* values, std::uint16_t* residual, const std::uint16_t* weight,
                  std::int64_t columns, float eps, std::int64_t begin, std::int64_t end) noexcept;
void add_rms_norm(float* values, float* residual, const float* weight, std::int64_t columns,
                  float eps, std::int64_t begin, std::int64_t end) noexcept;

}  // namespace tutti::torch_plugin
