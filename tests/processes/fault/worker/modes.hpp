#pragma once

#include <optional>
#include <string>
#include <vector>

// What a rank_worker does is its mode, the first of its arguments.
namespace tutti::fault {

struct Arguments {
  std::string mode;
  std::vector<std::string> rest;

  /// The next ones, from 0; "0" where there is none.
  [[nodiscard]] std::string at(std::size_t place) const {
    return place < rest.size() ? rest[place] : "0";
  }
  [[nodiscard]] int number(std::size_t place) const { return std::stoi(at(place)); }
};

// The exit code; nothing: it is a mode of another file.
std::optional<int> run_fault_mode(const Arguments& arguments);
std::optional<int> run_fork_mode(const Arguments& arguments);
std::optional<int> run_operation_mode(const Arguments& arguments);
std::optional<int> run_meeting_mode(const Arguments& arguments);

}  // namespace tutti::fault
