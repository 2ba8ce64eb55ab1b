#include <algorithm>
#include <chrono>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tutti/backend/group_access.hpp>
#include <tutti/process_group.hpp>

#include "base/fnv.hpp"
#include "base/format.hpp"
#include "base/index.hpp"
#include "group/process_group_impl.hpp"

// Groups of some ranks of a group.
namespace tutti {
inline namespace v0 {
namespace {

/// Checked first: a group with such a timeout would refuse every call.
void check_options(const NewGroupOptions& options, const char* what, std::string_view parent) {
  if (!options.timeout || *options.timeout > std::chrono::nanoseconds(0)) return;
  raise(Outcome(Errc::invalid_argument,
                base::format("{} in group '{}': the timeout must be positive", what, parent)));
}

}  // namespace

ProcessGroup ProcessGroup::Impl::make_sub_group(std::span<const int> ranks, std::uint64_t digest,
                                                const NewGroupOptions& options) {
  const std::string label =
      options.name.empty() ? base::format("{}[{}]", name, fmt::join(ranks, ",")) : options.name;
  ProcessGroup group;
  Result<Backend*> child = entry().make_child(ranks, label);
  if (!child) {
    entry().abort(child.status());  // otherwise the others would wait for this rank
    raise(child.status());
  }
  if (*child != nullptr) {
    std::vector<int> globals;
    for (const int one : ranks) globals.push_back(base::at(global_ranks, one));
    group = GroupAccess::make({*child, label, std::move(globals),
                               options.timeout.value_or(default_timeout()), store, trust, secret});
  }
  Collective call;
  call.kind = Kind::new_group;
  call.digest = digest;
  submit(call, std::nullopt, false).wait();
  return group;
}

ProcessGroup ProcessGroup::new_group(std::span<const int> ranks, const NewGroupOptions& options) {
  const auto refuse = [&](const std::string& text) {
    raise(
        Outcome(Errc::invalid_argument, base::format("new_group in group '{}': {}", name(), text)));
  };
  check_options(options, "new_group", name());
  std::uint64_t digest = base::kFnvBasis;
  std::vector<bool> seen(base::as_size(size()));
  for (const int one : ranks) {
    if (one < 0 || one >= size())
      refuse(base::format("{} is not a rank of it (size {})", one, size()));
    if (base::at(seen, one)) refuse(base::format("rank {} is listed twice", one));
    base::at(seen, one) = true;
    digest = base::fnv_add(digest, static_cast<std::uint64_t>(one + 1));
  }
  if (ranks.empty()) refuse("the list of ranks is empty");
  const bool member = base::at(seen, rank());
  return impl_->make_sub_group(member ? ranks : std::span<const int>(), digest, options);
}

ProcessGroup ProcessGroup::split(std::optional<int> color, int key,
                                 const NewGroupOptions& options) {
  check_options(options, "split", name());
  struct Entry {
    std::int64_t with = 0;  ///< 1: in a group
    std::int64_t color = 0;
    std::int64_t key = 0;
  };
  Entry mine{color ? 1 : 0, color.value_or(0), color ? key : 0};
  std::vector<Entry> all(base::as_size(size()));
  Collective call;
  call.kind = Kind::all_gather;
  call.tag = kLibraryTag;  // works on backends without CPU tensors, too
  call.timeout = get_timeout();
  call.input = TensorView(&mine, DType::uint8, sizeof(mine));
  call.output = TensorView(all.data(), DType::uint8, all.size() * sizeof(Entry));
  Work(impl_->entry().submit(call, false)).wait();
  std::uint64_t digest = base::kFnvBasis;
  std::vector<std::pair<std::int64_t, int>> members;  // by key, then by rank
  for (int one = 0; one < size(); ++one) {
    const Entry& entry = base::at(all, one);
    for (const std::int64_t value : {entry.with, entry.color, entry.key})
      digest = base::fnv_add(digest, static_cast<std::uint64_t>(value));
    if (color && entry.with != 0 && entry.color == *color) members.emplace_back(entry.key, one);
  }
  std::sort(members.begin(), members.end());
  std::vector<int> ranks;
  for (const auto& [its_key, one] : members) ranks.push_back(one);
  return impl_->make_sub_group(ranks, digest, options);
}

ProcessGroup ProcessGroup::new_subgroups(int group_size, const NewGroupOptions& options) {
  check_options(options, "new_subgroups", name());
  if (group_size < 1 || group_size > size() || size() % group_size != 0) {
    raise(Outcome(
        Errc::invalid_argument,
        base::format("new_subgroups in group '{}': {} ranks cannot be divided into groups of {}",
                     name(), size(), group_size)));
  }
  std::vector<int> ranks;
  const int first = rank() / group_size * group_size;
  for (int one = first; one < first + group_size; ++one) ranks.push_back(one);
  // The size is enough: every rank can compute every list.
  return impl_->make_sub_group(
      ranks, base::fnv_add(base::kFnvBasis, static_cast<std::uint64_t>(group_size)), options);
}

}  // namespace v0
}  // namespace tutti
