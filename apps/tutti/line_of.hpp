#pragma once

#include <fstream>
#include <string>

namespace tutti::cli {

/// The first line of a file of the kernel's; empty where there is none.
inline std::string line_of(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

}  // namespace tutti::cli
