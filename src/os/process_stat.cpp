#include "os/process_stat.hpp"

#include <fstream>
#include <sstream>

#include "base/format.hpp"

namespace tutti::os {

std::optional<ProcessStat> process_stat(pid_t process, const std::string& proc) {
  std::ifstream file(base::format("{}/{}/stat", proc, process), std::ios::binary);
  std::stringstream all;
  all << file.rdbuf();
  const std::string text = all.str();
  const std::size_t open = text.find('(');
  const std::size_t close = text.rfind(')');  // the name may hold any bytes
  if (open == std::string::npos || close == std::string::npos || close < open) return std::nullopt;
  ProcessStat stat;
  stat.name = text.substr(open + 1, close - open - 1);
  std::istringstream fields(text.substr(close + 1));
  std::string skipped;
  const auto skip = [&](int count) {
    for (int i = 0; i < count; ++i) fields >> skipped;
  };
  fields >> stat.state >> stat.parent >> stat.group;  // fields 3 to 5
  skip(3);
  fields >> stat.flags;  // field 9
  skip(4);
  fields >> stat.user_ticks >> stat.system_ticks;  // fields 14 and 15
  skip(6);
  fields >> stat.began;  // field 22
  if (!fields) return std::nullopt;
  return stat;
}

}  // namespace tutti::os
