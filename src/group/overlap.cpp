#include "group/overlap.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace tutti {
namespace {

/// Bytes of one piece that are in a row. Views with strides are not judged.
struct Bytes {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  std::size_t number = 0;  ///< of its first element, from the first one of this rank's block on
  bool written = false;
};

Bytes bytes_of(const Piece& piece, std::size_t number, bool written) noexcept {
  const std::size_t element = size_of(piece.view.dtype());
  const auto begin = reinterpret_cast<std::uintptr_t>(piece.view.data()) + piece.first * element;
  return {begin, begin + piece.count * element, number, written};
}

}  // namespace

bool overlap(const TensorView& a, const TensorView& b) noexcept {
  if (a.count() == 0 || b.count() == 0 || !a.contiguous() || !b.contiguous()) return false;
  const auto a_begin = reinterpret_cast<std::uintptr_t>(a.data());
  const auto b_begin = reinterpret_cast<std::uintptr_t>(b.data());
  return a_begin < b_begin + b.size_bytes() && b_begin < a_begin + a.size_bytes();
}

bool overlap(std::span<const Piece> outputs, std::size_t own_output, std::span<const Piece> inputs,
             std::size_t own_input) {
  std::vector<Bytes> all;
  const auto collect = [&](std::span<const Piece> pieces, std::size_t own, bool written) {
    std::size_t number = std::size_t{0} - own;  // may wrap: it is only compared
    for (const Piece& piece : pieces) {
      if (piece.count > 0 && piece.view.contiguous())
        all.push_back(bytes_of(piece, number, written));
      number += piece.count;
    }
  };
  collect(outputs, own_output, true);
  collect(inputs, own_input, false);
  const auto before = [](const Bytes& a, const Bytes& b) { return a.begin < b.begin; };
  if (!std::is_sorted(all.begin(), all.end(), before)) std::sort(all.begin(), all.end(), before);
  struct Ends {  // of what begins earlier
    std::uintptr_t written = 0;
    std::uintptr_t read = 0;
  };
  Ends ends;
  Ends before_last;
  Bytes last;
  for (const Bytes& one : all) {
    // A rank's own block may be both: then it is the same bytes, once of each.
    const bool both = one.begin == last.begin && one.end == last.end && one.number == last.number &&
                      one.written != last.written;
    if (both) ends = before_last;
    const bool writes = one.written || both;  // the two count as one that is written
    if (one.begin < ends.written || (writes && one.begin < ends.read)) return true;
    before_last = ends;
    std::uintptr_t& end = writes ? ends.written : ends.read;
    end = std::max(end, one.end);
    last = one;
  }
  return false;
}

}  // namespace tutti
