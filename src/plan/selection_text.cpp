#include "plan/selection_text.hpp"

#include <cstddef>

#include <tutti/backend/kinds.hpp>

#include "base/format.hpp"
#include "plan/select.hpp"

namespace tutti::plan {
namespace {

constexpr Kind kMostUsed[] = {Kind::barrier,    Kind::broadcast,      Kind::all_reduce,
                              Kind::all_gather, Kind::reduce_scatter, Kind::all_to_all};
constexpr std::size_t kLargest = std::size_t{1} << 30;

std::string size_text(std::size_t bytes) {
  if (bytes >= std::size_t{1} << 20) return base::format("{} MiB", bytes >> 20);
  if (bytes >= std::size_t{1} << 10) return base::format("{} KiB", bytes >> 10);
  return base::format("{} B", bytes);
}

}  // namespace

std::string selection_text(const Topology& topology, int cpus, std::string_view override_text) {
  std::string text;
  for (const Kind kind : kMostUsed) {
    text += base::format("{}{} ", text.empty() ? "" : "; ", traits_of(kind).name);
    std::string_view before;
    for (std::size_t bytes = 1; bytes <= kLargest; bytes *= 2) {
      Query query;
      query.kind = kind;
      query.bytes = bytes;
      query.rounds = traits_of(kind).reduces;
      query.cpus = cpus;
      query.even_blocks = true;
      query.override_text = override_text;
      const std::string_view now = select(query, topology).algorithm;
      // A row of the table ends with a size, so the next row begins one byte after it.
      if (now != before)
        text += before.empty() ? std::string(now)
                               : base::format(", {} above {}", now, size_text(bytes / 2));
      before = now;
      if (!has_data(kind)) break;
    }
  }
  return text;
}

}  // namespace tutti::plan
