#include "reduced_values.hpp"

namespace tutti::test {

ElementRules element_rules(DType dtype) {
  namespace reference = kernels::testing;
  switch (dtype) {
    case DType::bool_: return element_rules<bool>();
    case DType::uint8: return element_rules<std::uint8_t>();
    case DType::int8: return element_rules<std::int8_t>();
    case DType::uint16: return element_rules<std::uint16_t>();
    case DType::int16: return element_rules<std::int16_t>();
    case DType::uint32: return element_rules<std::uint32_t>();
    case DType::int32: return element_rules<std::int32_t>();
    case DType::uint64: return element_rules<std::uint64_t>();
    case DType::int64: return element_rules<std::int64_t>();
    case DType::float32: return element_rules<float>();
    case DType::float64: return element_rules<double>();
    case DType::float16: return element_rules<reference::Half>();
    case DType::bfloat16: return element_rules<reference::Brain>();
    case DType::float8_e4m3: return element_rules<reference::E4M3>();
    case DType::float8_e5m2: return element_rules<reference::E5M2>();
    case DType::complex64: return element_rules<std::complex<float>>();
    case DType::complex128: break;
  }
  return element_rules<std::complex<double>>();
}

}  // namespace tutti::test
