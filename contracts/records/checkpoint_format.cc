#include "contracts/records/checkpoint_format.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <map>

#include "base/digest/hash.h"
#include "base/text/text.h"
#include "contracts/model/adapter_list.h"

namespace longhaul {

std::string checkpoint_folder_name(std::int64_t step) {
  return format("step-{:08d}", step);
}

namespace {

Value integers(const std::vector<std::int64_t>& list) {
  Value array = Value::make_array();
  for (std::int64_t i : list) array.push_back(static_cast<long long>(i));
  return array;
}

std::vector<std::int64_t> integers_from(const Value* array) {
  std::vector<std::int64_t> list;
  if (array && array->is_array())
    for (const Value& element : array->as_array())
      if (element.is_integer()) list.push_back(element.as_integer());
  return list;
}

}  // namespace

Value checkpoint_to_value(const CheckpointManifest& m) {
  Value value = Value::make_table();
  value.set("file", "longhaul checkpoint");
  value.set("format", CheckpointManifest::format);
  value.set("step", static_cast<long long>(m.step));
  value.set("consumed_samples", static_cast<long long>(m.consumed_samples));
  value.set("seed", std::to_string(m.seed));
  value.set("adam_step", static_cast<long long>(m.adam_step));
  value.set("model", model_shape_fields().to_value(m.shape));
  if (m.shape.scalar_head) value.set("scalar_head", true);
  if (m.shape.scalar_head && m.shape.num_labels != 1) value.set("num_labels", m.shape.num_labels);
  if (m.shape.adapter.on()) value.set("adapter", adapter_fields().to_value(m.shape.adapter));
  value.set("written_by", parallel_dims_fields().to_value(m.written_by));
  value.set("extra", m.extra.is_table() ? m.extra : Value::make_table());
  Value tensors = Value::make_table();
  for (const auto& [name, shape] : m.tensors) tensors.set(name, integers(shape));
  value.set("tensors", std::move(tensors));
  Value entries = Value::make_array();
  for (const CheckpointEntry& e : m.entries) {
    Value entry = Value::make_table();
    entry.set("tensor", e.tensor);
    entry.set("offset", integers(e.box.offset));
    entry.set("extent", integers(e.box.extent));
    entry.set("begin", static_cast<long long>(e.flat_begin));
    entry.set("end", static_cast<long long>(e.flat_end));
    entry.set("file", e.file);
    entry.set("key", e.key);
    entry.set("dtype", e.dtype);
    entry.set("xxh3", hex64(e.xxh3));
    entries.push_back(std::move(entry));
  }
  value.set("entries", std::move(entries));
  return value;
}

namespace {

// Sizes or offsets that a file claims: none negative, no product or sum of them near 63 bits.
bool are_possible(const std::vector<std::int64_t>& numbers) {
  constexpr std::int64_t elements_max = std::int64_t{1} << 50;
  std::int64_t product = 1;
  for (const std::int64_t number : numbers) {
    if (number < 0 || number > elements_max) return false;
    if (number > 0 && product > elements_max / number) return false;
    if (number > 0) product *= number;
  }
  return true;
}

}  // namespace

Result<CheckpointManifest> checkpoint_from_value(const Value& value) {
  if (value.get_string("file") != "longhaul checkpoint")
    return make_error(ErrorCode::corrupt, "not a Longhaul checkpoint");
  if (value.get_integer("format") != CheckpointManifest::format)
    return make_error(ErrorCode::unsupported, format("checkpoint format {}, this version reads {}",
                                                     value.get_integer("format"), CheckpointManifest::format));
  CheckpointManifest m;
  m.step = value.get_integer("step");
  m.consumed_samples = value.get_integer("consumed_samples");
  m.seed = std::strtoull(value.get_string("seed").c_str(), nullptr, 10);
  m.adam_step = value.get_integer("adam_step");
  if (const Value* model = value.find("model")) {
    LH_TRY(m.shape, model_shape_fields().parse(*model, "model"));
  }
  m.shape.scalar_head = value.get_bool("scalar_head");
  m.shape.num_labels = value.get_integer("num_labels", 1);
  if (const Value* adapter = value.find("adapter")) {
    LH_TRY(m.shape.adapter, adapter_fields().parse(*adapter, "adapter"));
    LH_CHECK(resolve_shape(m.shape));
    LH_CHECK(adapted_matrices(m.shape));
  }
  if (const Value* dims = value.find("written_by")) {
    LH_TRY(m.written_by, parallel_dims_fields().parse(*dims, "written_by"));
  }
  if (const Value* extra = value.find("extra")) m.extra = *extra;
  if (const Value* tensors = value.find("tensors"); tensors && tensors->is_table())
    for (const ValueMember& member : tensors->as_table()) {
      m.tensors.emplace_back(member.key, integers_from(&member.value));
      if (!are_possible(m.tensors.back().second))
        return make_error(ErrorCode::corrupt, "checkpoint tensor " + member.key + " has an impossible shape");
    }
  if (const Value* entries = value.find("entries"); entries && entries->is_array()) {
    for (const Value& v : entries->as_array()) {
      CheckpointEntry e;
      e.tensor = v.get_string("tensor");
      e.box = {integers_from(v.find("offset")), integers_from(v.find("extent"))};
      e.flat_begin = v.get_integer("begin");
      e.flat_end = v.get_integer("end");
      e.file = v.get_string("file");
      e.key = v.get_string("key");
      e.dtype = v.get_string("dtype");
      e.xxh3 = std::strtoull(v.get_string("xxh3").c_str(), nullptr, 16);
      if (e.box.offset.size() != e.box.extent.size() || !are_possible(e.box.extent) ||
          !std::all_of(e.box.offset.begin(), e.box.offset.end(), [](std::int64_t o) { return are_possible({o}); }) ||
          e.flat_begin < 0 || e.flat_end < e.flat_begin || e.flat_end > e.box.elements())
        return make_error(ErrorCode::corrupt, "checkpoint entry of " + e.tensor + " has an impossible box or range");
      m.entries.push_back(std::move(e));
    }
  }
  return m;
}

namespace {

// Ranges of one tensor's elements by the box that they are of: its offset and extent.
using RangesByBox = std::map<std::pair<std::vector<std::int64_t>, std::vector<std::int64_t>>,
                             std::vector<std::pair<std::int64_t, std::int64_t>>>;

bool all_inside(const RangesByBox& ranges, const std::vector<std::int64_t>& shape) {
  return std::ranges::all_of(ranges, [&](const auto& one) {
    const auto& [offset, extent] = one.first;
    if (extent.size() != shape.size()) return false;
    for (std::size_t dim = 0; dim < shape.size(); ++dim)
      if (offset[dim] > shape[dim] - extent[dim]) return false;
    return true;
  });
}

// Of different boxes that lie inside of their tensor.
bool any_boxes_meet(const RangesByBox& ranges) {
  const auto meet = [](const auto& a, const auto& b) {
    for (std::size_t dim = 0; dim < a.first.size(); ++dim) {
      if (a.second[dim] == 0 || b.second[dim] == 0) return false;
      if (a.first[dim] >= b.first[dim] + b.second[dim] || b.first[dim] >= a.first[dim] + a.second[dim]) return false;
    }
    return true;
  };
  for (auto one = ranges.begin(); one != ranges.end(); ++one)
    for (auto other = std::next(one); other != ranges.end(); ++other)
      if (meet(one->first, other->first)) return true;
  return false;
}

}  // namespace

Status check_coverage(const CheckpointManifest& m) {
  // Boxes of one tensor are either equal (then their ranges tile the box) or disjoint: where both hold and the number
  // of elements is the tensor's, each is there once.
  std::vector<std::string> problems;
  std::map<std::string, RangesByBox> ranges;
  for (const CheckpointEntry& e : m.entries)
    ranges[e.tensor][{e.box.offset, e.box.extent}].emplace_back(e.flat_begin, e.flat_end);
  for (const auto& [name, shape] : m.tensors) {
    std::int64_t wanted = 1, have = 0;
    for (std::int64_t extent : shape) wanted *= extent;
    bool overlap = false;
    for (auto& [box, list] : ranges[name]) {
      std::sort(list.begin(), list.end());
      std::int64_t end = 0;
      for (const auto& [first, last] : list) {
        overlap |= first < end;
        end = std::max(end, last);
        have += last - first;
      }
    }
    const bool inside = all_inside(ranges[name], shape);
    overlap = overlap || (inside && any_boxes_meet(ranges[name]));
    if (have != wanted || overlap || !inside)
      problems.push_back(format("{} ({} of {} elements{}{})", name, have, wanted, overlap ? ", overlapping" : "",
                                inside ? "" : ", some outside of it"));
    if (problems.size() == 5) break;
  }
  if (problems.empty()) return {};
  return make_error(ErrorCode::corrupt,
                    "checkpoint of step " + std::to_string(m.step) + " does not cover " + join(problems, ", "));
}

}  // namespace longhaul
