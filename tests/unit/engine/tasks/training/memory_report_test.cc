#include "engine/tasks/training/memory_report.h"

#include <doctest/doctest.h>

namespace longhaul {
namespace {

MemoryTable table_with(MemoryCategory category, std::int64_t bytes) {
  MemoryTable table;
  table[category] = bytes;
  return table;
}

TEST_CASE("the memory report is about the rank that held most, and has a line for every rank") {
  std::vector<double> rows;
  for (const std::int64_t held : {70, 90, 90, 10}) {
    const std::vector<double> row = memory_row(held, table_with(MemoryCategory::weights, held + 1),
                                               table_with(MemoryCategory::gradients, held - 5));
    rows.insert(rows.end(), row.begin(), row.end());
  }
  const MemoryUse use = memory_use(rows);
  CHECK(use.rank == 1);  // the lowest of those that held as much
  CHECK(use.held_bytes == 90);
  CHECK(use.planned == table_with(MemoryCategory::weights, 91));
  CHECK(use.held == table_with(MemoryCategory::gradients, 85));
  REQUIRE(use.all.size() == 4);
  CHECK(use.all[3].total() == 11);
  const Value fields = memory_fields(use);
  CHECK(fields.get_integer("of_rank") == 1);
  CHECK(fields.get_integer("planned_bytes") == 91);
  CHECK(fields.get_integer("held_bytes") == 90);
  CHECK(fields.find("ranks")->size() == 4);
}

}  // namespace
}  // namespace longhaul
