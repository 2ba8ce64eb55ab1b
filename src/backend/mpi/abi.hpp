#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <tutti/dtype.hpp>

#include "backend/mpi/api.hpp"

// The constants of MPI's interface in C, as the libraries of each ABI have them. They are facts of
// the published headers; a test compares them with the mpi.h of what is installed.
namespace tutti::mpi {

/// The constants that differ between the ABIs, beside the type of handles.
struct AbiConstants {
  const char* name = "";
  std::intptr_t in_place = 0;
  std::intptr_t status_ignore = 0;
  int undefined = 0;
  int any_source = 0;
  int any_tag = 0;
  int tag_ub = 0;
  std::array<int, 4> threading{};  ///< of each Threading
  /// Where MPI_SOURCE stands in an MPI_Status. MPI_TAG is the next int.
  std::size_t status_source = 0;
};

/// Handles that every program has.
struct AbiHandles {
  std::uintptr_t world = 0;
  std::uintptr_t self = 0;
  std::uintptr_t none = 0;  ///< MPI_COMM_NULL
  std::uintptr_t errors_return = 0;
  std::uintptr_t byte = 0;
  std::array<std::uintptr_t, kBuiltinOpCount> ops{};
  std::array<std::uintptr_t, kDTypeCount> types{};  ///< 0: MPI has none
};

/// Larger than any MPI_Status.
inline constexpr std::size_t kStatusBytes = 64;

inline constexpr AbiConstants kOpenMpiAbi = {"Open MPI", 1, 0, -32766, -1, -1, 0, {0, 1, 2, 3}, 0};
inline constexpr AbiConstants kMpichAbi = {"MPICH",    -1,           1, -32766, -2, -1,
                                           0x64400001, {0, 1, 2, 3}, 8};
inline constexpr AbiConstants kStandardAbi = {
    "MPI standard ABI", 1, 0, -32766, -1, -2, 0x1f5, {0, 0x400, 0x800, 0x1000}, 0};

inline constexpr AbiHandles kMpichHandles = {
    0x44000000,
    0x44000001,
    0x04000000,
    0x54000001,
    0x4c00010d,
    {0x58000003, 0x58000004, 0x58000002, 0x58000001, 0x58000006, 0x58000008, 0x5800000a},
    {0, 0x4c00013b, 0x4c000137, 0x4c00023c, 0x4c000238, 0x4c00043d, 0x4c000439, 0x4c00083e,
     0x4c00083a, 0, 0, 0x4c00040a, 0x4c00080b, 0, 0, 0x4c000840, 0x4c001041}};

inline constexpr AbiHandles kStandardHandles = {0x101,
                                                0x102,
                                                0x100,
                                                0x143,
                                                0x247,
                                                {0x21, 0x24, 0x22, 0x23, 0x28, 0x29, 0x2a},
                                                {0, 0x241, 0x240, 0x249, 0x248, 0x251, 0x250, 0x259,
                                                 0x258, 0, 0, 0x210, 0x214, 0, 0, 0x212, 0x216}};

/// As Intel MPI 2021.18 has it.
inline constexpr std::uintptr_t kIntelStandardErrorsReturn = 0x142;

/// Open MPI's handles are addresses of these symbols.
struct OpenMpiSymbols {
  const char* world = "ompi_mpi_comm_world";
  const char* self = "ompi_mpi_comm_self";
  const char* none = "ompi_mpi_comm_null";
  const char* errors_return = "ompi_mpi_errors_return";
  const char* byte = "ompi_mpi_byte";
  std::array<const char*, kBuiltinOpCount> ops = {
      "ompi_mpi_op_sum",  "ompi_mpi_op_prod", "ompi_mpi_op_min", "ompi_mpi_op_max",
      "ompi_mpi_op_band", "ompi_mpi_op_bor",  "ompi_mpi_op_bxor"};
  std::array<const char*, kDTypeCount> types = {nullptr,
                                                "ompi_mpi_uint8_t",
                                                "ompi_mpi_int8_t",
                                                "ompi_mpi_uint16_t",
                                                "ompi_mpi_int16_t",
                                                "ompi_mpi_uint32_t",
                                                "ompi_mpi_int32_t",
                                                "ompi_mpi_uint64_t",
                                                "ompi_mpi_int64_t",
                                                nullptr,
                                                nullptr,
                                                "ompi_mpi_float",
                                                "ompi_mpi_double",
                                                nullptr,
                                                nullptr,
                                                "ompi_mpi_c_float_complex",
                                                "ompi_mpi_c_double_complex"};
};

}  // namespace tutti::mpi
