#include "digits.hpp"

#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>

namespace {

constexpr std::size_t kRows = 1797;

Digit parse(const std::string& line) {
  std::istringstream numbers(line);
  Digit digit{};
  for (int field = 0; field <= kPixels; ++field) {
    int value = 0;
    char comma = ',';
    if (field > 0 && !(numbers >> comma)) throw std::runtime_error("has too few numbers");
    if (comma != ',' || !(numbers >> value)) throw std::runtime_error("is not a list of numbers");
    const int most = field < kPixels ? 16 : kClasses - 1;
    if (value < 0 || value > most) throw std::runtime_error("has a number that is too large");
    if (field < kPixels)
      digit.pixels[static_cast<std::size_t>(field)] = static_cast<float>(value) / 16;
    else
      digit.label = value;
  }
  if (std::string rest; numbers >> rest) throw std::runtime_error("has too many numbers");
  return digit;
}

}  // namespace

Digits read_digits(const std::filesystem::path& file) {
  std::ifstream in(file);
  if (!in) {
    throw std::runtime_error(
        "cannot read " + file.string() +
        "; give the path of digits.csv (examples/data/digits.csv) as the argument");
  }
  Digits digits;
  std::size_t row = 0;
  for (std::string line; std::getline(in, line); ++row) {
    try {
      (row % 5 == 4 ? digits.held_out : digits.train).push_back(parse(line));
    } catch (const std::runtime_error& problem) {
      throw std::runtime_error(file.string() + ", line " + std::to_string(row + 1) + " " +
                               problem.what());
    }
  }
  if (row != kRows) {
    throw std::runtime_error(file.string() + " has " + std::to_string(row) + " rows instead of " +
                             std::to_string(kRows));
  }
  return digits;
}

std::filesystem::path beside_program() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / "data" / "digits.csv";
}
