#include "autotune/hardware/constant_table.h"

#include <algorithm>
#include <cmath>

#include "base/text/text.h"
#include "base/toml.h"

namespace longhaul {
namespace {

void read_constant(const std::string& path, const Value& table, std::vector<Constant>& found, Diagnostics& problems) {
  Constant c;
  c.path = path, c.where = table.pos;
  c.value = table.get_number("value"), c.unit = table.get_string("unit"), c.source = table.get_string("source");
  const Value *start = table.find("start"), *spread = table.find("spread");
  c.fitted = start != nullptr || spread != nullptr;
  c.start = table.get_number("start"), c.spread = table.get_number("spread");
  const auto wrong = [&](const std::string& what, const std::string& hint) { problems.add(table.pos, what, hint); };
  if (!table.find("value") || !table.find("value")->is_number() || !std::isfinite(c.value))
    wrong(path + " has no number as its value", "write value = 0.74");
  if (!table.find("unit") || c.source.empty())
    wrong(path + " lacks its unit or its source", "a number of the time model says both: unit = \"of peak\"");
  if (c.fitted && !(c.value > 0 && c.start > 0 && c.spread > 0))
    wrong(path + " is fitted, and so its value, start and spread are positive", "the fit works on their logarithms");
  for (const ValueMember& member : table.as_table()) {
    static const std::vector<std::string> known = {"value", "unit", "source", "start", "spread"};
    if (std::find(known.begin(), known.end(), member.key) == known.end())
      problems.add(member.key_pos, path + " has an unknown key " + member.key, "known are " + join(known, ", "));
  }
  found.push_back(std::move(c));
}

const Value* at_path(const Value& document, std::string_view path) {
  const Value* at = &document;
  while (at != nullptr && !path.empty()) {
    const auto dot = path.find('.');
    at = at->find(path.substr(0, dot));
    path = dot == std::string_view::npos ? std::string_view() : path.substr(dot + 1);
  }
  return at;
}

// A table with a value is a constant, any other a section.
void walk(const std::string& path, const Value& table, std::vector<Constant>& found, Diagnostics& problems) {
  for (const ValueMember& member : table.as_table()) {
    const std::string below = path.empty() ? member.key : path + "." + member.key;
    if (member.value.is_table() && member.value.find("value"))
      read_constant(below, member.value, found, problems);
    else if (member.value.is_table())
      walk(below, member.value, found, problems);
    else if (member.value.is_number())
      problems.add(member.key_pos, below + " is a bare number",
                   "write { value = ..., unit = \"...\", source = \"...\" }");
  }
}

}  // namespace

Result<ConstantTable> ConstantTable::parse(std::string_view text, const std::string& file_name) {
  ConstantTable table;
  table.text_ = text;
  LH_TRY(table.document_, parse_toml(text, file_name));
  Diagnostics problems;
  walk("", table.document_, table.constants_, problems);
  LH_CHECK(problems.to_status("no time can be predicted with these constants"));
  return table;
}

const Constant* ConstantTable::find(std::string_view path) const {
  const auto found =
      std::find_if(constants_.begin(), constants_.end(), [&](const Constant& c) { return c.path == path; });
  return found == constants_.end() ? nullptr : &*found;
}

const Constant* ConstantTable::find_or_borrow(std::string_view path) const {
  constexpr std::string_view processors = "common-cpu.";
  if (const Constant* own = find(path)) return own;
  if (starts_with(path, processors)) return find("common." + std::string(path.substr(processors.size())));
  const auto first = path.find('.'), last = path.rfind('.');
  if (first == last) return nullptr;
  const std::string group(path.substr(0, first)), name(path.substr(last + 1));
  std::string section(path.substr(first + 1, last - first - 1));
  for (int steps = 0; steps < 8; ++steps) {  // never round in a circle
    section = text_of(format("{}.{}.like", group, section));
    if (section.empty()) return nullptr;
    if (const Constant* found = find(format("{}.{}.{}", group, section, name))) return found;
  }
  return nullptr;
}

namespace {

std::string group_of(std::string_view path) {
  const std::string group(path.substr(0, path.find('.')));
  return group == "common-cpu" ? "common" : group;
}
std::string name_of(std::string_view path) {
  return std::string(path.substr(path.rfind('.') + 1));
}

}  // namespace

Status ConstantTable::own(std::string_view path, double value, const std::string& source) {
  if (find(path) != nullptr) return set(path, value, source);
  const auto alike = std::find_if(constants_.begin(), constants_.end(), [&](const Constant& c) {
    return group_of(c.path) == group_of(path) && name_of(c.path) == name_of(path);
  });
  if (alike == constants_.end()) return set(path, value, source);  // says what is nearest
  Constant added;
  added.path = path, added.value = value, added.unit = alike->unit, added.source = source;
  constants_.push_back(std::move(added));
  return {};
}

Status ConstantTable::take_over(const ConstantTable& measured) {
  Diagnostics problems;
  for (const Constant& c : measured.constants())
    if (const Status taken = own(c.path, c.value, c.source); !taken.ok())
      problems.add(c.where, taken.error().what, taken.error().hint);
  return problems.to_status("a file of measured constants names those of the time model");
}

Status ConstantTable::set(std::string_view path, double value, const std::string& source) {
  for (Constant& c : constants_) {
    if (c.path != path) continue;
    c.value = value, c.source = source;
    return {};
  }
  std::vector<std::string> names;
  for (const Constant& c : constants_) names.push_back(c.path);
  return make_error(ErrorCode::not_found, "the time model has no constant " + std::string(path),
                    "the nearest is " + nearest_word(std::string(path), names));
}

std::vector<std::string> ConstantTable::fitted() const {
  std::vector<std::string> paths;
  for (const Constant& c : constants_)
    if (c.fitted) paths.push_back(c.path);
  return paths;
}

std::vector<std::string> ConstantTable::sections(std::string_view group) const {
  std::vector<std::string> names;
  const Value* table = at_path(document_, group);
  if (table == nullptr || !table->is_table()) return names;
  for (const ValueMember& member : table->as_table())
    if (member.value.is_table()) names.push_back(member.key);
  return names;
}

std::string ConstantTable::text_of(std::string_view path) const {
  const Value* value = at_path(document_, path);
  return value != nullptr && value->is_string() ? value->as_string() : "";
}

std::vector<std::string> ConstantTable::list_of(std::string_view path) const {
  std::vector<std::string> texts;
  const Value* value = at_path(document_, path);
  if (value == nullptr || !value->is_array()) return texts;
  for (const Value& one : value->as_array())
    if (one.is_string()) texts.push_back(one.as_string());
  return texts;
}

namespace {

// Replaces what stands between `begin` and the next `end` of a line.
void replace_between(std::string& line, std::string_view begin, std::string_view end, const std::string& with) {
  const std::size_t at = line.find(begin);
  if (at == std::string::npos) return;
  const std::size_t from = at + begin.size(), to = line.find(end, from);
  if (to != std::string::npos) line.replace(from, to - from, with);
}

}  // namespace

std::string ConstantTable::to_toml() const {
  std::vector<std::string> lines = split(text_, '\n');
  std::vector<const Constant*> added;
  for (const Constant& c : constants_) {
    if (c.where.line < 1) {
      added.push_back(&c);
      continue;
    }
    std::string& line = lines[static_cast<std::size_t>(c.where.line) - 1];
    replace_between(line, "value = ", ",", format("{}", c.value));
    replace_between(line, "source = \"", "\"", c.source);
  }
  for (auto c = added.rbegin(); c != added.rend(); ++c) {
    const std::string path = (*c)->path, header = "[" + path.substr(0, path.rfind('.')) + "]";
    auto at = std::find(lines.begin(), lines.end(), header);
    if (at == lines.end()) at = lines.insert(lines.end(), {"", header}) + 1;
    lines.insert(at + 1, format("{} = {{ value = {}, unit = \"{}\", source = \"{}\" }}", name_of(path), (*c)->value,
                                (*c)->unit, (*c)->source));
  }
  return join(lines, "\n");
}

}  // namespace longhaul
