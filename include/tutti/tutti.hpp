#pragma once

/// All that a program needs. Backends and bindings also include <tutti/backend/...>.

#include <tutti/arguments.hpp>
#include <tutti/blocks.hpp>
#include <tutti/cart.hpp>
#include <tutti/config.hpp>
#include <tutti/device.hpp>
#include <tutti/dtype.hpp>
#include <tutti/error.hpp>
#include <tutti/executor.hpp>
#include <tutti/init.hpp>
#include <tutti/launch.hpp>
#include <tutti/log.hpp>
#include <tutti/message.hpp>
#include <tutti/objects.hpp>
#include <tutti/owning_work.hpp>
#include <tutti/process_group.hpp>
#include <tutti/promises.hpp>
#include <tutti/shared_array.hpp>
#include <tutti/store.hpp>
#include <tutti/stream.hpp>
#include <tutti/tensor.hpp>
#include <tutti/work.hpp>
