#pragma once

#include <utility>

#include "buffer.hpp"
#include "group.hpp"

namespace tutti::python {

/// What an operation that Python has dropped still needs: its memory, and its group, because a
/// group that ends calls nobody back.
///
/// The progress thread, which never takes the GIL, puts it into a queue when the operation is done;
/// whoever calls into the module next with the GIL drops it (decision D5).
class Kept {
 public:
  /// Hands over to `work`'s end: afterwards `work` is detached. Needs the GIL.
  static void until_done(Work& work, Buffer buffer, Group group);
  /// Drops what has become free. Needs the GIL.
  static void release_done();

 private:
  Kept(Buffer buffer, Group group) : buffer_(std::move(buffer)), group_(std::move(group)) {}
  static void done(void* context, const Status& status) noexcept;

  Buffer buffer_;
  Group group_;
  Kept* next_ = nullptr;
};

}  // namespace tutti::python
