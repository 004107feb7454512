// A parsed template. One kind of node for all: what its parts mean stands beside its kind.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/data/jinja/values/jinja_value.h"

namespace longhaul {

struct JinjaNode;
using JinjaNodePtr = std::unique_ptr<JinjaNode>;
using JinjaNodes = std::vector<JinjaNodePtr>;

// Of parameters of a macro and arguments of a call.
struct JinjaNamed {
  std::string name;    // "" : by place
  JinjaNodePtr value;  // null: a parameter without a default
};

struct JinjaNode {
  enum class Kind {
    // Expressions
    constant,   // value
    name,       // text
    list,       // parts
    tuple,      // parts
    table,      // parts: key, value, key, value, ...
    attribute,  // parts[0] . text
    item,       // parts[0] [ parts[1] ]
    slice,      // parts[0] [ parts[1] : parts[2] : parts[3] ], null where nothing is written
    call,       // parts[0] ( arguments )
    filter,     // parts[0] | text ( arguments ); parts[0] null: of a filter block
    test,       // parts[0] is text ( arguments )
    unary,      // text: "not", "-", "+"
    binary,     // text: an operator, "and", "or"
    compare,    // parts[0] op parts[1] op ...: operators[i] stands before parts[i + 1]
    choice,     // parts[0] if parts[1] else parts[2] (null: nothing)
    // Statements
    data,        // text
    print,       // parts[0]
    branches,    // parts: conditions; bodies[i] of the i-th, one more is the else
    loop,        // targets in parts[0] if parts[1] (null); bodies[0], bodies[1] the else
    set,         // targets = parts[0]
    set_block,   // targets[0] = bodies[0], filtered by parts[0] (null: not)
    macro,       // text(arguments), bodies[0]
    generation,  // bodies[0]: what the assistant wrote
    with,        // targets[i] = parts[i] for bodies[0]
    leave,       // text: "break" or "continue"
  };
  Kind kind = Kind::data;
  int line = 0;
  std::string text;
  JinjaValue value;
  JinjaNodes parts;
  std::vector<std::string> operators;
  std::vector<JinjaNamed> arguments;
  std::vector<std::string> targets;  // names; "ns.x" of a namespace
  std::vector<JinjaNodes> bodies;
  bool reads_loop = false;  // of a loop: its body speaks of `loop`

  JinjaNode(Kind of, int at) : kind(of), line(at) {}
};

}  // namespace longhaul
