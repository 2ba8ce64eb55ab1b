#include <tutti/tensor.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cstdint>

namespace tutti {
namespace {

// Their sign differs between processors; ranks on both must agree.
static_assert(dtype_of<char>() == DType::int8 && dtype_of<const char>() == DType::int8);
static_assert(dtype_of<wchar_t>() == DType::int32);
static_assert(dtype_of<unsigned char>() == DType::uint8 && dtype_of<char8_t>() == DType::uint8);

TEST(TensorView, IsOnTheCpuUnlessSaid) {
  std::array<float, 6> memory{};
  EXPECT_EQ(TensorView().device(), Device());
  EXPECT_EQ(TensorView(memory).device(), Device());
  const Device gpu{DeviceType::cuda, 3};
  const std::array<std::int64_t, 2> shape{2, 3};
  const std::array<std::int64_t, 2> strides{3, 1};
  const TensorView view(memory.data(), DType::float32, shape, strides, gpu);
  EXPECT_EQ(view.device(), gpu);
  const TensorView copy = view;
  EXPECT_EQ(copy.device(), gpu);
  EXPECT_EQ(copy.dtype(), DType::float32);
  EXPECT_EQ(copy.count(), 6U);
  EXPECT_EQ(copy.dims(), 2);
  EXPECT_EQ(copy.shape()[0], 2);
  EXPECT_TRUE(copy.contiguous());
}

TEST(TensorView, IsAlikeAnotherOfItsDtypeAndDevice) {
  const auto view = [](DType dtype, Device device) {
    return TensorView(nullptr, dtype, 4, device);
  };
  const TensorView one = view(DType::int64, {DeviceType::cuda, 1});
  EXPECT_TRUE(one.alike(TensorView(nullptr, DType::int64, 9, {DeviceType::cuda, 1})));
  EXPECT_FALSE(one.alike(view(DType::uint64, {DeviceType::cuda, 1})));
  EXPECT_FALSE(one.alike(view(DType::int64, {DeviceType::cuda, 0})));
  EXPECT_FALSE(one.alike(view(DType::int64, {DeviceType::cpu, 1})));
}

TEST(Device, HasTheNameThatPeopleKnow) {
  EXPECT_EQ(to_string(Device()), "cpu");
  EXPECT_EQ(to_string(Device{DeviceType::cuda, 12}), "cuda:12");
}

}  // namespace
}  // namespace tutti
