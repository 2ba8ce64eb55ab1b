#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <tutti/backend/kinds.hpp>
#include <tutti/dtype.hpp>
#include <tutti/error.hpp>

#include "record/layout.hpp"

namespace tutti::record {

/// An operation of a record, checked.
struct Operation {
  std::uint64_t number = 0;  ///< of this rank's calls, from 0
  std::int64_t called = 0;   ///< ns since 1970, by the rank's host
  std::int64_t began = 0;    ///< 0: when it was called
  std::int64_t ended = 0;    ///< 0: it has not, or it is not known
  std::uint64_t seq = 0;
  std::uint64_t input_bytes = 0;
  std::uint64_t output_bytes = 0;
  int group = -1;  ///< in Record::groups
  Kind kind = Kind::barrier;
  DType dtype = DType::uint8;
  EntryState state = EntryState::none;
  int peer = 0;
  int tag = 0;         ///< of a send or recv
  int waits_for = -1;  ///< rank of the world that it was last seen to wait for

  [[nodiscard]] bool is_open() const noexcept {
    return state == EntryState::queued || state == EntryState::running;
  }
};

struct RecordedGroup {
  std::string name;
  int rank = 0;
  int size = 1;
  std::uint64_t id = 0;  ///< the same on all ranks; 0: no group
};

/// What a flight recorder holds.
struct Record {
  int rank = 0;  ///< kLauncher: a launcher that begins
  int size = 1;
  int pid = 0;
  bool starting = false;  ///< it has no world yet; then `waits_for` tells for what it waits
  std::string waits_for;
  std::string host;
  std::int64_t made = 0;      ///< ns since 1970
  std::int64_t read = 0;      ///< the last time it knows of
  std::uint64_t written = 0;  ///< operations so far
  std::vector<RecordedGroup> groups;
  std::vector<Operation> operations;  ///< the last ones, oldest first
};

/// Reads the memory of a recorder, or a file of it. Nothing in it is trusted. It may be written
/// meanwhile: what was overwritten is left out. Errc::store: no rank has taken it.
[[nodiscard]] Result<Record> read_record(std::span<const std::byte> bytes);

/// The bytes of a recorder's memory for a file, with the present time by both clocks in it. The
/// host must be the one that it was recorded on.
[[nodiscard]] std::vector<std::byte> copy_record(std::span<const std::byte> bytes);

}  // namespace tutti::record
