#include <tutti/arguments.hpp>
#include <tutti/backend/collective.hpp>
#include <tutti/error.hpp>

#include <array>
#include <limits>

#include <tutti/backend/kinds.hpp>
#include "base/call_purpose.hpp"
#include "base/element_unit.hpp"
#include "base/format.hpp"

namespace tutti {
inline namespace v0 {

std::string_view to_string(Errc code) noexcept {
  constexpr std::array<std::string_view, 15> kNames = {
      "ok",        "invalid_argument", "disagreement", "timeout",     "peer_lost",
      "peer_left", "refused",          "store",        "interrupted", "aborted",
      "resource",  "unsupported",      "internal",     "excluded",    "no_quorum"};
  const auto index = static_cast<std::size_t>(code);
  return index < kNames.size() ? kNames[index] : "unknown";
}

void raise(const Outcome& status) {
  if (const std::exception_ptr thrown = status.thrown()) std::rethrow_exception(thrown);
  switch (status.code()) {
    case Errc::invalid_argument: throw InvalidArgument(status);
    case Errc::disagreement: throw DisagreementError(status);
    case Errc::timeout: throw TimeoutError(status);
    case Errc::peer_lost:
    case Errc::peer_left:
    case Errc::excluded:
    case Errc::no_quorum:
    case Errc::refused: throw NetworkError(status);
    case Errc::store: throw StoreError(status);
    default: throw BackendError(status);
  }
}

std::string_view to_string(DType dtype) noexcept {
  constexpr std::string_view kNames[kDTypeCount] = {
      "bool",    "uint8",       "int8",        "uint16",    "int16",     "uint32",
      "int32",   "uint64",      "int64",       "float16",   "bfloat16",  "float32",
      "float64", "float8_e4m3", "float8_e5m2", "complex64", "complex128"};
  const auto index = static_cast<std::size_t>(dtype);
  return index < kDTypeCount ? kNames[index] : "invalid dtype";
}

std::string to_string(Device device) {
  switch (device.type) {
    case DeviceType::cpu: return "cpu";
    case DeviceType::cuda: return base::format("cuda:{}", device.index);
  }
  return "invalid device";
}

std::string_view to_string(ReduceOp op) noexcept {
  constexpr std::array<std::string_view, kReduceOpCount> kNames = {
      "SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR", "PREMUL_SUM"};
  const auto index = static_cast<std::size_t>(op);
  return index < kNames.size() ? kNames[index] : "invalid op";
}

std::string_view to_string(Kind kind) noexcept {
  return static_cast<int>(kind) < kKindCount ? traits_of(kind).name : "invalid kind";
}

std::string describe(const Collective& call) {
  const KindTraits& traits = traits_of(call.kind);
  if (traits.layout == Layout::pair && call.tag == kLibraryTag) return "monitored_barrier()";
  if (base::has_purpose(call.kind, call.digest))
    return base::purpose_text(call.kind, call.root, call.digest);
  std::string text(traits.name);
  text += '(';
  if (traits.reduces) text += base::format("{}, ", to_string(call.op));
  if (traits.rooted) text += base::format("root {}, ", call.root);
  if (traits.layout == Layout::pair) {
    text += call.kind == Kind::send ? "to " : "from ";
    text += call.root == any_source ? "anybody" : fmt::to_string(call.root);
    text += call.tag == any_tag ? ", any tag, " : base::format(", tag {}, ", call.tag);
  }
  if (call.kind == Kind::probe) return text.substr(0, text.size() - 2) + ')';
  if (traits.layout == Layout::none) return text + ')';
  const bool from_output = call.kind == Kind::recv || call.input.count() == 0;
  const TensorView& view = from_output ? call.output : call.input;
  text += base::elements_text(view);
  if (call.details != nullptr && !call.details->input_pieces.empty()) text += " in several tensors";
  return text + ')';
}

ConstTensorView::ConstTensorView(const void* data, DType dtype, std::span<const std::int64_t> shape,
                                 std::span<const std::int64_t> strides, Device device)
    : ConstTensorView(data, dtype, 1, device) {
  const auto refuse = [](std::string text) {
    raise(Outcome(Errc::invalid_argument, "TensorView: " + std::move(text)));
  };
  if (shape.size() != strides.size()) {
    refuse(base::format("shape has {} dimensions, strides have {}", shape.size(), strides.size()));
  }
  if (shape.size() > static_cast<std::size_t>(kMaxDims)) {
    refuse(base::format("{} dimensions; at most {}", shape.size(), kMaxDims));
  }
  traits_.dims = static_cast<std::int8_t>(shape.size());
  std::int64_t expected = 1;
  bool row_major = true;
  for (std::size_t d = shape.size(); d-- > 0;) {
    if (shape[d] < 0) refuse(base::format("size {} in dimension {}", shape[d], d));
    if (shape[d] > 1 && strides[d] != expected) row_major = false;
    if (__builtin_mul_overflow(expected, shape[d], &expected)) refuse("too many elements");
    shape_[d] = shape[d];
    strides_[d] = strides[d];
  }
  count_ = static_cast<std::size_t>(expected);
  if (count_ >
      static_cast<std::size_t>(std::numeric_limits<std::int64_t>::max()) / size_of(dtype)) {
    refuse("too many bytes");
  }
  traits_.contiguous = row_major || count_ <= 1;
}

}  // namespace v0
}  // namespace tutti
