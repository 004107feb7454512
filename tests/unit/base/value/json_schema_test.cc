#include "base/value/json_schema.h"

#include <doctest/doctest.h>

#include <optional>
#include <string>

#include "base/value/json.h"

namespace longhaul {
namespace {

// Nothing where this build has no schemas; the case says so.
std::optional<JsonSchema> schema_or_skip(const std::string& text) {
  auto made = JsonSchema::compile(text);
  if (made.ok()) return std::move(*made);
  REQUIRE_MESSAGE(made.error().code == ErrorCode::unsupported, made.error().message());
  MESSAGE("skipped: " << made.error().message());
  return std::nullopt;
}

bool schema_holds(const std::string& schema, const std::string& value) {
  CAPTURE(schema);
  const auto made = JsonSchema::compile(schema);
  REQUIRE_MESSAGE(made.ok(), made.error().message());
  return made->holds(*parse_json(value));
}

std::string schema_refusal(const std::string& schema) {
  CAPTURE(schema);
  const auto made = JsonSchema::compile(schema);
  REQUIRE(!made.ok());
  CHECK(made.error().code == ErrorCode::invalid_input);
  return made.error().message();
}

bool says_of_schema(const std::string& text, const char* part) {
  CAPTURE(text);
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a JSON schema: objects, lists, numbers and choices, with references within the text") {
  const std::string person = R"({
    "$schema": "http://json-schema.org/draft-07/schema#", "$id": "https://example.org/person", "title": "a person",
    "type": "object", "required": ["name", "age"], "additionalProperties": false,
    "properties": {"name": {"$ref": "#/definitions/text"},
                   "age": {"type": "integer", "minimum": 0, "exclusiveMaximum": 150},
                   "friends": {"type": "array", "items": {"$ref": "#"}, "maxItems": 2, "uniqueItems": true},
                   "kind": {"enum": ["cat", "dog", null]}},
    "definitions": {"text": {"type": "string", "minLength": 1, "maxLength": 5}}})";
  const auto schema = schema_or_skip(person);
  if (!schema) return;
  const auto fits = [&](const char* value) { return schema->holds(*parse_json(value)); };
  CHECK(fits(R"({"name": "Ada", "age": 36})"));
  CHECK(fits(R"({"name": "Ada", "age": 0, "kind": null, "friends": [{"name": "Bo", "age": 1}]})"));
  CHECK_FALSE(fits(R"({"name": "Ada"})"));
  CHECK_FALSE(fits(R"({"name": "", "age": 36})"));
  CHECK_FALSE(fits(R"({"name": "Adelaide", "age": 36})"));
  CHECK_FALSE(fits(R"({"name": "Ada", "age": 36.5})"));
  CHECK_FALSE(fits(R"({"name": "Ada", "age": 150})"));
  CHECK_FALSE(fits(R"({"name": "Ada", "age": "36"})"));
  CHECK_FALSE(fits(R"({"name": "Ada", "age": 36, "size": 1})"));
  CHECK_FALSE(fits(R"({"name": "Ada", "age": 36, "kind": "cow"})"));
  CHECK_FALSE(fits(R"({"name": "Ada", "age": 36, "friends": [{"name": "Bo"}]})"));
  CHECK_FALSE(fits(R"([1])"));
}

TEST_CASE("a JSON schema: every keyword that it knows says no to something and yes to something") {
  if (!schema_or_skip("{}")) return;
  struct {
    const char *schema, *yes, *no;
  } const cases[] = {
      {R"({"const": {"a": [1]}})", R"({"a": [1]})", R"({"a": [2]})"},
      {R"({"type": ["string", "null"]})", "null", "1"},
      {R"({"maximum": 2})", "2", "3"},
      {R"({"exclusiveMinimum": 2})", "2.5", "2"},
      {R"({"multipleOf": 5})", "10", "12"},
      {R"({"items": [{"type": "string"}], "additionalItems": {"type": "boolean"}})", R"(["a", true])", R"(["a", 1])"},
      {R"({"contains": {"const": 1}})", "[0, 1]", "[0]"},
      {R"({"minItems": 2})", "[1, 2]", "[1]"},
      {R"({"propertyNames": {"maxLength": 2}})", R"({"ab": 1})", R"({"abc": 1})"},
      {R"({"minProperties": 1, "maxProperties": 1})", R"({"a": 1})", R"({"a": 1, "b": 2})"},
      {R"({"dependencies": {"a": ["b"]}})", R"({"a": 1, "b": 2})", R"({"a": 1})"},
      {R"({"dependencies": {"a": {"required": ["c"]}}})", R"({"b": 1})", R"({"a": 1})"},
      {R"({"allOf": [{"minimum": 1}, {"maximum": 2}]})", "1", "3"},
      {R"({"anyOf": [{"const": 1}, {"const": 2}]})", "2", "3"},
      {R"({"oneOf": [{"minimum": 1}, {"maximum": 2}]})", "0", "1"},
      {R"({"not": {"type": "null"}})", "1", "null"},
      {R"({"if": {"const": 1}, "then": {"const": 2}, "else": {"maximum": 5}})", "4", "6"},
      {R"({"properties": {"a": false}})", R"({"b": 1})", R"({"a": 1})"},
      {R"({"$defs": {"a/b": {"const": 1}}, "allOf": [{"$ref": "#/$defs/a~1b"}]})", "1", "2"}};
  for (const auto& one : cases) {
    CAPTURE(one.schema);
    CHECK(schema_holds(one.schema, one.yes));
    CHECK_FALSE(schema_holds(one.schema, one.no));
  }
}

TEST_CASE("a JSON schema that would be checked in part, or without end, is refused with its place") {
  CHECK(says_of_schema(schema_refusal("schemas/person.json"), "the JSON schema is not valid JSON"));
  CHECK(says_of_schema(schema_refusal("[1]"), "its root: array where a schema is expected"));
  CHECK(says_of_schema(schema_refusal(R"({"properties": {"a": {"pattern": "a+"}}})"),
                       "/properties/a: the keyword \"pattern\""));
  CHECK(says_of_schema(schema_refusal(R"({"items": {"format": "date"}})"), "/items: the keyword \"format\""));
  CHECK(
      says_of_schema(schema_refusal(R"({"anyOf": [{}, {"unevaluatedProperties": false}]})"), "/anyOf/1: the keyword"));
  CHECK(says_of_schema(schema_refusal(R"({"$schema": "https://json-schema.org/draft/2020-12/schema"})"),
                       "another draft than 7"));
  CHECK(says_of_schema(schema_refusal(R"({"items": {"$ref": "other.json"}})"),
                       "/items: \"$ref\": \"other.json\" is no definition"));
  CHECK(says_of_schema(schema_refusal(R"({"items": {"$ref": "#/definitions/a"}})"), "is no definition of this text"));
  CHECK(says_of_schema(schema_refusal(R"({"items": {"$ref": "#", "minItems": 1}})"), "beside \"$ref\""));
  CHECK(says_of_schema(schema_refusal(R"({"anyOf": [{"$ref": "#"}, {}]})"), "leads back to itself"));
  CHECK(says_of_schema(
      schema_refusal(
          R"({"definitions": {"a": {"$ref": "#/definitions/b"}, "b": {"not": {"$ref": "#/definitions/a"}}}})"),
      "leads back to itself"));
  CHECK(says_of_schema(schema_refusal(R"({"dependencies": {"a": {"$ref": "#"}}})"), "leads back to itself"));
  CHECK(says_of_schema(schema_refusal(R"({"const": {"pattern": ""}, "items": {"$ref": "#/const"}})"),
                       "is no definition"));
  for (const char* wrong : {R"({"minimum": "1"})", R"({"minLength": -1})", R"({"uniqueItems": 1})",
                            R"({"required": "a"})", R"({"items": {"enum": 1}})"})
    CHECK(says_of_schema(schema_refusal(wrong), ", expected "));
  if (schema_or_skip("{}")) CHECK(says_of_schema(schema_refusal(R"({"type": "strng"})"), "the JSON schema"));
}

}  // namespace longhaul
