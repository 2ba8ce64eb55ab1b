#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include <tutti/backend/kinds.hpp>

/// The operations that can be measured. The meaning of each comes from the library's table of
/// kinds.
namespace tutti::bench {

/// Between the ranks 2k and 2k + 1 Kind::send is send_recv: there and back; Kind::recv is
/// send_window: kSendWindow messages that are under way together, then an answer.
using Operation = Kind;

/// As in osu_bw.
inline constexpr int kSendWindow = 64;

/// All of them, in the order of their numbers in the protocol.
std::span<const Operation> all_operations();
std::uint32_t number_of(Operation operation);
/// "all_reduce"; "send_recv", "send_window".
std::string_view name_of(Operation operation);
/// Throws std::invalid_argument for a name or a number that is none.
Operation operation_of(std::string_view name);
Operation operation_of(std::uint32_t number);

/// The output is the input as well.
bool in_place(Operation operation);
/// How many blocks of the point's size a buffer has in a job of `ranks`. In place there is only an
/// output.
std::size_t input_blocks(Operation operation, int ranks);
std::size_t output_blocks(Operation operation, int ranks);

}  // namespace tutti::bench
