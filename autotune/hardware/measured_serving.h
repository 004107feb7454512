// What a server's operations took on a measured rank (contracts/plan/serving_speed.h) as lines of its section of the
// constants, [processor.1x2-bf16], in nanoseconds.
#pragma once

#include <string>
#include <vector>

#include "autotune/hardware/constant_table.h"
#include "contracts/plan/serving_speed.h"

namespace longhaul {

struct ServingField {
  const char* name;
  const char* unit;
  double ServingSpeed::* at;
};
const std::vector<ServingField>& serving_fields();
std::string served_product_name(std::int64_t rows, std::int64_t set_bytes);

// Not known where a line is missing: a section that an earlier version wrote.
ServingSpeed read_measured_serving(const ConstantTable& table, const std::string& section);

}  // namespace longhaul
