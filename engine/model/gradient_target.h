// Where a backward pass puts its parameter gradients: a flat f32 array in the layout of ParameterLayout.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>

#include "engine/core/tensor.h"

namespace longhaul {

struct GradientTarget {
  std::span<float> flat;
  // true: the array holds nothing yet and is overwritten (saves zeroing and re-reading it); false: adds to it.
  bool overwrite = false;
  // Where micro-batches meet in an expert: the gradient that one of them gives its experts' parameters (the second part
  // of the flat order) goes this far behind that of the one before. 0: they are added up.
  std::int64_t expert_stride = 0;
  // Called when elements [begin, end) have their final value of this pass, from the last parameters to the first: a
  // reduction over ranks may start while the backward goes on. Empty: nobody asks.
  std::function<void(std::int64_t begin, std::int64_t end)> ready;

  View matrix(std::int64_t begin, std::int64_t rows, std::int64_t columns) const {
    return View(flat.data() + begin, Shape{rows, columns});
  }
  std::span<float> vector(std::int64_t begin, std::int64_t elements) const {
    return flat.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(elements));
  }
  void clear(std::int64_t begin, std::int64_t end) const { std::fill(flat.begin() + begin, flat.begin() + end, 0.0F); }
  void say_ready(std::int64_t begin, std::int64_t end) const {
    if (ready) ready(begin, end);
  }
};

}  // namespace longhaul
