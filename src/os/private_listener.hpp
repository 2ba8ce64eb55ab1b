#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <utility>

#include <tutti/error.hpp>

#include "os/fd.hpp"

namespace tutti::os {

/// A listening unix socket whose file lies in a folder that only this user can enter
/// (/dev/shm/tutti-ranks-UID, else in /tmp): other users cannot connect. The file is removed with
/// this object, and the folder with its last file.
class PrivateListener {
 public:
  PrivateListener() noexcept = default;
  /// `name`: of the file. `secret_end`: where other users have made folders of these names first,
  /// one whose name ends so is taken. Fails where no such folder can be had.
  [[nodiscard]] static Result<PrivateListener> open(std::string_view name,
                                                    std::string_view secret_end = {});
  PrivateListener(PrivateListener&& other) noexcept { *this = std::move(other); }
  PrivateListener& operator=(PrivateListener&& other) noexcept;
  ~PrivateListener() { close(); }

  [[nodiscard]] bool valid() const noexcept { return fd_.valid(); }
  [[nodiscard]] int get() const noexcept { return fd_.get(); }
  /// Device and inode of the folder: processes of one host with the same value see the same files.
  [[nodiscard]] const std::string& folder_id() const noexcept { return folder_id_; }
  /// The path of the socket of that name in the same folder.
  [[nodiscard]] std::string path_of(std::string_view name) const;
  /// Removes what processes that were killed have left in the folder; also after `close`.
  void sweep() const noexcept;
  void close() noexcept;

 private:
  Fd fd_;
  std::string folder_;
  std::string folder_id_;
  std::string path_;
  pid_t maker_ = 0;  ///< a forked child must not remove the file
};

}  // namespace tutti::os
