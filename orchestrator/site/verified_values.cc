#include "orchestrator/site/verified_values.h"

#include <algorithm>

#include "base/text/text.h"
#include "base/toml.h"

namespace longhaul {
namespace {

constexpr const char* block_begin = "# What `longhaul doctor --job` has found; the next one writes this part anew.\n";
constexpr const char* block_end = "# End of what `longhaul doctor --job` has found.\n";

std::string without_block(const std::string& text) {
  const std::size_t begin = text.find(block_begin);
  const std::size_t end = begin == std::string::npos ? begin : text.find(block_end, begin);
  if (end == std::string::npos) return text;
  std::string before = text.substr(0, begin);
  while (ends_with(before, "\n\n")) before.pop_back();
  return before + text.substr(end + std::string(block_end).size());
}

std::string block_of(const std::vector<VerifiedValue>& values) {
  std::string block = block_begin;
  for (const VerifiedValue& one : values) {
    Value fields = Value::make_table();
    fields.set("value", one.value);
    fields.set("on", one.on);
    fields.set("slurm", one.slurm);
    fields.set("fact", one.fact);
    block += "[verified.\"" + one.key + "\"]\n" + to_toml(fields);
  }
  return block + block_end;
}

}  // namespace

std::string VerifiedValue::source() const {
  return format("tried on {} with Slurm {}: {}", on, slurm, fact);
}

std::vector<VerifiedValue> verified_values(const Value& table, Diagnostics& diagnostics) {
  std::vector<VerifiedValue> values;
  if (table.is_null()) return values;
  const std::string expected = "write [verified.\"launcher.mpi\"] with value, on, slurm and fact";
  if (!table.is_table()) {
    diagnostics.add(table.pos, "site.verified is " + std::string(table.kind_name()) + ", expected a table", expected);
    return values;
  }
  for (const ValueMember& member : table.as_table()) {
    const Value* value = member.value.find("value");
    if (!value || member.value.get_string("on").empty()) {
      diagnostics.add(member.value.pos, "site.verified." + member.key + " has no value and day", expected);
      continue;
    }
    values.push_back({member.key, *value, member.value.get_string("on"), member.value.get_string("slurm"),
                      member.value.get_string("fact"), member.value.pos});
  }
  return values;
}

Result<std::string> with_verified_values(const std::string& text, const std::vector<VerifiedValue>& found) {
  std::vector<VerifiedValue> all = found;
  if (!text.empty()) {
    LH_TRY(Value file, parse_toml(text, "site file"));
    Diagnostics none;
    const Value* earlier = file.find("verified");
    for (VerifiedValue& one : verified_values(earlier ? *earlier : Value(), none))
      if (std::none_of(found.begin(), found.end(), [&](const VerifiedValue& now) { return now.key == one.key; }))
        all.push_back(std::move(one));
  }
  std::sort(all.begin(), all.end(), [](const VerifiedValue& a, const VerifiedValue& b) { return a.key < b.key; });
  std::string written = without_block(text);
  if (all.empty()) return written;
  if (!written.empty() && !ends_with(written, "\n")) written += "\n";
  written += (written.empty() ? "" : "\n") + block_of(all);
  if (const auto parsed = parse_toml(written, "site file"); !parsed.ok())
    return parsed.error().with_context("the file would not be read again");
  return written;
}

}  // namespace longhaul
