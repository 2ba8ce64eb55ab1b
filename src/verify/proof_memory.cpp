#include "verify/proof_memory.hpp"

#include <algorithm>

#include "base/addition_order.hpp"
#include "base/index.hpp"

namespace tutti::verify::proof {

void join(Clock& a, const Clock& b) {
  for (std::size_t r = 0; r < a.size(); ++r) a[r] = std::max(a[r], b[r]);
}

void join(Known& a, const Known& b) {
  for (std::size_t r = 0; r < a.size(); ++r) {
    if (b[r]) a[r] = true;
  }
}

Sums::Sums(int size) : size_(size) {
  for (int r = 0; r < size; ++r) {
    inputs_.emplace_back(base::as_size(size), false);
    base::at(inputs_.back(), r) = true;
  }
}

int Sums::add(int left, int right) {
  if (left == kUndefined || right == kUndefined) return kUndefined;
  const auto [found, added] =
      index_.try_emplace({left, right}, size_ + static_cast<int>(nodes_.size()));
  if (added) {
    nodes_.emplace_back(left, right);
    Known inputs = base::at(inputs_, left);
    if (right != kDivided) join(inputs, base::at(inputs_, right));
    inputs_.push_back(std::move(inputs));
  }
  return found->second;
}

int Sums::combine(const std::vector<int>& sources) {
  return sources.empty() ? kUndefined : combine(sources.data(), sources.size());
}

int Sums::combine(const int* sources, std::size_t count) {
  if (count == 1) return sources[0];
  const auto left = base::as_size(base::lower_half(static_cast<int>(count)));
  const int a = combine(sources, left);
  const int b = combine(sources + left, count - left);
  return add(a, b);
}

int Sums::first_ranks(int count) {
  std::vector<int> leaves;
  for (int r = 0; r < count; ++r) leaves.push_back(r);
  return combine(leaves);
}

bool Sums::is_divided(int sum) const {
  return sum >= size_ && base::at(nodes_, sum - size_).second == kDivided;
}

int Sums::undivided(int sum) const {
  while (is_divided(sum)) sum = base::at(nodes_, sum - size_).first;
  return sum;
}

bool Sums::complete(int sum) const {
  if (sum == kUndefined) return false;
  const Known& inputs = base::at(inputs_, sum);
  return std::find(inputs.begin(), inputs.end(), false) == inputs.end();
}

bool Sums::is_prefix(int sum) const {
  if (sum == kUndefined) return false;
  const Known& inputs = inputs_[static_cast<std::size_t>(sum)];
  return std::is_partitioned(inputs.begin(), inputs.end(), [](bool in) { return in; });
}

std::vector<int> Sums::inputs_of(int sum) const {
  std::vector<int> times(base::as_size(size_), 0);
  std::vector<int> open{sum};
  while (!open.empty()) {
    const int at = open.back();
    open.pop_back();
    if (at == kUndefined || at == kDivided) continue;
    if (at < size_) {
      ++base::at(times, at);
      continue;
    }
    const auto& [left, right] = base::at(nodes_, at - size_);
    open.push_back(left);
    open.push_back(right);
  }
  return times;
}

bool Sums::covered(int sum, const Known& known) const {
  if (sum == kUndefined) return true;
  const Known& inputs = base::at(inputs_, sum);
  for (std::size_t r = 0; r < inputs.size(); ++r) {
    if (inputs[r] && !known[r]) return false;
  }
  return true;
}

bool Memory::before(const Read& read, const Clock& clock) const noexcept {
  if (read.message != nullptr) {
    const Message& m = *read.message;
    return m.completed > 0 && base::at(clock, m.to) >= m.completed;
  }
  return base::at(clock, read.rank) >= read.time;
}

void Memory::read(const Place& place, const Access& by, const Message* message,
                  std::vector<int>& sums, std::vector<Race>& races) {
  sums.resize(place.count);
  const std::uint32_t now = base::at((*by.clock), by.rank);
  for (std::size_t i = 0; i < place.count; ++i) {
    Cell& cell = (*place.cells)[place.at + i];
    const std::size_t wanted = place.element + i;
    const bool ordered = cell.writer < 0 || base::at((*by.clock), cell.writer) >= cell.written;
    int suspect = -1;
    sums[i] = cell.sum;
    if (!ordered) {
      races.push_back(
          {cell.element == wanted ? Fault::early_read : Fault::early_reuse, cell.writer, wanted});
      sums[i] = Sums::kUndefined;
    } else if (cell.writer < 0 || cell.element != wanted) {
      suspect = static_cast<int>(doubts_.size());
      doubts_.push_back({cell.writer < 0 ? Fault::undefined_read : Fault::wrong_element, by.rank,
                         wanted, false, step_});
      sums[i] = Sums::kUndefined;
    }
    if (cell.reads >= 0 && message == nullptr) {
      Read& last = base::at(reads_, cell.reads);
      if (last.rank == by.rank && last.message == nullptr && last.suspect < 0 && suspect < 0 &&
          last.wanted == wanted) {
        last.time = now;
        continue;
      }
    }
    reads_.push_back({by.rank, now, message, wanted, suspect, cell.reads});
    cell.reads = static_cast<int>(reads_.size()) - 1;
  }
}

void Memory::write(const Place& place, const Access& by, std::uint32_t time,
                   const std::vector<int>& sums, std::vector<Race>& races) {
  for (std::size_t i = 0; i < place.count; ++i) {
    Cell& cell = (*place.cells)[place.at + i];
    const std::size_t element = place.element + i;
    if (cell.writer >= 0 && base::at((*by.clock), cell.writer) < cell.written) {
      races.push_back({Fault::unordered_writes, cell.writer, element});
    }
    for (int at = cell.reads; at >= 0; at = base::at(reads_, at).next) {
      const Read& read = base::at(reads_, at);
      if (before(read, *by.clock)) continue;
      // The reader wanted what is written only now, or is still to read what was there.
      const bool early = read.suspect >= 0 && read.wanted == element;
      if (early) base::at(doubts_, read.suspect).settled = true;
      races.push_back({early ? Fault::early_read : Fault::early_reuse, read.rank, element});
    }
    cell = {sums[i], element, by.rank, time, -1};
  }
}

}  // namespace tutti::verify::proof
