#pragma once

#include <tutti/error.hpp>
#include <tutti/work.hpp>

namespace tutti::base {

/// A callback that is to be called, without the lock of its group.
struct Due {
  Callback callback;
  Outcome outcome;
};

}  // namespace tutti::base
