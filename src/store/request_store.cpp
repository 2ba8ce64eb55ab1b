#include "store/request_store.hpp"

#include <algorithm>

#include "base/format.hpp"
#include "base/shown.hpp"

namespace tutti::store {
namespace {

using namespace std::chrono_literals;

std::string duration_text(Store::Clock::duration duration) {
  const auto ms = std::chrono::round<std::chrono::milliseconds>(duration);
  if (ms < 10s) return base::format("{} ms", ms.count());
  return base::format("{:.1f} s", std::chrono::duration<double>(ms).count());
}

std::string quoted(const std::vector<std::string>& names) {
  constexpr std::size_t kNamesShown = 4;
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kNamesShown); ++i)
    text += base::format("{}\"{}\"", i == 0 ? "" : ", ", base::shown(names[i], 128));
  if (names.size() > kNamesShown) text += base::format(" and more");
  return text;
}

}  // namespace

Outcome describe_failure(Op op, const std::string& name, std::size_t count,
                         const Response& response, Store::Clock::duration timeout,
                         const std::string& store) {
  std::string call = base::format("store {}", to_string(op));
  if (count == 1) call += base::format("(\"{}\")", base::shown(name, 128));
  if (count > 1) call += base::format("(\"{}\" and {} more)", base::shown(name, 128), count - 1);
  if (response.code != Errc::timeout || !response.text.empty())
    return Outcome(response.code, base::format("{}: {}", call, response.text));
  if (op == Op::queue_pop) {
    return Outcome(Errc::timeout,
                   base::format("{}: nothing was pushed to this queue of {} within {}; is the "
                                "process that pushes still running, or is the timeout too short?",
                                call, store, duration_text(timeout)));
  }
  return Outcome(Errc::timeout,
                 base::format("{}: nobody has set {} in {} within {}; is the process that sets it "
                              "still running, or is the timeout too short?",
                              call, quoted(response.values), store, duration_text(timeout)));
}

Outcome forked_store(const std::string& store) {
  return Outcome(Errc::unsupported, store +
                                        " was made before this process was forked, and a child "
                                        "cannot use it; make a new one in the child");
}

}  // namespace tutti::store
