#include "base/value/json_schema.h"

#if LONGHAUL_HAVE_VALIJSON
#define VALIJSON_USE_EXCEPTIONS 1  // it would end the program otherwise
#include <nlohmann/json.hpp>
#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validator.hpp>
#endif

#include <algorithm>
#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/text/text.h"
#include "base/value/json.h"

namespace longhaul {

namespace {

constexpr std::string_view draft_7 = "http://json-schema.org/draft-07/schema";

// What stands below a keyword, and whether it is about the same value as the keyword's own schema.
enum class Below { schema, same_schema, schemas, same_schemas, named_schemas, dependencies };
struct Keyword {
  std::string_view name;
  Below below;
};
constexpr Keyword keywords_with_schemas[] = {{"items", Below::schemas},
                                             {"additionalItems", Below::schema},
                                             {"contains", Below::schema},
                                             {"properties", Below::named_schemas},
                                             {"additionalProperties", Below::schema},
                                             {"propertyNames", Below::schema},
                                             {"dependencies", Below::dependencies},
                                             {"definitions", Below::named_schemas},
                                             {"$defs", Below::named_schemas},
                                             {"allOf", Below::same_schemas},
                                             {"anyOf", Below::same_schemas},
                                             {"oneOf", Below::same_schemas},
                                             {"not", Below::same_schema},
                                             {"if", Below::same_schema},
                                             {"then", Below::same_schema},
                                             {"else", Below::same_schema}};

// What a keyword without schemas has.
enum class Data { any, number, count, flag, list };
struct DataKeyword {
  std::string_view name;
  Data data = Data::any;
};
constexpr DataKeyword keywords_with_data[] = {{"type"},
                                              {"enum", Data::list},
                                              {"const"},
                                              {"minimum", Data::number},
                                              {"maximum", Data::number},
                                              {"exclusiveMinimum", Data::number},
                                              {"exclusiveMaximum", Data::number},
                                              {"multipleOf", Data::number},
                                              {"minLength", Data::count},
                                              {"maxLength", Data::count},
                                              {"minItems", Data::count},
                                              {"maxItems", Data::count},
                                              {"minProperties", Data::count},
                                              {"maxProperties", Data::count},
                                              {"uniqueItems", Data::flag},
                                              {"required", Data::list}};
constexpr std::string_view keywords_without_effect[] = {"$comment", "title",    "description", "default",
                                                        "examples", "readOnly", "writeOnly"};

// Nothing: the keyword is none of those with schemas.
std::optional<Below> below_of(std::string_view keyword) {
  const auto* const found = std::ranges::find(keywords_with_schemas, keyword, &Keyword::name);
  return found == std::end(keywords_with_schemas) ? std::nullopt : std::optional(found->below);
}

// Nothing: the keyword is not known.
std::optional<Data> data_of(std::string_view keyword) {
  if (std::ranges::find(keywords_without_effect, keyword) != std::end(keywords_without_effect)) return Data::any;
  const auto* const found = std::ranges::find(keywords_with_data, keyword, &DataKeyword::name);
  return found == std::end(keywords_with_data) ? std::nullopt : std::optional(found->data);
}

// The library would read a text as the number in it.
const char* expected_of(Data data, const Value& value) {
  switch (data) {
    case Data::number: return value.is_number() ? nullptr : "a number";
    case Data::count: return value.is_integer() && value.as_integer() >= 0 ? nullptr : "an integer of 0 or more";
    case Data::flag: return value.is_bool() ? nullptr : "true or false";
    case Data::list: return value.is_array() ? nullptr : "a list";
    case Data::any: break;
  }
  return nullptr;
}

Status refuse(const std::string& path, const std::string& what, const std::string& hint = "") {
  return make_error(ErrorCode::invalid_input,
                    format("the JSON schema at {}: {}", path.empty() ? "its root" : path, what), hint);
}

// The schema that a reference names: the whole text, or one of its definitions (RFC 6901: ~1 is a slash, ~0 a tilde).
// Null: there is none.
const Value* place_of(const Value& root, std::string_view reference) {
  if (reference == "#") return &root;
  for (const std::string_view list : {"definitions", "$defs"}) {
    const std::string begin = format("#/{}/", list);
    const Value* named = root.find(list);
    if (!reference.starts_with(begin) || named == nullptr) continue;
    std::string name(reference.substr(begin.size()));
    if (name.find('/') != name.npos) return nullptr;
    for (const auto& [written, meant] : {std::pair{"~1", "/"}, std::pair{"~0", "~"}})
      for (std::size_t at = name.find(written); at != name.npos; at = name.find(written, at + 1))
        name.replace(at, 2, meant);
    return named->find(name);
  }
  return nullptr;
}

// Looks at every schema in a text, for what would be ignored or would not end.
class SchemaCheck {
 public:
  explicit SchemaCheck(const Value& root) : root_(root) {}
  Status check(const Value& schema, const std::string& path) const {
    if (schema.is_bool()) return {};
    if (!schema.is_table()) return refuse(path, format("{} where a schema is expected", schema.kind_name()));
    if (const Value* reference = schema.find("$ref")) return check_reference(schema, *reference, path);
    for (const ValueMember& member : schema.as_table()) {
      if (const std::optional<Below> below = below_of(member.key)) {
        LH_CHECK(check_below(*below, member.value, path + "/" + member.key));
        continue;
      }
      const std::optional<Data> data = data_of(member.key);
      if (!data)
        return refuse(path, format("the keyword \"{}\" is not known", member.key),
                      "draft 7 is, but for regular expressions: pattern, patternProperties, format");
      if (const char* expected = expected_of(*data, member.value))
        return refuse(path + "/" + member.key, format("{}, expected {}", to_json(member.value), expected));
    }
    return {};
  }

 private:
  Status check_below(Below below, const Value& value, const std::string& path) const {
    const bool named = below == Below::named_schemas || below == Below::dependencies;
    if (named && value.is_table()) {
      for (const ValueMember& member : value.as_table())
        if (below == Below::named_schemas || !member.value.is_array())
          LH_CHECK(check(member.value, path + "/" + member.key));
      return {};
    }
    const bool several = below == Below::schemas || below == Below::same_schemas;
    if (!several || !value.is_array()) return check(value, path);
    for (std::size_t i = 0; i < value.size(); ++i) LH_CHECK(check(value.as_array()[i], format("{}/{}", path, i)));
    return {};
  }

  Status check_reference(const Value& schema, const Value& reference, const std::string& path) const {
    if (schema.size() > 1)
      return refuse(path, "what stands beside \"$ref\" would be ignored (draft 7)", "put both into \"allOf\"");
    if (!reference.is_string() || place_of(root_, reference.as_string()) == nullptr)
      return refuse(path, format("\"$ref\": {} is no definition of this text", to_json(reference)),
                    "#, #/definitions/NAME or #/$defs/NAME; other files are not read");
    std::vector<std::string> passed;
    if (comes_back(schema, passed)) return refuse(path, "\"$ref\" leads back to itself at the same value");
    return {};
  }

  // Whether references that are about the same value lead in a circle.
  bool comes_back(const Value& schema, std::vector<std::string>& passed) const {
    if (!schema.is_table()) return false;
    if (const Value* reference = schema.find("$ref"); reference && reference->is_string()) {
      if (std::ranges::find(passed, reference->as_string()) != passed.end()) return true;
      const Value* place = place_of(root_, reference->as_string());
      passed.push_back(reference->as_string());
      const bool circle = place != nullptr && comes_back(*place, passed);
      passed.pop_back();
      return circle;
    }
    for (const ValueMember& member : schema.as_table()) {
      const std::optional<Below> below = below_of(member.key);
      if (below == Below::same_schema && comes_back(member.value, passed)) return true;
      if (below == Below::same_schemas && member.value.is_array())
        for (const Value& one : member.value.as_array())
          if (comes_back(one, passed)) return true;
      if (below == Below::dependencies && member.value.is_table())
        for (const ValueMember& one : member.value.as_table())
          if (comes_back(one.value, passed)) return true;
    }
    return false;
  }

  const Value& root_;
};

// The schema without what names it and its draft.
Result<Value> schema_of(std::string_view text) {
  Result<Value> parsed = parse_json(text, "the JSON schema");
  if (!parsed.ok()) return make_error(ErrorCode::invalid_input, "the JSON schema is " + parsed.error().what);
  Value root = std::move(*parsed);
  if (const Value* draft = root.find("$schema")) {
    const std::string named = draft->is_string() ? draft->as_string() : to_json(*draft);
    if (named != draft_7 && named != std::string(draft_7) + "#")
      return refuse("", format("\"$schema\": {} is another draft than 7", named), std::string(draft_7) + "#").error();
    root.erase("$schema");
  }
  if (root.is_table()) root.erase("$id");
  LH_CHECK(SchemaCheck(root).check(root, ""));
  return root;
}

}  // namespace

#if LONGHAUL_HAVE_VALIJSON

struct JsonSchema::Compiled {
  valijson::Schema schema;
};

Result<JsonSchema> JsonSchema::compile(std::string_view text) {
  LH_TRY(const Value root, schema_of(text));
  try {
    const nlohmann::json parsed = nlohmann::json::parse(to_json(root));
    auto compiled = std::make_unique<Compiled>();
    valijson::SchemaParser parser(valijson::SchemaParser::kDraft7);
    parser.populateSchema(valijson::adapters::NlohmannJsonAdapter(parsed), compiled->schema);
    return JsonSchema(std::move(compiled));
  } catch (const std::exception& e) {
    return make_error(ErrorCode::invalid_input, format("the JSON schema: {}", e.what()));
  }
}

bool JsonSchema::holds(const Value& value) const {
  try {
    const nlohmann::json parsed = nlohmann::json::parse(to_json(value));
    valijson::Validator validator;
    return validator.validate(compiled_->schema, valijson::adapters::NlohmannJsonAdapter(parsed), nullptr);
  } catch (const std::exception&) {
    return false;  // a value that the schema cannot be held against does not satisfy it
  }
}

#else

struct JsonSchema::Compiled {};

Result<JsonSchema> JsonSchema::compile(std::string_view text) {
  LH_CHECK(schema_of(text));
  return make_error(ErrorCode::unsupported, "this build has no JSON schemas: valijson was not there when it was built",
                    "install libvalijson-dev and build again, or check the answers by a command");
}

bool JsonSchema::holds(const Value&) const {
  return false;
}

#endif

JsonSchema::JsonSchema(std::unique_ptr<const Compiled> compiled) : compiled_(std::move(compiled)) {}
JsonSchema::~JsonSchema() = default;
JsonSchema::JsonSchema(JsonSchema&&) noexcept = default;
JsonSchema& JsonSchema::operator=(JsonSchema&&) noexcept = default;

}  // namespace longhaul
