#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "apps/tutti/explain_call.hpp"

// The words in which the text, the picture and the page tell of an explanation.
namespace tutti::cli::explain {

/// "48 bytes", "256 KiB", "1 MiB": exact.
[[nodiscard]] std::string bytes_text(std::size_t bytes);
/// "1,048,576".
[[nodiscard]] std::string number_text(std::size_t number);
/// "1 message", "12 messages".
[[nodiscard]] std::string counted(std::size_t number, const std::string& name);
/// "0-3, 6".
[[nodiscard]] std::string list_text(const std::vector<std::int64_t>& rising);

/// One transfer, or all those of one piece that differ in the chunk only.
struct Arrow {
  Transfer first;
  std::vector<std::int64_t> chunks;  ///< rising; empty: the piece has no chunk
  std::size_t count = 0;
  std::size_t bytes = 0;
};
/// `merged`: transfers that differ in the chunk only are one arrow.
[[nodiscard]] std::vector<Arrow> arrows_of(const Flow& flow, bool merged);

/// "part 2 of chunk 1", "block 3", "everything", "a token".
[[nodiscard]] std::string piece_text(const Arrow& arrow, const Flow& flow);
[[nodiscard]] std::string piece_text(const Piece& piece, const Flow& flow);
/// "message", "copies from shared memory", ...
[[nodiscard]] std::string how_text(How how);

/// "all_reduce of 1 MiB (262,144 x float32) on 6 ranks of 2 hosts".
[[nodiscard]] std::string title_of(const Explanation& e);

/// A name and what there is to say about it.
struct Fact {
  std::string name;
  std::vector<std::string> lines;
};
[[nodiscard]] std::vector<Fact> facts_of(const Explanation& e);

}  // namespace tutti::cli::explain
