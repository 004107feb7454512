// What to say about a key that a table does not know: the key that was meant, as far as it can be guessed.
#pragma once

#include <string>
#include <vector>

#include "contracts/schema/field_table.h"

namespace longhaul {

// `where` names the section as in messages ("stage.p.optimizer"), `kind` the stage's kind ("" if unknown); `others` are
// keys that somebody else reads. In this order: another program's name of a setting (key_synonyms.h), the same name one
// or more tables deeper ("optimizer.lr"), the nearest spelling here, then deeper; else the keys there are, ten at most,
// those that share a part of their name first, and the page of the reference that has all.
std::string unknown_key_hint(const std::string& key, const std::vector<FieldSlot>& slots,
                             const std::vector<std::string>& others, const std::string& where, const std::string& kind);

}  // namespace longhaul
