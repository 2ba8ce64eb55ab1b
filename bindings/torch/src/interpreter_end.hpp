#pragma once

namespace tutti::torch_plugin {

/// Held by a thread of the library while it completes futures and lets go of tensors, which may
/// need the GIL. Before Python 3.14 a thread that asks for the GIL of an interpreter that ends is
/// itself ended, inside of destructors of torch's that cannot throw, and the process with it.
class InterpreterUse {
 public:
  InterpreterUse() noexcept;
  ~InterpreterUse();
  InterpreterUse(const InterpreterUse&) = delete;
  InterpreterUse& operator=(const InterpreterUse&) = delete;

  /// False once the interpreter ends: then nothing of Python's may be touched, nor dropped.
  [[nodiscard]] explicit operator bool() const noexcept { return allowed_; }

  /// At exit, with the GIL: none is allowed from now on. Waits for those that are, 5 s at most.
  static void end() noexcept;
  /// True after `end`.
  [[nodiscard]] static bool ended() noexcept;

 private:
  bool allowed_;
};

}  // namespace tutti::torch_plugin
