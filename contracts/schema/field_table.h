// Room contracts/schema
// One description of a settings struct that parses, validates, documents and completes it.
// field_table.h is the mechanism behind every table that users write; units.h parses "30min" and "16GiB".
// It knows no setting: every contracts/settings room builds its own tables with it.
//
// One description of a settings struct serves parsing, validation, defaults, reference documentation, shell completion
// and the resolved task. A table is built once per struct:
//
//   const FieldTable<TokenizeSettings>& tokenize_fields() {
//     static const auto table = FieldTable<TokenizeSettings>()
//         .field("vocabulary", &TokenizeSettings::vocabulary, {.unit = "tokens", .help = "...", .min = 257});
//     return table;
//   }
//
// The default of a field is the member's value in a default-constructed struct. Member types: bool, int, int64, double,
// string, vectors of string/int64/double and maps from a string to one of these, Seconds, ByteCount, groups (structs
// with a table of their own), and lists of such structs that the user names ([stage.x.step.NAME]).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "base/error/diagnostics.h"
#include "base/value/value.h"
#include "contracts/schema/units.h"

namespace longhaul {

struct FieldOptions {
  std::string unit = {};  // "tokens", "steps", "" for pure numbers
  std::string help = {};  // one line
  // Inclusive bounds of a number, of each element of a list or a map, of seconds or bytes.
  std::optional<double> min = {}, max = {};
  std::vector<std::string> choices = {};  // for strings: the only values allowed
  bool required = false;
  bool speed_only = false;  // changes how fast, never what: not part of a stage's key
};

// What documentation and completion need to know.
struct FieldInfo {
  std::string name;
  std::string type;  // "integer", "number", "text", "yes/no", "list of text", "duration", "size", "table"
  std::string default_text;
  FieldOptions options;
  std::vector<FieldInfo> members;  // of a group, or of each table below names
  bool named = false;              // a table of tables whose names are the user's
};

struct FieldSlot {
  FieldInfo info;
  // Stores a value into the struct at `target`; on a wrong type or bound adds to the diagnostics (at value.pos).
  std::function<void(const FieldInfo&, const Value&, const std::string& path, void* target, Diagnostics&)> set;
  std::function<Value(const void* source)> get;
};

// Fills `target` from `table`; unknown keys, wrong types, bounds and missing required fields all go to `diagnostics`.
// `where` names the section in messages ("stage.tokens"); `ignored` are keys that somebody else reads.
void parse_fields(const std::vector<FieldSlot>& slots, const Value& table, const std::string& where, void* target,
                  Diagnostics& diagnostics, const std::vector<std::string>& ignored = {});

// What of `value` differs from `otherwise`, table by table; null where nothing does.
Value changed_part(Value value, const Value& otherwise);

namespace field_detail {
void store(const FieldInfo&, const Value&, const std::string&, bool&, Diagnostics&);
void store(const FieldInfo&, const Value&, const std::string&, int&, Diagnostics&);
void store(const FieldInfo&, const Value&, const std::string&, std::int64_t&, Diagnostics&);
void store(const FieldInfo&, const Value&, const std::string&, double&, Diagnostics&);
void store(const FieldInfo&, const Value&, const std::string&, std::string&, Diagnostics&);
void store(const FieldInfo&, const Value&, const std::string&, Seconds&, Diagnostics&);
void store(const FieldInfo&, const Value&, const std::string&, ByteCount&, Diagnostics&);
void store(const FieldInfo&, const Value&, const std::string&, std::vector<std::string>&, Diagnostics&);
void store(const FieldInfo&, const Value&, const std::string&, std::vector<std::int64_t>&, Diagnostics&);
void store(const FieldInfo&, const Value&, const std::string&, std::vector<double>&, Diagnostics&);
void store(const FieldInfo&, const Value&, const std::string&, std::map<std::string, std::string>&, Diagnostics&);
void store(const FieldInfo&, const Value&, const std::string&, std::map<std::string, std::int64_t>&, Diagnostics&);
void store(const FieldInfo&, const Value&, const std::string&, std::map<std::string, double>&, Diagnostics&);
Value load(bool);
Value load(int);
Value load(std::int64_t);
Value load(double);
Value load(const std::string&);
Value load(Seconds);
Value load(ByteCount);
Value load(const std::vector<std::string>&);
Value load(const std::vector<std::int64_t>&);
Value load(const std::vector<double>&);
Value load(const std::map<std::string, std::string>&);
Value load(const std::map<std::string, std::int64_t>&);
Value load(const std::map<std::string, double>&);
const char* type_name(const bool*);
const char* type_name(const int*);
const char* type_name(const std::int64_t*);
const char* type_name(const double*);
const char* type_name(const std::string*);
const char* type_name(const Seconds*);
const char* type_name(const ByteCount*);
const char* type_name(const std::vector<std::string>*);
const char* type_name(const std::vector<std::int64_t>*);
const char* type_name(const std::vector<double>*);
const char* type_name(const std::map<std::string, std::string>*);
const char* type_name(const std::map<std::string, std::int64_t>*);
const char* type_name(const std::map<std::string, double>*);
std::string default_text(const Value&);
// The same fields where `defaults`, the table of a struct as it is by default, says what each is when it is not given.
std::vector<FieldInfo> with_defaults(std::vector<FieldInfo> fields, const Value& defaults);
}  // namespace field_detail

template <class S>
class FieldTable {
 public:
  template <class M>
  FieldTable&& field(std::string name, M S::* member, FieldOptions options) && {
    FieldSlot slot;
    const S defaults{};
    slot.info.name = std::move(name);
    slot.info.type = field_detail::type_name(static_cast<const M*>(nullptr));
    slot.info.default_text = options.required ? "" : field_detail::default_text(field_detail::load(defaults.*member));
    slot.info.options = std::move(options);
    slot.set = [member](const FieldInfo& info, const Value& value, const std::string& path, void* target,
                        Diagnostics& d) {
      field_detail::store(info, value, path, static_cast<S*>(target)->*member, d);
    };
    slot.get = [member](const void* source) { return field_detail::load(static_cast<const S*>(source)->*member); };
    slots_.push_back(std::move(slot));
    return std::move(*this);
  }

  template <class G>
  FieldTable&& group(std::string name, G S::* member, const FieldTable<G>& table, std::string help) && {
    FieldSlot slot;
    slot.info.name = std::move(name);
    slot.info.type = "table";
    slot.info.options.help = std::move(help);
    slot.info.members = field_detail::with_defaults(table.describe(), table.to_value(S{}.*member));
    slot.set = [member, &table](const FieldInfo&, const Value& value, const std::string& path, void* target,
                                Diagnostics& d) {
      if (!value.is_table()) {
        d.add(value.pos, path + " is " + value.kind_name() + ", expected a table");
        return;
      }
      parse_fields(table.slots(), value, path, &(static_cast<S*>(target)->*member), d);
    };
    slot.get = [member, &table](const void* source) { return table.to_value(static_cast<const S*>(source)->*member); };
    slots_.push_back(std::move(slot));
    return std::move(*this);
  }

  // The fields of a struct that S is derived from, with S's defaults.
  template <class B>
  FieldTable&& include(const FieldTable<B>& table) && {
    static_assert(std::is_base_of_v<B, S>);
    std::vector<FieldInfo> infos = field_detail::with_defaults(table.describe(), table.to_value(S{}));
    for (std::size_t i = 0; i < infos.size(); ++i) {
      const FieldSlot& of_base = table.slots()[i];
      FieldSlot slot;
      slot.info = std::move(infos[i]);
      slot.set = [set = of_base.set](const FieldInfo& info, const Value& value, const std::string& path, void* target,
                                     Diagnostics& d) {
        set(info, value, path, static_cast<B*>(static_cast<S*>(target)), d);
      };
      slot.get = [get = of_base.get](const void* source) {
        return get(static_cast<const B*>(static_cast<const S*>(source)));
      };
      slots_.push_back(std::move(slot));
    }
    return std::move(*this);
  }

  // A table of tables, one G each in the order written; its key goes to the member `key`. None is no value at all.
  template <class G>
  FieldTable&& named(std::string name, std::vector<G> S::* member, std::string G::* key, const FieldTable<G>& table,
                     std::string help) && {
    FieldSlot slot;
    slot.info.name = std::move(name);
    slot.info.type = "table";
    slot.info.options.help = std::move(help);
    slot.info.members = table.describe();
    slot.info.named = true;
    slot.set = [member, key, &table](const FieldInfo&, const Value& value, const std::string& path, void* target,
                                     Diagnostics& d) {
      std::vector<G> list;
      if (!value.is_table()) return d.add(value.pos, path + " is " + value.kind_name() + ", expected a table");
      for (const ValueMember& one : value.as_table()) {
        const std::string at = path + "." + one.key;
        G entry{};
        if (one.value.is_table())
          parse_fields(table.slots(), one.value, at, &entry, d);
        else
          d.add(one.value.pos, at + " is " + one.value.kind_name() + ", expected a table", "write [" + at + "]");
        entry.*key = one.key;
        list.push_back(std::move(entry));
      }
      static_cast<S*>(target)->*member = std::move(list);
    };
    slot.get = [member, key, &table](const void* source) {
      Value tables;
      for (const G& entry : static_cast<const S*>(source)->*member) tables.set(entry.*key, table.to_value(entry));
      return tables;
    };
    slots_.push_back(std::move(slot));
    return std::move(*this);
  }

  S parse(const Value& table, const std::string& where, Diagnostics& diagnostics,
          const std::vector<std::string>& ignored = {}) const {
    S settings{};
    parse_fields(slots_, table, where, &settings, diagnostics, ignored);
    return settings;
  }
  // For files of our own: one error instead of a list.
  Result<S> parse(const Value& table, const std::string& where) const {
    Diagnostics diagnostics;
    S settings = parse(table, where, diagnostics);
    LH_CHECK(diagnostics.to_status(""));
    return settings;
  }
  Value to_value(const S& settings) const {
    Value table = Value::make_table();
    for (const FieldSlot& slot : slots_)
      if (Value value = slot.get(&settings); !value.is_null()) table.set(slot.info.name, std::move(value));
    return table;
  }
  // Only what differs from the defaults: parse() gives the same settings back.
  Value to_value_changed(const S& settings) const {
    const S defaults{};
    Value table = Value::make_table();
    for (const FieldSlot& slot : slots_) {
      Value value = changed_part(slot.get(&settings), slot.get(&defaults));
      if (!value.is_null()) table.set(slot.info.name, std::move(value));
    }
    return table;
  }
  std::vector<FieldInfo> describe() const {
    std::vector<FieldInfo> infos;
    for (const FieldSlot& slot : slots_) infos.push_back(slot.info);
    return infos;
  }
  const std::vector<FieldSlot>& slots() const { return slots_; }

 private:
  std::vector<FieldSlot> slots_;
};

}  // namespace longhaul
