#pragma once

namespace tutti::base {

/// True if the CPU has the instructions that Highway's target of this name uses, and the operating
/// system keeps their registers.
[[nodiscard]] bool has_avx2() noexcept;
[[nodiscard]] bool has_avx3() noexcept;
[[nodiscard]] bool has_sve() noexcept;

}  // namespace tutti::base
