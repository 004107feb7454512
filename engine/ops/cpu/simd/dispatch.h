// From a view's runtime type to a template.
#pragma once

#include <string>

#include "engine/core/tensor/tensor.h"

namespace longhaul::cpu {

// fn(T{}) with T = float or bf16; other types are a caller's bug.
template <class F>
void with_float_type(DType dtype, const char* operation, const F& fn) {
  if (dtype == DType::f32) return fn(float{});
  LH_ASSERT(dtype == DType::bf16, std::string(operation) + ": f32 or bf16, not " + dtype_name(dtype));
  fn(bf16{});
}

// The view's elements, of which there must be `size` (or more) of type T. An empty view is allowed where `size` is 0
// only.
template <class T>
const T* elements(const ConstView& view, std::int64_t size, const char* name) {
  LH_ASSERT(view.size() >= size,
            std::string(name) + " " + view.shape().text() + " is smaller than " + std::to_string(size));
  return size == 0 ? nullptr : view.as<T>();
}
template <class T>
T* elements(const View& view, std::int64_t size, const char* name) {
  LH_ASSERT(view.size() >= size,
            std::string(name) + " " + view.shape().text() + " is smaller than " + std::to_string(size));
  return size == 0 ? nullptr : view.as<T>();
}

inline void check_size(std::size_t have, std::int64_t want, const char* name) {
  LH_ASSERT(have >= static_cast<std::size_t>(want),
            std::string(name) + ": " + std::to_string(have) + " elements, " + std::to_string(want) + " needed");
}

}  // namespace longhaul::cpu
