#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>

#include <tutti/arguments.hpp>
#include <tutti/dtype.hpp>

#include "cuda/calls.hpp"
#include "cuda/kernels/elements.hpp"
#include "cuda/kernels/kernels.hpp"

namespace tutti::cuda {

/// The factors that elements are multiplied by.
struct Factors {
  Address first = 0;          ///< on the GPU; 0: the one at `one`
  const void* one = nullptr;  ///< on the host
  std::int64_t step = 0;      ///< elements from one to the next; 0: it is one for all
};

/// The kernels of reductions, loaded on one GPU.
///
/// Threads: one at a time. All needs `Current`.
class Reducer {
 public:
  Reducer() = default;
  Reducer(const Reducer&) = delete;
  Reducer& operator=(const Reducer&) = delete;

  /// Loads them once. False: `calls` says why not.
  bool load(Calls& calls, CudaApi& cuda, std::span<const std::byte> image);
  /// Combines `count` elements of all sources, in the order of the stream. `k` and `divisor` as of
  /// a SUM and an AVG (src/kernels/reduce.hpp). All addresses are multiples of 16; `to` may be one
  /// of the sources.
  bool run(Calls& calls, ReduceOp op, DType dtype, Address to, std::span<const Address> sources,
           std::size_t count, std::int64_t divisor, Stream stream);
  /// Multiplies `count` elements, in the order of the stream, as find_scale does it there. Any
  /// addresses will do, but `to` is one of whole elements; it may be `from`. Not of bool.
  bool scale(Calls& calls, DType dtype, Address to, Address from, const Factors& factors,
             std::size_t count, Stream stream);
  void unload() noexcept;

 private:
  bool launch(Calls& calls, const kernels::Kernel& kernel, kernels::ReduceArguments& all,
              std::size_t bytes, Stream stream);

  CudaApi* cuda_ = nullptr;  ///< null: they are not loaded
  Module module_{};
  std::map<std::string, Function> functions_;
};

}  // namespace tutti::cuda
