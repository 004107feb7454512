#include "contracts/model/coded_weights.h"

#include "base/text/text.h"

namespace longhaul {

bool is_coded(const std::string& format, const ParameterSpec& spec) {
  return format != "full" && spec.layer >= 0 && spec.shape.size() == 2 && spec.tp_dim >= 0 && !is_of_prefix(spec);
}

std::int64_t coded_bytes(const std::string& format, std::int64_t elements) {
  const std::int64_t codes = format == "int8" ? elements : (elements + 1) / 2;
  const std::int64_t blocks = (elements + coded_block - 1) / coded_block;
  return codes + blocks * static_cast<std::int64_t>(sizeof(float));
}

std::int64_t held_bytes(const std::string& format, const ParameterLayout& model, std::int64_t width) {
  std::int64_t bytes = model.flat_size() * width;
  for (const FlatParameter& p : model.parameters())
    if (is_coded(format, p.spec)) bytes += coded_bytes(format, p.end - p.begin) - (p.end - p.begin) * width;
  return bytes;
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
