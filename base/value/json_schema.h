// A JSON schema: what a JSON value has to be like. By valijson, of draft 7 (json-schema.org/draft-07), where the build
// found it.
//
// Keywords that are known, all others are refused by name, for a schema that is checked in part says yes to what it
// forbids:
//   type enum const  minimum maximum exclusiveMinimum exclusiveMaximum multipleOf  minLength maxLength
//   items additionalItems contains minItems maxItems uniqueItems
//   properties additionalProperties propertyNames required dependencies minProperties maxProperties
//   allOf anyOf oneOf not if then else  $ref (#, #/definitions/NAME, #/$defs/NAME)  definitions $defs
//   and, which check nothing: $schema $id (of the whole) $comment title description default examples readOnly writeOnly
// Refused are regular expressions (pattern, patternProperties, format) too: how long one searches in a text that a
// model wrote has no bound in the standard library. Numbers are integers where they are written as such: 1.0 is none.
#pragma once

#include <memory>
#include <string_view>

#include "base/value/value.h"

namespace longhaul {

class JsonSchema {
 public:
  // invalid_input: no JSON, no schema, a keyword that is not known, with its place; a reference to nowhere or to
  // itself. unsupported: this build has no valijson.
  static Result<JsonSchema> compile(std::string_view text);
  ~JsonSchema();
  JsonSchema(JsonSchema&&) noexcept;
  JsonSchema& operator=(JsonSchema&&) noexcept;

  // Thread-safe.
  bool holds(const Value& value) const;

 private:
  struct Compiled;
  explicit JsonSchema(std::unique_ptr<const Compiled> compiled);
  std::unique_ptr<const Compiled> compiled_;
};

}  // namespace longhaul
