// Where a backward pass puts its parameter gradients: a flat f32 array in the layout of ParameterLayout.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "engine/ops/pointwise/elementwise.h"

namespace longhaul {

struct GradientTarget {
  std::span<float> flat;
  // true: the array holds nothing yet and is overwritten (saves zeroing and re-reading it); false: adds to it.
  bool overwrite = false;
  // Called when elements [begin, end), whole parameters, have their final value of this pass, roughly from the last to
  // the first: a reduction over ranks may start while the backward goes on. Every parameter once. Empty: nobody asks.
  std::function<void(std::int64_t begin, std::int64_t end)> ready;

  // Where there is no whole array: the memory of the element at `begin` and of those after it in the same ShardUnit.
  std::function<float*(std::int64_t begin)> locate;

  // Where several micro-batches meet in an expert, the one numbered `batch` of them: the memory of its gradient of the
  // expert parameter at `begin` and of those after it in the same ShardUnit. Empty: they are added up.
  std::function<float*(std::int64_t begin, int batch)> locate_batch;
  // With it: called when that batch's gradient of elements [begin, end) is there, one batch after the other; `ready`
  // comes after the last. The next batch may be written to the same memory. Empty: nobody asks.
  std::function<void(std::int64_t begin, std::int64_t end, int batch)> batch_ready;

  // Does anybody want the gradient of a parameter that begins in [begin, end)? Where nobody does, matrices, tables, the
  // output and experts write nothing; smaller parameters write what is not read. Empty: all are wanted.
  std::function<bool(std::int64_t begin, std::int64_t end)> wanted;
  bool wants(std::int64_t begin, std::int64_t end) const { return !wanted || wanted(begin, end); }
  bool wants(std::int64_t begin) const { return wants(begin, begin + 1); }

  View matrix(std::int64_t begin, std::int64_t rows, std::int64_t columns) const {
    return View(at(begin), Shape{rows, columns});
  }
  std::span<float> vector(std::int64_t begin, std::int64_t elements) const {
    return {at(begin), static_cast<std::size_t>(elements)};
  }
  // Of a linear layer; begin < 0: it has none, and what comes back is empty.
  View bias(std::int64_t begin, std::int64_t elements) const {
    return begin < 0 ? View() : View(at(begin), Shape{elements});
  }
  void clear(const ComputeContext& context, std::int64_t begin, std::int64_t end) const {
    if (wants(begin, end)) fill(context, View(at(begin), Shape{end - begin}), 0.0F);
  }
  float* at(std::int64_t begin) const { return locate ? locate(begin) : flat.data() + begin; }
  void say_ready(std::int64_t begin, std::int64_t end) const {
    if (ready) ready(begin, end);
  }
  void say_batch_ready(std::int64_t begin, std::int64_t end, int batch) const {
    if (batch_ready) batch_ready(begin, end, batch);
  }
};

}  // namespace longhaul
