#include "orchestrator/decide/round.h"

namespace longhaul {

void Round::emit(FactKind kind, const std::string& stage, int attempt, Value fields) {
  facts.push_back({kind, stage, attempt, std::move(fields), 0});
  now.apply(facts.back());
}

const std::vector<NodeSuspicion>& Round::suspects() {
  if (!suspects_found) suspects_found = suspects_of(now, seen.now_ms, rules.suspicion_ms);
  return *suspects_found;
}

Value because(const std::string& cause) {
  Value fields = Value::make_table();
  fields.set("cause", cause);
  return fields;
}

void put_artifact(Value& fields, const ArtifactSeen& artifact) {
  fields.set("artifact", artifact.folder);
  fields.set("digest", artifact.digest);
  fields.set("figures", artifact.figures);
  if (artifact.uid >= 0) fields.set("owner_uid", static_cast<long long>(artifact.uid));
}

}  // namespace longhaul
