#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <utility>

#include <tutti/error.hpp>

#include "os/fd.hpp"

namespace tutti::os {

/// A mapping that is undone at the end.
class Mapping {
 public:
  Mapping() noexcept = default;
  Mapping(std::byte* data, std::size_t size) noexcept : data_(data), size_(size) {}
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();

  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] bool valid() const noexcept { return data_ != nullptr; }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

/// Anonymous shared memory of `size` bytes (sparse: only touched pages cost), sealed against
/// shrinking and growing, so that a process that maps it can rely on its size.
[[nodiscard]] Result<Fd> make_memfd(const char* name, std::size_t size);
/// From now on no other user can reopen it, whatever descriptor of it that user gets; this user can
/// after a chmod.
[[nodiscard]] Outcome forbid_reopening(const Fd& memfd);
/// Checks the seals and the size of a descriptor that somebody gave us.
[[nodiscard]] Outcome check_memfd(const Fd& memfd, std::size_t size);
/// Maps the whole of it. Not inherited by children, not in core files.
[[nodiscard]] Result<Mapping> map_shared(const Fd& memfd, std::size_t size, bool writable);

/// Shared memory of a fixed size at consecutive addresses, mapped for reading as a whole, or in
/// parts: for a process whose address space is limited (ulimit -v), which counts what is mapped.
class PartialMapping {
 public:
  PartialMapping() noexcept = default;
  /// Maps all of it if `whole`, else only the first page.
  [[nodiscard]] static Result<PartialMapping> map(Fd memfd, std::size_t size, bool whole);
  PartialMapping(PartialMapping&& other) noexcept { *this = std::move(other); }
  PartialMapping& operator=(PartialMapping&& other) noexcept;
  ~PartialMapping();

  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] bool whole() const noexcept { return whole_; }
  /// Maps the range, where it is not mapped yet. resource: the process may not map so much.
  [[nodiscard]] Outcome add(std::size_t begin, std::size_t bytes);
  /// As `add`, and lets this process write there.
  [[nodiscard]] Outcome add_writable(std::size_t begin, std::size_t bytes);

 private:
  Fd memfd_;  ///< of a mapping that is not whole
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  bool whole_ = false;
  std::map<std::size_t, std::size_t> parts_;  ///< begin and end of what is mapped, apart
};
/// True if the address space of this process is limited (ulimit -v).
[[nodiscard]] bool address_space_is_limited() noexcept;

/// The whole pages of `page` bytes in which the range lies.
[[nodiscard]] std::span<std::byte> pages_of(std::byte* data, std::size_t size,
                                            std::size_t page) noexcept;
/// Takes the pages of a range now, so that a touch never ends in SIGBUS. resource where memory
/// lacks.
[[nodiscard]] Outcome populate(std::byte* data, std::size_t size);
/// Gives whole pages of shared memory back to the system; they are zero when they are used again.
/// False: the system does not take them, since they are locked, or in a sandbox.
[[nodiscard]] bool discard(std::byte* data, std::size_t size) noexcept;
/// Children that are forked from now on have these pages, too, and share them.
void share_with_children(std::byte* data, std::size_t size) noexcept;

}  // namespace tutti::os
