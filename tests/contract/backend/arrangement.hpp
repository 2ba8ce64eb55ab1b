#pragma once

#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include <tutti/tutti.hpp>

namespace tutti::test {

/// How the ranks of a world are made. What a backend promises is the same for all.
struct Arrangement {
  using Body = std::function<void(ProcessGroup& world)>;

  std::string name;  ///< for GoogleTest: letters and digits
  int size = 1;
  /// Makes a world and runs the body on each of its ranks that are in this process.
  std::function<void(const Body& body)> run;
  /// Its name in the list of backends, where it says what it promises.
  std::string backend = "native";
  /// A device of whose tensors this backend takes none; absent: it takes those of all.
  std::optional<Device> foreign = Device{DeviceType::cuda, 1};
  /// Operations that it has not.
  std::vector<Kind> lacks = {};
};

inline void PrintTo(const Arrangement& one, std::ostream* out) { *out << one.name; }

/// An operation that takes so long hangs: its error ends the test.
inline constexpr auto kForever = std::chrono::seconds(60);

}  // namespace tutti::test
