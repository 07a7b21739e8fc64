// Tensors and layouts in a line each, for tests of this floor and those above.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tensor/layout.h"

namespace xorbit {

inline TensorSpec Tensor(std::string name, Dtype dtype, std::vector<uint64_t> shape, uint32_t group = 0, bool frozen = false) {
  TensorSpec tensor;
  tensor.name = std::move(name);
  tensor.dtype = dtype;
  tensor.shape = std::move(shape);
  tensor.group = group;
  tensor.frozen = frozen;
  return tensor;
}

inline Layout MakeLayout(std::vector<TensorSpec> tensors, std::vector<std::string> groups = {"model"}) {
  auto layout = Layout::Make(std::move(tensors), std::move(groups));
  EXPECT_TRUE(layout.ok()) << layout.status().message();
  return std::move(layout).value();
}

}  // namespace xorbit
