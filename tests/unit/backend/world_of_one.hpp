#pragma once

#include <string>
#include <vector>

#include <tutti/init.hpp>
#include <tutti/process_group.hpp>

namespace tutti {

/// A world that needs no store and no other rank.
inline ProcessGroup world_of_one() {
  InitOptions options;
  options.rank = 0;
  options.size = 1;
  options.exchange = [](const std::string&, const std::string& mine) {
    return std::vector<std::string>{mine};
  };
  return init_process_group(options);
}

}  // namespace tutti
