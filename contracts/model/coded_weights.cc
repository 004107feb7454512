#include "contracts/model/coded_weights.h"

#include <algorithm>
#include <span>

#include "base/text/text.h"

namespace longhaul {

bool is_coded(const std::string& format, const ParameterSpec& spec) {
  return format != "full" && spec.layer >= 0 && spec.shape.size() == 2 && spec.tp_dim >= 0 && !is_of_prefix(spec);
}

std::int64_t coded_blocks(std::int64_t elements) {
  return (elements + coded_block - 1) / coded_block;
}

std::int64_t code_bytes(const std::string& format, std::int64_t elements) {
  return format == "int8" ? elements : (elements + 1) / 2;
}

namespace {

constexpr std::int64_t alignment = 64;  // of operations, and of the memory of a rank

std::int64_t aligned(std::int64_t bytes, std::int64_t to = alignment) {
  return (bytes + to - 1) / to * to;
}

// Of one unit, without their places in it.
std::vector<CodedLayout::Part> parts_of(const std::string& format, std::span<const FlatParameter> parameters,
                                        FlatRange unit) {
  std::vector<CodedLayout::Part> parts;
  std::int64_t from = unit.begin;
  const auto add = [&](std::int64_t end, bool has_codes) {
    if (end > from) parts.push_back({.flat = {from, end}, .has_codes = has_codes});
    from = std::max(from, end);
  };
  for (const FlatParameter& p : parameters)
    if (is_coded(format, p.spec)) add(p.begin, false), add(p.end, true);
  add(unit.end, false);
  return parts;
}

}  // namespace

CodedLayout::CodedLayout(const std::string& format, const ParameterLayout& model, std::int64_t width) {
  auto first = model.parameters().begin();
  std::int64_t end_of_all = 0;
  std::vector<FlatRange> owned;
  for (const ShardUnit& unit : model.units()) {
    const auto last =
        std::find_if(first, model.parameters().end(), [&](const FlatParameter& p) { return p.begin >= unit.flat.end; });
    std::int64_t at = 0;
    for (Part& part : parts_of(format, {first, last}, unit.flat)) {
      const std::int64_t elements = part.flat.size();
      part.unit = units_.size(), part.values = at;
      at = aligned(at + (part.has_codes ? code_bytes(format, elements) : elements * width));
      part.scales = at;
      if (part.has_codes) at = aligned(at + coded_blocks(elements) * static_cast<std::int64_t>(sizeof(float)));
      parts_.push_back(part);
    }
    first = last;
    ShardUnit& here = units_.emplace_back(unit);
    here.flat = {end_of_all, end_of_all + aligned(at, alignment * unit.shards)};
    end_of_all = here.flat.end;
    owned.push_back(here.owned());
  }
  owned_ = PackedRanges(owned);
}

Status check_coded_blocks(const std::string& format, const ParameterLayout& model) {
  for (const FlatParameter& p : model.parameters()) {
    if (!is_coded(format, p.spec) || p.is_whole()) continue;
    const bool by_columns = p.box.extent[1] != p.spec.shape[1];
    const std::int64_t part = by_columns ? p.box.extent[1] : p.end - p.begin;
    if (part % coded_block != 0)
      return make_error(
          ErrorCode::unsupported,
          longhaul::format("adapter.base_weights = \"{}\" codes {} elements at a time, and of {} a rank has "
                           "{}of {}",
                           format, coded_block, p.spec.name, by_columns ? "parts of rows " : "a part ", part),
          "use a smaller tp (or etp), or adapter.base_weights = \"full\"");
  }
  return {};
}

}  // namespace longhaul
