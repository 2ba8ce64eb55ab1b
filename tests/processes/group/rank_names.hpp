#pragma once

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <string>

namespace tutti::test {

/// Does a message name this rank: "rank 3" (not the begin of "rank 31"), or one of "Ranks 1, 3"?
inline bool names_rank(std::string text, int rank) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const auto digit = [&](std::size_t at) {
    return at < text.size() && std::isdigit(static_cast<unsigned char>(text[at])) != 0;
  };
  for (std::size_t at = text.find("rank"); at != std::string::npos; at = text.find("rank", at)) {
    at += 4;
    if (at < text.size() && text[at] == 's') ++at;
    while (at < text.size() && text[at] == ' ' && digit(at + 1)) {
      std::size_t end = ++at;
      while (digit(end)) ++end;
      if (text.substr(at, end - at) == std::to_string(rank)) return true;
      at = end < text.size() && text[end] == ',' ? end + 1 : end;
      if (at == end) break;
    }
  }
  return false;
}

}  // namespace tutti::test
