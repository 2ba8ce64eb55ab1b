#pragma once

#include <dlfcn.h>

#include <string>

#include <tutti/error.hpp>

namespace tutti::cuda {

/// Looks functions of an open library up, and keeps the name of the first that is missing.
class FunctionFinder {
 public:
  explicit FunctionFinder(void* library) : library_(library) {}
  template <class Function>
  void find(Function& function, const char* name) {
    function = reinterpret_cast<Function>(::dlsym(library_, name));
    if (function == nullptr && lacks_ == nullptr) lacks_ = name;
  }
  [[nodiscard]] Outcome found(const char* needed) const {
    if (lacks_ == nullptr) return {};
    return Outcome(Errc::unsupported, std::string("it has no ") + lacks_ + "; " + needed);
  }

 private:
  void* library_;
  const char* lacks_ = nullptr;
};

}  // namespace tutti::cuda
