#pragma once

#include <array>
#include <filesystem>
#include <vector>

inline constexpr int kPixels = 64;
inline constexpr int kClasses = 10;

/// One image, its pixels scaled to 0 .. 1, and the digit that it shows.
struct Digit {
  std::array<float, kPixels> pixels;
  int label;
};

struct Digits {
  std::vector<Digit> train;
  std::vector<Digit> held_out;  ///< every fifth row: never trained on
};

/// Reads the file. Throws std::runtime_error, saying which line and why.
Digits read_digits(const std::filesystem::path& file);

/// Where the file lies beside this program: data/digits.csv.
std::filesystem::path beside_program();
