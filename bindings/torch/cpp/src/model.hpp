#pragma once

#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include <tutti/torch/data_parallel_core.hpp>

namespace tutti::torch {

/// The tensors of a module, each once, though several names may mean it.
struct Model {
  std::vector<std::string> names;  ///< of the parameters
  std::vector<at::Tensor> parameters;
  std::vector<at::Tensor> buffers;
  std::string description;  ///< a line for each tensor: its name, dtype and shape
};

[[nodiscard]] Model model_of(const ::torch::nn::Module& module);

/// The options as a line.
[[nodiscard]] std::string describe(const DataParallelOptions& options);

/// Compares this rank's text with those of the others. c10::ValueError on all ranks if one differs
/// from rank 0's: it names the first such rank, and the first line that differs.
void check_alike(ProcessGroup& group, const std::string& text);

}  // namespace tutti::torch
