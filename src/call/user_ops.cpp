#include "call/user_ops.hpp"

#include <map>
#include <mutex>

#include "base/forks.hpp"
#include "base/shown.hpp"
#include "call/call_code.hpp"

namespace tutti::call {
namespace {

/// Ids of ops and their names, for error texts only. A program that makes ever more ops fills it;
/// later ones then have no name in texts.
struct Known {
  static constexpr std::size_t kMost = 1024;
  base::ForkMutex mutex;
  std::map<std::uint64_t, std::string> texts;
};

Known& known() {
  static Known* const all = new Known;  // never destroyed: threads may describe calls at exit
  return *all;
}

}  // namespace

std::uint64_t user_op_id(Kind kind, std::string_view name, std::size_t block) {
  // The lowest bits tell it from the other digests of a call (docs/design/fingerprint.md).
  const std::uint64_t seed = static_cast<std::uint64_t>(kind) + (std::uint64_t{block} << 8);
  const std::uint64_t id = (hash_text(name, seed) & ~std::uint64_t{7}) | 4;
  Known& all = known();
  const std::lock_guard lock(all.mutex);
  if (all.texts.size() >= Known::kMost || all.texts.contains(id)) return id;
  std::string text =
      std::string(to_string(kind)) + " with the op '" + base::shown_on_line(name, 64) + '\'';
  if (block != 1) text += " of " + std::to_string(block) + " elements at a time";
  all.texts.emplace(id, std::move(text));
  return id;
}

std::string describe_user_op(std::uint64_t id) {
  Known& all = known();
  const std::lock_guard lock(all.mutex);
  const auto found = all.texts.find(id);
  return found != all.texts.end() ? found->second
                                  : "a reduction with an op that this process has not made (all "
                                    "ranks must give the UserOp the same name and block)";
}

}  // namespace tutti::call
