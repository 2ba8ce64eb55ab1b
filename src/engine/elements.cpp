#include "engine/elements.hpp"

#include <algorithm>
#include <cstring>

#include "kernels/pack.hpp"

namespace tutti::engine {

void Elements::pack(void* to, std::size_t at, std::size_t count) const noexcept {
  if (pieces != nullptr)
    pieces->pack(to, first + at, count);
  else
    kernels::pack(to, *view, first + at, count);
}

void Elements::unpack(std::size_t at, std::size_t count, const void* from) const noexcept {
  if (pieces != nullptr)
    pieces->unpack(first + at, count, from);
  else
    kernels::unpack(*view, first + at, count, from);
}

void Pieces::assign(std::span<const Piece> pieces) {
  pieces_.clear();
  ends_.clear();
  std::size_t end = 0;
  for (const Piece& piece : pieces) {
    if (piece.count == 0) continue;
    pieces_.push_back(piece);
    ends_.push_back(end += piece.count);
  }
}

std::size_t Pieces::index_of(std::size_t element) const noexcept {
  return static_cast<std::size_t>(std::upper_bound(ends_.begin(), ends_.end(), element) -
                                  ends_.begin());
}

Elements Pieces::at(std::size_t first, std::size_t count) const noexcept {
  const std::size_t index = index_of(first);
  if (index >= pieces_.size() || ends_[index] - first < count) return {nullptr, this, first};
  const Piece& piece = pieces_[index];
  return {&piece.view, nullptr, piece.first + first - (ends_[index] - piece.count)};
}

template <class Part>
void Pieces::for_each_part(std::size_t first, std::size_t count, const Part& part) const noexcept {
  std::size_t done = 0;
  for (std::size_t index = index_of(first); done < count; ++index) {
    const Piece& piece = pieces_[index];
    const std::size_t inside = first + done - (ends_[index] - piece.count);
    const std::size_t n = std::min(count - done, piece.count - inside);
    part(piece.view, piece.first + inside, n, done * size_of(piece.view.dtype()));
    done += n;
  }
}

void Pieces::pack(void* to, std::size_t first, std::size_t count) const noexcept {
  auto* const row = static_cast<std::byte*>(to);
  for_each_part(
      first, count, [&](const TensorView& view, std::size_t begin, std::size_t n, std::size_t at) {
        if (view.contiguous()) {
          const std::size_t element = size_of(view.dtype());
          std::memcpy(row + at, static_cast<const std::byte*>(view.data()) + begin * element,
                      n * element);
        } else {
          kernels::pack(row + at, view, begin, n);
        }
      });
}

void Pieces::unpack(std::size_t first, std::size_t count, const void* from) const noexcept {
  const auto* const row = static_cast<const std::byte*>(from);
  for_each_part(first, count,
                [&](const TensorView& view, std::size_t begin, std::size_t n, std::size_t at) {
                  if (view.contiguous()) {
                    const std::size_t element = size_of(view.dtype());
                    std::memcpy(static_cast<std::byte*>(view.data()) + begin * element, row + at,
                                n * element);
                  } else {
                    kernels::unpack(view, begin, n, row + at);
                  }
                });
}

}  // namespace tutti::engine
