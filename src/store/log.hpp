#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include <tutti/error.hpp>

#include "store/request.hpp"

// The file of a FileStore as pure functions on bytes; drawn in docs/design/file-store.md. A head,
// then records, only ever appended. A process may be killed while it writes one: what is left of it
// at the end of the file is no record.
namespace tutti::store {

inline constexpr std::size_t kLogHeadBytes = 8;

/// How a log begins.
[[nodiscard]] std::array<std::byte, kLogHeadBytes> log_head() noexcept;

enum class LogHead {
  good,
  torn,           ///< empty, or incomplete because its writer was killed
  foreign,        ///< no file of a FileStore
  other_version,  ///< one of another version of this library
};
/// `bytes` are the first of the file; all of it, if it is shorter than a head.
[[nodiscard]] LogHead check_head(std::span<const std::byte> bytes) noexcept;

/// One record: a change of the table, or that one more user has come.
struct LogRecord {
  std::optional<Request> change;  ///< absent: a user has come
  std::size_t bytes = 0;          ///< of the record in the file
};

/// The record at the front of `bytes`, which reach to the end of the file. Nothing if the record is
/// incomplete; an error if the bytes are no record.
Result<std::optional<LogRecord>> parse_record(std::span<const std::byte> bytes,
                                              const Limits& limits);

/// The request must have passed `check_request`.
std::vector<std::byte> encode_change(const Request& request);
std::vector<std::byte> encode_arrival();

}  // namespace tutti::store
