#include "contracts/settings/stages/hyper_search.h"

#include <algorithm>
#include <cmath>

#include "base/text/text.h"

namespace longhaul {
namespace {

const std::vector<std::string> range_keys = {"min", "max", "scale", "step"};

std::string value_text(const Value& value) {
  if (value.is_string()) return "\"" + value.as_string() + "\"";
  if (value.is_bool()) return value.as_bool() ? "true" : "false";
  if (value.is_integer()) return std::to_string(value.as_integer());
  return value.is_number() ? format("{:g}", value.as_number()) : value.kind_name();
}

bool same_value(const Value& a, const Value& b) {
  return a == b || (a.is_number() && b.is_number() && a.as_number() == b.as_number());
}

void read_list(const Value& list, const std::string& path, HyperParameter& parameter, Diagnostics& d) {
  if (!list.is_array() || list.size() == 0)
    return d.add(list.pos, path + ".values is no list of values", "values = [1e-4, 3e-4, 1e-3]");
  const ValueArray& values = list.as_array();
  const auto family = [](const Value& v) { return v.is_number() ? 0 : v.is_bool() ? 1 : v.is_string() ? 2 : 3; };
  for (std::size_t i = 0; i < values.size(); ++i) {
    const SourcePos& at = values[i].pos;
    if (family(values[i]) == 3)
      d.add(at, format("{}.values[{}] is {}", path, i, values[i].kind_name()), "use numbers, texts, or true and false");
    else if (family(values[i]) != family(values[0]))
      d.add(at, format("{}.values mixes {} and {}", path, values[0].kind_name(), values[i].kind_name()),
            "values of one parameter are of one type");
    else if (values[i].is_number() && !std::isfinite(values[i].as_number()))
      d.add(at, format("{}.values[{}] is not finite", path, i));
    else if (std::any_of(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(i),
                         [&](const Value& earlier) { return same_value(earlier, values[i]); }))
      d.add(at, format("{}.values has {} twice", path, value_text(values[i])), "leave one of them out");
  }
  parameter.values = values;
}

void check_range(const HyperParameter& p, const std::string& path, const SourcePos& at, Diagnostics& d) {
  if (!std::isfinite(p.min) || !std::isfinite(p.max) || !std::isfinite(p.step))
    return d.add(at, path + ": min, max and step have to be finite");
  if (p.min > p.max)
    d.add(at, format("{}: min = {:g} is above max = {:g}", path, p.min, p.max), "exchange them");
  else if (p.min == p.max)
    d.add(at, format("{}: the range from {:g} to {:g} is empty", path, p.min, p.max),
          "widen it, or set the value itself and leave it out of the space");
  if (p.scale == "log" && p.min <= 0)
    d.add(at, format("{}: scale = \"log\" with min = {:g}", path, p.min),
          "a logarithm needs min > 0; use scale = \"linear\", or a small positive min");
  if (p.step < 0) d.add(at, format("{}: step = {:g} is negative", path, p.step));
  if (p.step > 0 && p.scale == "log")
    d.add(at, path + ": step goes with scale = \"linear\"", "leave step out, or list the values");
  if (p.step > 0 && p.min < p.max && p.step > p.max - p.min)
    d.add(at, format("{}: step = {:g} is wider than the range from {:g} to {:g}", path, p.step, p.min, p.max));
}

void read_parameter(const Value& written, const std::string& name, const std::string& where, Diagnostics& d,
                    std::vector<HyperParameter>& space) {
  const std::string path = where + ".\"" + name + "\"";
  const std::size_t known_errors = d.size();
  HyperParameter parameter;
  if (written.is_array()) {
    read_list(written, path, parameter, d);
  } else if (!written.is_table()) {
    d.add(written.pos, path + " is " + written.kind_name() + ", expected a range or a list",
          "write { min = 1e-4, max = 1e-2, scale = \"log\" } or { values = [1, 2, 4] }");
  } else {
    parameter = hyper_range_fields().parse(written, path, d, {"values"});
    const Value* const list = written.find("values");
    const Value *const min = written.find("min"), *const max = written.find("max"), *const step = written.find("step");
    if (list) {
      for (const std::string& key : range_keys)
        if (const Value* other = written.find(key))
          d.add(other->pos, format("{} has both values and {}", path, key), "a list or a range, not both");
      read_list(*list, path, parameter, d);
    } else if (!min || !max) {
      d.add(written.pos,
            path + (min   ? " has no max"
                    : max ? " has no min"
                          : " has neither min and max nor values"),
            "write { min = 1e-4, max = 1e-2, scale = \"log\" } or { values = [1, 2, 4] }");
    } else if (d.size() == known_errors) {
      parameter.integer = min->is_integer() && max->is_integer() && (!step || step->is_integer());
      check_range(parameter, path, written.pos, d);
    }
  }
  parameter.name = name;
  for (const std::string& part : split(name, '.'))
    if (trim(part).empty() || trim(part) != part) {
      d.add(written.pos, path + " is no path of a setting", "write it as optimizer.lr, or params.NAME");
      break;
    }
  for (const HyperParameter& other : space)
    if (other.name == name) d.add(written.pos, path + " is there twice", "leave one of them out");
  space.push_back(std::move(parameter));
}

// A table without a key of a range and with tables or lists inside is a part of a path:
// [space.optimizer.lr] is [space."optimizer.lr"].
void read_space(const Value& table, const std::string& prefix, const std::string& where, Diagnostics& d,
                std::vector<HyperParameter>& space) {
  for (const ValueMember& member : table.as_table()) {
    const std::string name = prefix + member.key;
    const auto holds_more = [](const Value& v) {
      return v.is_table() && v.size() > 0 && !v.find("values") &&
             std::none_of(range_keys.begin(), range_keys.end(), [&](const std::string& key) { return v.find(key); }) &&
             std::all_of(v.as_table().begin(), v.as_table().end(),
                         [](const ValueMember& m) { return m.value.is_table() || m.value.is_array(); });
    };
    if (holds_more(member.value))
      read_space(member.value, name + ".", where, d, space);
    else
      read_parameter(member.value, name, where, d, space);
  }
}

const FieldInfo* field_at(const std::vector<FieldInfo>& fields, const std::string& path) {
  const auto dot = path.find('.');
  for (const FieldInfo& field : fields) {
    if (field.name != path.substr(0, dot)) continue;
    if (dot == std::string::npos) return field.members.empty() ? &field : nullptr;
    return field.named ? nullptr : field_at(field.members, path.substr(dot + 1));
  }
  return nullptr;
}

void paths_of(const std::vector<FieldInfo>& fields, const std::string& prefix, std::vector<std::string>& paths) {
  for (const FieldInfo& field : fields)
    if (field.members.empty())
      paths.push_back(prefix + field.name);
    else if (!field.named)
      paths_of(field.members, prefix + field.name + ".", paths);
}

// Does the setting take what the parameter gives? "" if so.
std::string type_conflict(const HyperParameter& p, const FieldInfo& field) {
  const std::string& type = field.type;
  const auto wrong = [&](const std::string& got) { return format("the setting is {}, not {}", type, got); };
  if (!p.is_list()) return type == "integer" || type == "number" ? "" : wrong("a range of numbers");
  for (const Value& value : p.values) {
    const bool fits = type == "integer"  ? value.is_integer()
                      : type == "number" ? value.is_number()
                      : type == "yes/no" ? value.is_bool()
                                         : type == "text" && value.is_string();
    if (!fits) return wrong(value_text(value));
    const auto& choices = field.options.choices;
    if (value.is_string() && !choices.empty() &&
        std::find(choices.begin(), choices.end(), value.as_string()) == choices.end())
      return format("{} is none of {}", value_text(value), join(choices, ", "));
  }
  return "";
}

void check_bounds(const HyperParameter& p, const FieldInfo& field, const std::string& path, const SourcePos& at,
                  Diagnostics& d) {
  std::vector<double> ends = {p.min, p.max};
  if (p.is_list()) ends.clear();
  for (const Value& value : p.values)
    if (value.is_number()) ends.push_back(value.as_number());
  for (const double end : ends) {
    if (field.options.min && end < *field.options.min)
      d.add(at, format("{}: {:g} is below the setting's smallest, {:g}", path, end, *field.options.min));
    if (field.options.max && end > *field.options.max)
      d.add(at, format("{}: {:g} is above the setting's largest, {:g}", path, end, *field.options.max));
  }
}

}  // namespace

const FieldTable<HyperParameter>& hyper_range_fields() {
  using P = HyperParameter;
  static const auto table =
      FieldTable<P>()
          .field("min", &P::min, {.help = "smallest value"})
          .field("max", &P::max, {.help = "largest value; with min written as a whole number, all values are whole"})
          .field("scale", &P::scale,
                 {.help = "log: equal chances for equal ratios, as learning rates need", .choices = {"linear", "log"}})
          .field("step", &P::step, {.help = "linear: values are min, min + step, ...; 0 any in between"});
  return table;
}

const FieldTable<HyperSearchSettings>& hyper_search_fields() {
  using S = HyperSearchSettings;
  static const auto table =
      FieldTable<S>()
          .field("method", &S::method,
                 {.help = "rounds: one array of jobs per rung; asha: a trial goes on as soon as it is among the best",
                  .choices = {"rounds", "asha"}})
          .field("proposals", &S::proposals,
                 {.help = "new configurations: spread evenly over the space, or by a model of what was seen (tpe)",
                  .choices = {"spread", "tpe"}})
          .field("metric", &S::metric, {.help = "figure of a training that is compared"})
          .field("mode", &S::mode, {.help = "whether small or large figures are good", .choices = {"min", "max"}})
          .field("trials", &S::trials, {.help = "configurations that are tried", .min = 1, .max = 10'000})
          .field("eta", &S::eta, {.help = "one in so many trials goes on to the next rung", .min = 2, .max = 64})
          .field("finalists", &S::finalists,
                 {.help = "so many are trained to the end, at least", .min = 1, .max = 10'000})
          .field("min_steps", &S::min_steps,
                 {.unit = "steps", .help = "of the first rung, at least; 0 is max_steps / 16", .min = 0, .max = 1e12})
          .field("max_steps", &S::max_steps,
                 {.unit = "steps",
                  .help = "of the last rung: a whole training; a search stage takes those of the stage that it is for",
                  .min = 0,
                  .max = 1e12})
          .field("first", &S::first,
                 {.help = "tpe: configurations that are spread before the model proposes; 0 is 4 and 2 per parameter",
                  .min = 0,
                  .max = 10'000})
          .field(
              "brackets", &S::brackets,
              {.help = "rounds: halvings one after the other, each with its share of the trials", .min = 1, .max = 100})
          .field("losses_max", &S::losses_max,
                 {.help = "a trial whose host was lost so many times is given up", .min = 1, .max = 100})
          .field("at_once", &S::at_once, {.help = "asha: trials that train at a time", .min = 1, .max = 1000})
          .field("seed", &S::seed, {.help = "of all draws: the same seed and results give the same trials"});
  return table;
}

HyperSearchSettings parse_hyper_search(const Value& written, const std::string& where, Diagnostics& diagnostics,
                                       const std::vector<std::string>& ignored, bool needs_max_steps) {
  std::vector<std::string> others = ignored;
  others.push_back("space");
  HyperSearchSettings settings = hyper_search_fields().parse(written, where, diagnostics, others);
  const Value* const space = written.find("space");
  const bool is_given = space && (!space->is_table() || space->size() > 0);
  if (is_given ? !space->is_table() : needs_max_steps)
    diagnostics.add(space ? space->pos : written.pos, where + ".space names nothing that may vary",
                    "for example [" + where + ".space.\"optimizer.lr\"] with min = 1e-4, max = 1e-2, scale = \"log\"");
  else if (is_given)
    read_space(*space, "", where + ".space", diagnostics, settings.space);
  const auto at = [&](const char* key) { return written.find(key) ? written.find(key)->pos : written.pos; };
  if (settings.max_steps == 0 && needs_max_steps)
    diagnostics.add(written.pos, where + " has no max_steps", "the steps of a whole training");
  else if (settings.max_steps > 0 && settings.min_steps > settings.max_steps)
    diagnostics.add(at("min_steps"), format("{}: min_steps = {} is above max_steps = {}", where, settings.min_steps,
                                            settings.max_steps));
  if (settings.brackets > settings.trials)
    diagnostics.add(at("brackets"),
                    format("{}: brackets = {} for trials = {}", where, settings.brackets, settings.trials));
  if (settings.brackets > 1 && settings.method != "rounds")
    diagnostics.add(at("brackets"), where + ": brackets go with method = \"rounds\"", "leave it out");
  if (settings.proposals == "tpe" && settings.method == "rounds" && settings.brackets == 1)
    diagnostics.add(at("proposals"),
                    where +
                        ": proposals = \"tpe\" with one bracket of rounds: all configurations begin before there is "
                        "a result to learn from",
                    "use method = \"asha\", or brackets = 2 and more");
  return settings;
}

namespace {

// With whatever dots its path was written.
const Value* written_parameter(const Value& space, const std::string& name) {
  if (const Value* whole = space.find(name)) return whole;
  for (std::size_t dot = name.find('.'); dot != std::string::npos; dot = name.find('.', dot + 1))
    if (const Value* part = space.find(name.substr(0, dot)))
      if (const Value* rest = written_parameter(*part, name.substr(dot + 1))) return rest;
  return nullptr;
}

}  // namespace

SourcePos place_of_parameter(const Value& space, const std::string& name, const SourcePos& otherwise) {
  const Value* found = written_parameter(space, name);
  return found ? found->pos : otherwise;
}

Value hyper_search_to_value(const HyperSearchSettings& settings) {
  Value table = hyper_search_fields().to_value(settings);
  Value space = Value::make_table();
  for (const HyperParameter& p : settings.space) {
    Value entry = Value::make_table();
    const auto number = [&](double x) { return p.integer ? Value(static_cast<std::int64_t>(x)) : Value(x); };
    if (p.is_list()) {
      entry.set("values", p.values);
    } else {
      entry.set("min", number(p.min));
      entry.set("max", number(p.max));
      entry.set("scale", p.scale);
      if (p.step > 0) entry.set("step", number(p.step));
    }
    space.set(p.name, std::move(entry));
  }
  table.set("space", std::move(space));
  return table;
}

void check_hyper_space(std::vector<HyperParameter>& space, const std::vector<FieldInfo>& fields, const Value& params,
                       const std::string& where, Diagnostics& d, const SourcePos& place) {
  std::vector<std::string> known;
  paths_of(fields, "", known);
  if (params.is_table())
    for (const ValueMember& member : params.as_table()) known.push_back("params." + member.key);
  for (HyperParameter& p : space) {
    const std::string path = where + ".\"" + p.name + "\"";
    if (p.name == "steps" || p.name == "epochs") {
      d.add(place, path + ": how long a trial trains is what the rungs say", "set max_steps, and leave it out here");
      continue;
    }
    if (starts_with(p.name, "params.") && params.find(p.name.substr(7))) continue;
    const FieldInfo* const field = field_at(fields, p.name);
    if (!field) {
      const std::string near = nearest_word(p.name, known);
      d.add(place, path + " is no setting of the stage, and no parameter of the workflow",
            near.empty() ? "write optimizer.lr, global_batch_size, ... or params.NAME"
                         : format("did you mean {}?", near));
      continue;
    }
    if (const std::string conflict = type_conflict(p, *field); !conflict.empty()) {
      d.add(place, format("{}: {}", path, conflict));
      continue;
    }
    if (!p.is_list()) {
      const bool whole = field->type == "integer";
      if (whole && (p.min != std::floor(p.min) || p.max != std::floor(p.max) || p.step != std::floor(p.step)))
        d.add(place, path + ": the setting is a whole number, the range is not", "use whole min, max and step");
      p.integer = whole;
    }
    check_bounds(p, *field, path, place, d);
  }
}

}  // namespace longhaul
