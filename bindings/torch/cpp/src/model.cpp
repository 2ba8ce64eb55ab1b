#include "model.hpp"

#include <array>
#include <cstdint>
#include <sstream>
#include <string_view>
#include <unordered_set>

#include <torch/nn/module.h>

#include "failures.hpp"

namespace tutti::torch {
namespace {

void describe(std::ostream& out, const char* what, const std::string& name,
              const at::Tensor& tensor) {
  out << what << " '" << name << "' " << tensor.scalar_type() << ' ' << tensor.sizes();
  if (!tensor.is_contiguous()) out << " with strides " << tensor.strides();
  if (*what == 'p' && !tensor.requires_grad()) out << " (no gradient)";
  out << '\n';
}

/// FNV-1a, 64 bits.
std::uint64_t hash_of(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char letter : text) {
    hash ^= static_cast<unsigned char>(letter);
    hash *= 0x100000001b3;
  }
  return hash;
}

std::string text_of(tutti::ProcessGroup& group, int rank, std::string text, std::uint64_t length) {
  text.resize(length);
  group.broadcast(text, {.root = rank}).wait();
  return text;
}

/// The first lines that differ.
std::array<std::string, 2> first_difference(const std::string& one, const std::string& other) {
  std::istringstream ones(one);
  std::istringstream others(other);
  std::array<std::string, 2> lines;
  do {
    for (std::string& line : lines) line = "nothing more";
    std::getline(ones, lines[0]);
    std::getline(others, lines[1]);
  } while (lines[0] == lines[1] && ones && others);
  for (std::string& line : lines)
    if (line.empty()) line = "nothing more";
  return lines;
}

}  // namespace

Model model_of(const ::torch::nn::Module& module) {
  Model model;
  std::ostringstream out;
  std::unordered_set<const c10::TensorImpl*> seen;
  for (const auto& item : module.named_parameters()) {
    if (!seen.insert(item.value().unsafeGetTensorImpl()).second) continue;
    model.names.push_back(item.key());
    model.parameters.push_back(item.value());
    describe(out, "parameter", item.key(), item.value());
  }
  for (const auto& item : module.named_buffers()) {
    if (!item.value().defined() || !seen.insert(item.value().unsafeGetTensorImpl()).second)
      continue;
    model.buffers.push_back(item.value());
    describe(out, "buffer", item.key(), item.value());
  }
  model.description = out.str();
  return model;
}

std::string describe(const DataParallelOptions& options) {
  std::ostringstream out;
  out << "options: first_bucket_bytes " << options.first_bucket_bytes << ", bucket_bytes "
      << options.bucket_bytes << ", broadcast_buffers " << options.broadcast_buffers
      << ", find_unused_parameters " << options.find_unused_parameters << ", static_graph "
      << options.static_graph << '\n';
  return out.str();
}

void check_alike(ProcessGroup& group, const std::string& text) {
  tutti::ProcessGroup& ranks = group.group();
  const auto size = static_cast<std::size_t>(group.size());
  const std::array<std::uint64_t, 2> mine{text.size(), hash_of(text)};
  std::vector<std::uint64_t> all(2 * size);
  torch_plugin::with_torchs_exceptions([&] { ranks.all_gather(all, mine).wait(); });
  std::size_t other = 1;
  while (other < size && all[2 * other] == all[0] && all[2 * other + 1] == all[1]) ++other;
  if (other >= size) return;
  std::array<std::string, 2> lines;
  torch_plugin::with_torchs_exceptions([&] {
    const std::string first = text_of(ranks, 0, text, all[0]);
    const std::string second = text_of(ranks, static_cast<int>(other), text, all[2 * other]);
    lines = first_difference(first, second);
  });
  TORCH_CHECK_VALUE(false, "tutti: DistributedDataParallel: the model of rank ", other,
                    " differs from that of rank 0: there is ", lines[1], " on rank ", other,
                    ", and ", lines[0], " on rank 0");
}

}  // namespace tutti::torch
