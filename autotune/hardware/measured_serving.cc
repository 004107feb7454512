#include "autotune/hardware/measured_serving.h"

#include "base/text/text.h"

namespace longhaul {
namespace {

constexpr double nanosecond = 1e-9;

}  // namespace

const std::vector<ServingField>& serving_fields() {
  static const std::vector<ServingField> all = {
      {"serving_call", "ns", &ServingSpeed::call},
      {"serving_attention", "ns an element", &ServingSpeed::attention},
      {"serving_cache_near", "ns an element", &ServingSpeed::cache_near},
      {"serving_cache_shared", "ns an element", &ServingSpeed::cache_shared},
      {"serving_cache_far", "ns an element", &ServingSpeed::cache_far},
      {"serving_prompt_attention", "ns an element", &ServingSpeed::prompt_attention},
      {"serving_layer", "ns", &ServingSpeed::layer},
      {"serving_element", "ns", &ServingSpeed::element},
      {"serving_logit", "ns", &ServingSpeed::logit}};
  return all;
}

std::string served_product_name(std::int64_t rows, std::int64_t set_bytes) {
  return format("serving_product_{}_rows_{}_mib", rows, set_bytes >> 20);
}

ServingSpeed read_measured_serving(const ConstantTable& table, const std::string& section) {
  ServingSpeed speed;
  for (const ServingField& field : serving_fields()) {
    const Constant* found = table.find(section + "." + field.name);
    if (!found) return {};
    speed.*field.at = found->value * nanosecond;
  }
  for (const std::int64_t set : serving_sets) {
    for (const std::int64_t rows : serving_rows) {
      const Constant* found = table.find(section + "." + served_product_name(rows, set));
      if (!found) return {};
      speed.products.push_back({rows, set, found->value * nanosecond});
    }
  }
  return speed;
}

}  // namespace longhaul
