// The kinds of instructions, each with the function that checks it. A new kind is a row of the table and a function.
#pragma once

#include <span>
#include <string>

#include "engine/tasks/answers/instruction_checks.h"

namespace longhaul {

struct InstructionKind {
  const char* name;  // "group:kind", as in IFEval's rows
  Result<bool> (*holds)(const InstructionArguments& arguments, const std::string& answer);
};
std::span<const InstructionKind> instruction_table();
const InstructionKind* find_instruction(const std::string& name);  // null: not known

}  // namespace longhaul
