#include "engine/tasks/training/memory_report.h"

#include <utility>

#include "contracts/plan/memory_plan.h"

namespace longhaul {
namespace {

Value table_of(const MemoryTable& table) {
  Value fields = Value::make_table();
  for (int i = 0; i < memory_categories; ++i)
    if (const auto category = static_cast<MemoryCategory>(i); table[category] > 0)
      fields.set(to_string(category), table[category]);
  return fields;
}

}  // namespace

constexpr std::size_t row_length = 2 * static_cast<std::size_t>(memory_categories) + 1;

std::vector<double> memory_row(std::int64_t held_bytes, const MemoryTable& planned, const MemoryTable& peak) {
  std::vector<double> row = {static_cast<double>(held_bytes)};
  for (const MemoryTable* table : {&planned, &peak})
    for (const std::int64_t bytes : table->bytes) row.push_back(static_cast<double>(bytes));
  return row;
}

MemoryUse memory_use(std::span<const double> rows) {
  const auto table_at = [&](std::size_t at) {
    MemoryTable table;
    for (std::size_t i = 0; i < memory_categories; ++i) table.bytes[i] = static_cast<std::int64_t>(rows[at + i]);
    return table;
  };
  MemoryUse use;
  for (std::size_t at = 0; at < rows.size(); at += row_length) {
    if (rows[at] > rows[use.rank * row_length]) use.rank = at / row_length;
    use.all.push_back(table_at(at + 1));
    use.all_held.push_back(rows[at]);
  }
  const std::size_t worst = use.rank * row_length;
  use.held_bytes = rows[worst];
  use.planned = table_at(worst + 1), use.held = table_at(worst + 1 + memory_categories);
  return use;
}

Value memory_fields(const MemoryUse& use) {
  Value every = Value::make_array();
  for (std::size_t rank = 0; rank < use.all.size(); ++rank) {
    Value one = Value::make_table();
    one.set("planned_bytes", use.all[rank].total());
    one.set("of_process", use.all[rank][MemoryCategory::process]);
    one.set("held_bytes", static_cast<std::int64_t>(use.all_held[rank]));
    every.push_back(std::move(one));
  }
  Value event = Value::make_table();
  event.set("of_rank", static_cast<std::int64_t>(use.rank));
  event.set("planned_bytes", use.planned.total());
  event.set("held_bytes", static_cast<std::int64_t>(use.held_bytes));
  event.set("planned", table_of(use.planned));
  event.set("held", table_of(use.held));
  event.set("ranks", std::move(every));
  return event;
}

Result<MemoryUse> report_memory(const TrainingOutline& outline, const RankCoordinates& at, const MemoryAccounts& memory,
                                CollectiveGroup& group, EventWriter& events) {
  LH_TRY(const MemoryPlan plan, plan_training_memory(outline, at));
  const std::vector<double> mine = memory_row(memory.all().bytes_peak, plan.bytes, memory.peak());
  std::vector<double> all(mine.size() * static_cast<std::size_t>(group.size()));
  LH_CHECK(group.all_gather(mine, all));
  MemoryUse use = memory_use(all);
  events.write("memory", memory_fields(use));
  return use;
}

}  // namespace longhaul
