// What an adapter makes of the model's weights: peft_adapter.h has the formulas.
#include <algorithm>
#include <cmath>

#include "base/text/text.h"
#include "engine/interop/peft_adapter.h"

namespace longhaul {

// Some rows of a matrix [.., in], of which the first is row `first` of the whole; elements of a vector are rows of one.
struct MergedRows {
  std::span<float> values;
  std::int64_t in = 1, first = 0;
  std::int64_t count() const { return static_cast<std::int64_t>(values.size()) / in; }
  std::span<float> row(std::int64_t i) const {
    return values.subspan(static_cast<std::size_t>(i * in), static_cast<std::size_t>(in));
  }
};

namespace {

using FloatValues = std::vector<float>;

Result<FloatValues> floats_of(const SafetensorView& tensor) {
  FloatValues values(static_cast<std::size_t>(tensor.elements()));
  LH_CHECK(convert_to_f32(tensor, values));
  return values;
}

double element(const FloatValues& matrix, std::int64_t row, std::int64_t columns, std::int64_t column) {
  return static_cast<double>(matrix[static_cast<std::size_t>(row * columns + column)]);
}

// W + scale B A
void add_product(const MergedRows& rows, const FloatValues& b, const FloatValues& a, std::int64_t rank, double scale) {
  for (std::int64_t i = 0; i < rows.count(); ++i)
    for (std::int64_t k = 0; k < rank; ++k) {
      const auto factor = static_cast<float>(scale * element(b, rows.first + i, rank, k));
      const float* from = a.data() + k * rows.in;
      for (float& x : rows.row(i)) x += factor * *from++;
    }
}

// W + scale (B A)^T, A [rank, vocabulary]
void add_to_table(const MergedRows& rows, const FloatValues& b, const FloatValues& a, std::int64_t rank, double scale) {
  const std::int64_t vocabulary = static_cast<std::int64_t>(a.size()) / rank;
  for (std::int64_t i = 0; i < rows.count(); ++i)
    for (std::int64_t j = 0; j < rows.in; ++j) {
      double sum = 0;
      for (std::int64_t k = 0; k < rank; ++k) sum += element(a, k, vocabulary, rows.first + i) * element(b, j, rank, k);
      rows.row(i)[static_cast<std::size_t>(j)] += static_cast<float>(scale * sum);
    }
}

// Rows of these lengths.
void set_lengths(const MergedRows& rows, const FloatValues& lengths) {
  for (std::int64_t i = 0; i < rows.count(); ++i) {
    double squares = 0;
    for (const float x : rows.row(i)) squares += static_cast<double>(x) * static_cast<double>(x);
    const double factor = element(lengths, rows.first + i, 1, 0) / std::sqrt(squares);
    for (float& x : rows.row(i)) x = static_cast<float>(static_cast<double>(x) * factor);
  }
}

void multiply_by(const MergedRows& rows, const FloatValues& scale, bool by_rows) {
  for (std::int64_t i = 0; i < rows.count(); ++i)
    for (std::int64_t j = 0; j < rows.in; ++j)
      rows.row(i)[static_cast<std::size_t>(j)] *= scale[static_cast<std::size_t>(by_rows ? rows.first + i : j)];
}

// Is it one number for each row, not for each column?
bool is_of_rows(const SafetensorView& scale, const PeftTarget& target) {
  return scale.shape[0] == target.shape[0] && scale.shape[1] == 1;
}

MergedRows rows_of(const PeftTarget& target, std::int64_t first, std::span<float> values) {
  return {values, target.shape.size() == 2 ? target.shape[1] : 1, first};
}

}  // namespace

// A pattern is a module's name, or the last parts of it.
double PeftAdapter::scale_of(const std::string& name, std::int64_t rank) const {
  const std::string module = name.substr(0, name.rfind('.'));
  const auto found = std::ranges::find_if(
      alphas_, [&](const auto& one) { return module == one.first || ends_with(module, "." + one.first); });
  const double alpha = found == alphas_.end() ? alpha_ : found->second;
  return alpha / (rslora_ ? std::sqrt(static_cast<double>(rank)) : static_cast<double>(rank));
}

Status PeftAdapter::add_thin(const std::string& name, const Change& change, const MergedRows& rows,
                             double factor) const {
  if (change.a) {
    LH_TRY(const FloatValues a, floats_of(*change.a));
    LH_TRY(const FloatValues b, floats_of(*change.b));
    const std::int64_t rank = change.a->shape[0];
    add_product(rows, b, a, rank, factor * scale_of(name, rank));
  }
  if (change.embedding_a) {
    LH_TRY(const FloatValues a, floats_of(*change.embedding_a));
    LH_TRY(const FloatValues b, floats_of(*change.embedding_b));
    const std::int64_t rank = change.embedding_a->shape[0];
    add_to_table(rows, b, a, rank, factor * scale_of(name, rank));
  }
  return {};
}

Status PeftAdapter::merge(const PeftTarget& target, std::int64_t first, std::span<float> values) const {
  const auto found = changes_.find(target.name);
  if (found == changes_.end()) return {};
  const Change& change = found->second;
  const MergedRows rows = rows_of(target, first, values);
  if (change.replacement) {
    LH_TRY(const FloatValues whole, floats_of(*change.replacement));
    std::copy_n(whole.begin() + static_cast<std::ptrdiff_t>(first * rows.in), values.size(), values.begin());
  }
  LH_CHECK(add_thin(target.name, change, rows, 1));
  if (change.magnitude) {
    LH_TRY(const FloatValues lengths, floats_of(*change.magnitude));
    set_lengths(rows, lengths);
  }
  if (change.scale) {
    LH_TRY(const FloatValues scale, floats_of(*change.scale));
    multiply_by(rows, scale, is_of_rows(*change.scale, target));
  }
  return {};
}

Status PeftAdapter::take_out(const PeftTarget& target, std::int64_t first, std::span<float> values) const {
  const auto found = changes_.find(target.name);
  if (found == changes_.end()) return {};
  const Change& change = found->second;
  const MergedRows rows = rows_of(target, first, values);
  if (change.scale) {
    LH_TRY(FloatValues scale, floats_of(*change.scale));
    for (float& x : scale) x = 1 / x;
    multiply_by(rows, scale, is_of_rows(*change.scale, target));
  }
  return add_thin(target.name, change, rows, -1);
}

Status PeftAdapter::check_take_out() const {
  std::vector<std::string> lost;
  for (const auto& [name, change] : changes_) {
    if (change.magnitude) lost.push_back(name + " (the lengths of its rows)");
    if (change.replacement) lost.push_back(name + " (all of it was replaced)");
    if (!change.scale) continue;
    LH_TRY(const FloatValues scale, floats_of(*change.scale));
    if (std::ranges::find(scale, 0.0F) != scale.end()) lost.push_back(name + " (a part was multiplied by 0)");
  }
  if (lost.empty()) return {};
  const std::size_t all = lost.size(), shown = 4;
  if (all > shown) lost.resize(shown), lost.push_back(format("and {} more", all - shown));
  return make_error(
      ErrorCode::unsupported,
      format("{} cannot be taken out again: it does not say what was before of {}", folder_, join(lost, ", ")),
      format("take the model that it was trained on: base_model_name_or_path = \"{}\"", base_));
}

}  // namespace longhaul
