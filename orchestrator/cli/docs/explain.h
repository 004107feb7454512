// What the reference says of one name: an exit code, a key, an event, a fault class, a figure, a metric, a command.
// Pure.
#pragma once

#include <string>
#include <vector>

#include "orchestrator/cli/options/reference_docs.h"

namespace longhaul {

struct Explanation {
  std::vector<std::string> where;  // "exit-codes.md", "stage-kinds.md, pretrain": all places that say the same
  std::string name;                // as the reference writes it: "optimizer.lr"
  std::string text;                // plain text, one line for each column that says something
};
struct ExplainAnswer {
  std::string said;  // where it is another program's name of a key: what it is called here; "" otherwise
  std::vector<Explanation> found;
  std::vector<std::string> nearest;  // where nothing is found: up to five names, the nearest first
};

// `asked`: a name as it stands in a table or a heading of the reference, in any case. Before a key may stand what it is
// a key of, as in a file or after --set: `pretrain.steps`, `stage.pretrain.steps`, where `pretrain` is a stage kind,
// and a key's last part finds it, too: `lr`. An exit code is a number or its name. What other programs call a setting
// (`max_steps`, contracts/schema/key_synonyms.h) is answered with what it is called here.
ExplainAnswer explain(const std::vector<ReferencePage>& pages, const std::string& asked);

}  // namespace longhaul
