#include "engine/comm/tree_sum.h"

#include <algorithm>
#include <string>

#include "base/error/result.h"

namespace longhaul {
namespace {

struct Plus {
  static float apply(float a, float b) { return a + b; }
};
struct Max {
  static float apply(float a, float b) { return a > b ? a : b; }
};

template <class Op>
void combine(const float* a, const float* b, float* out, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) out[i] = Op::apply(a[i], b[i]);
}

constexpr std::size_t kPiece = 2048;  // floats of a term at a time: the partial sums stay in the cache

// The tree over terms [begin, begin + count) at elements [at, at + n), into `out`; `scratch` has kPiece floats per
// level.
template <class Op>
void reduce(std::span<const float* const> terms, std::size_t begin, std::size_t count, std::size_t at, std::size_t n,
            float* out, float* scratch) {
  if (count == 1) {
    std::copy_n(terms[begin] + at, n, out);
    return;
  }
  std::size_t left = 1;  // the largest power of two below count
  while (left * 2 < count) left *= 2;
  reduce<Op>(terms, begin, left, at, n, out, scratch);
  reduce<Op>(terms, begin + left, count - left, at, n, scratch, scratch + kPiece);
  combine<Op>(out, scratch, out, n);
}

template <class Op>
void reduce_all(std::span<const float* const> terms, std::span<float> out) {
  LH_ASSERT(!terms.empty(), "a reduction of nothing");
  std::vector<float> scratch(kPiece * 66);
  float* total = scratch.data() + kPiece * 65;
  for (std::size_t at = 0; at < out.size(); at += kPiece) {
    const std::size_t n = std::min(kPiece, out.size() - at);
    reduce<Op>(terms, 0, terms.size(), at, n, total, scratch.data());
    std::copy_n(total, n, out.data() + at);
  }
}

}  // namespace

void tree_sum(std::span<const float* const> terms, std::span<float> out) {
  reduce_all<Plus>(terms, out);
}
void tree_max(std::span<const float* const> terms, std::span<float> out) {
  reduce_all<Max>(terms, out);
}

void TreeAccumulator::add(std::span<const float> term) {
  LH_ASSERT(term.size() == size_, std::to_string(term.size()) + " elements, " + std::to_string(size_) + " expected");
  std::vector<float> carry;
  if (!spare_.empty()) {
    carry = std::move(spare_.back());
    spare_.pop_back();
  }
  carry.assign(term.begin(), term.end());
  ++terms_;
  for (std::size_t level = 0;; ++level) {
    if (level == levels_.size()) levels_.emplace_back();
    std::vector<float>& held = levels_[level];
    if (held.empty() && size_ > 0) {
      held = std::move(carry);
      return;
    }
    if (size_ == 0) return;
    combine<Plus>(held.data(), carry.data(), carry.data(), size_);  // the earlier block is the left one
    spare_.push_back(std::move(held));
    held = {};
  }
}

void TreeAccumulator::finish(std::span<float> out) {
  LH_ASSERT(out.size() == size_, std::to_string(out.size()) + " elements, " + std::to_string(size_) + " expected");
  bool first = true;
  for (std::vector<float>& held : levels_) {  // the smallest blocks are the last terms
    if (held.empty()) continue;
    if (first) {
      std::copy(held.begin(), held.end(), out.begin());
    } else {
      combine<Plus>(held.data(), out.data(), out.data(), size_);
    }
    first = false;
    spare_.push_back(std::move(held));
    held = {};
  }
  if (first) std::fill(out.begin(), out.end(), 0.0F);
  terms_ = 0;
}

}  // namespace longhaul
