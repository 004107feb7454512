#include "contracts/plan/serving_speed.h"

#include <cmath>

namespace longhaul {
namespace {

constexpr ServingFigure figures[] = {{"call_seconds", &ServingSpeed::call},
                                     {"attention_seconds", &ServingSpeed::attention},
                                     {"cache_near_seconds", &ServingSpeed::cache_near},
                                     {"cache_shared_seconds", &ServingSpeed::cache_shared},
                                     {"cache_far_seconds", &ServingSpeed::cache_far},
                                     {"prompt_attention_seconds", &ServingSpeed::prompt_attention},
                                     {"layer_seconds", &ServingSpeed::layer},
                                     {"element_seconds", &ServingSpeed::element},
                                     {"logit_seconds", &ServingSpeed::logit}};

bool can_be(double seconds) {
  return std::isfinite(seconds) && seconds > 0;
}

}  // namespace

std::span<const ServingFigure> serving_figures() {
  return figures;
}

Value serving_speed_to_value(const ServingSpeed& speed) {
  Value document = Value::make_table();
  for (const ServingFigure& one : figures) document.set(one.key, speed.*one.at);
  Value& products = document.set("products", Value::make_array());
  for (const ServedProduct& one : speed.products) {
    Value& entry = products.push_back(Value::make_table());
    entry.set("rows", static_cast<long long>(one.rows)), entry.set("set_bytes", static_cast<long long>(one.set_bytes));
    entry.set("seconds", one.seconds);
  }
  return document;
}

bool serving_speed_from_value(const Value& value, ServingSpeed& speed) {
  const Value* products = value.is_table() ? value.find("products") : nullptr;
  if (!products || !products->is_array() || products->size() != std::size(serving_rows) * std::size(serving_sets))
    return false;
  for (const ServingFigure& one : figures) {
    speed.*one.at = value.get_number(one.key);
    if (!can_be(speed.*one.at)) return false;
  }
  for (const std::int64_t set : serving_sets) {
    for (const std::int64_t rows : serving_rows) {
      const Value& entry = products->as_array()[speed.products.size()];
      if (!entry.is_table() || entry.get_integer("rows") != rows || entry.get_integer("set_bytes") != set) return false;
      speed.products.push_back({rows, set, entry.get_number("seconds")});
      if (!can_be(speed.products.back().seconds)) return false;
    }
  }
  return true;
}

}  // namespace longhaul
