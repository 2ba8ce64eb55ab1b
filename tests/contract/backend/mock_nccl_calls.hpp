#pragma once

#include "mock_gpu_calls.hpp"
#include "mock_nccl_ranks.hpp"
