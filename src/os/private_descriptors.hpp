#pragma once

namespace tutti::os {

/// From now until it is closed by an `Fd`, children that this process forks get no copy of the
/// descriptor. It is for those by which others notice our death: sockets, listeners, a pipe's end.
///
/// The child closes its copy and puts /dev/null in its place: the number is not given to another
/// file, which an object that came from the parent would then use or close.
/// Children made by clone() or vfork() without the handlers of pthread_atfork keep theirs.
void keep_private(int fd) noexcept;

/// Closes the descriptor, which is not private from then on.
void close_descriptor(int fd) noexcept;

}  // namespace tutti::os
