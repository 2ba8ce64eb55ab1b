#include "apps/bench/operations.hpp"

#include <array>
#include <stdexcept>
#include <string>

namespace tutti::bench {

namespace {

/// The places are the numbers of the protocol, which workers of older builds know. Collectives that
/// came later follow in the order of their kinds.
constexpr auto kOperations = [] {
  constexpr int kFirstLater = 16;
  std::array<Operation, 13 + kKindCount - kFirstLater> all{
      Kind::all_reduce, Kind::broadcast, Kind::barrier, Kind::reduce,
      Kind::all_gather, Kind::gather,    Kind::scatter, Kind::reduce_scatter,
      Kind::all_to_all, Kind::send,      Kind::scan,    Kind::exclusive_scan,
      Kind::recv};
  for (int kind = kFirstLater; kind < kKindCount; ++kind)
    all[static_cast<std::size_t>(13 + kind - kFirstLater)] = static_cast<Kind>(kind);
  return all;
}();

std::size_t blocks(bool many, int ranks) { return many ? static_cast<std::size_t>(ranks) : 1; }

}  // namespace

std::span<const Operation> all_operations() { return kOperations; }

std::uint32_t number_of(Operation operation) {
  std::uint32_t number = 0;
  while (kOperations[number] != operation) ++number;
  return number;
}

std::string_view name_of(Operation operation) {
  if (operation == Kind::recv) return "send_window";
  return operation == Kind::send ? "send_recv" : traits_of(operation).name;
}

Operation operation_of(std::string_view name) {
  for (const Operation operation : kOperations) {
    if (name == name_of(operation)) return operation;
  }
  throw std::invalid_argument("no such operation: " + std::string(name));
}

Operation operation_of(std::uint32_t number) {
  if (number < all_operations().size()) return kOperations[number];
  throw std::invalid_argument("no operation has the number " + std::to_string(number));
}

bool in_place(Operation operation) {
  const Layout layout = traits_of(operation).layout;
  return layout == Layout::same || layout == Layout::pair;
}

std::size_t input_blocks(Operation operation, int ranks) {
  const Layout layout = traits_of(operation).layout;
  if (layout == Layout::none || in_place(operation)) return 0;
  return blocks(layout == Layout::scatter || layout == Layout::exchange, ranks);
}

std::size_t output_blocks(Operation operation, int ranks) {
  const Layout layout = traits_of(operation).layout;
  if (layout == Layout::none) return 0;
  return blocks(layout == Layout::gather || layout == Layout::exchange, ranks);
}

}  // namespace tutti::bench
