#include "orchestrator/controller/artifact_index.h"

#include "base/files.h"
#include "base/json.h"

namespace longhaul {
namespace {
std::string pointer_path(const std::string& root, const std::string& key) {
  return join_path(root, key + ".json");
}
}  // namespace

Result<ArtifactSeen> read_artifact(const std::string& folder, const std::string& key) {
  LH_TRY(const Manifest manifest, read_manifest(folder));
  if (manifest.key != key)
    return make_error(ErrorCode::conflict, folder + " holds the result of another task, " + manifest.key);
  LH_CHECK(verify_artifact(folder, manifest, false));
  return ArtifactSeen{folder, manifest.digest(), manifest.figures};
}

Result<ArtifactSeen> find_artifact(const std::string& root, const std::string& key) {
  if (root.empty()) return make_error(ErrorCode::not_found, "no artifact root");
  LH_TRY(const std::string text, read_file(pointer_path(root, key)));
  const auto pointer = parse_json(text, pointer_path(root, key));
  if (!pointer.ok()) return make_error(ErrorCode::not_found, pointer.error().message());
  auto artifact = read_artifact(pointer->get_string("artifact"), key);
  if (!artifact.ok()) return make_error(ErrorCode::not_found, artifact.error().message());
  return artifact;
}

Status register_artifact(const std::string& root, const std::string& key, const ArtifactSeen& artifact) {
  if (root.empty() || find_artifact(root, key).ok()) return {};
  LH_CHECK(make_directories(root));
  Value pointer = Value::make_table();
  pointer.set("file", "longhaul artifact");
  pointer.set("key", key);
  pointer.set("artifact", artifact.folder);
  pointer.set("digest", artifact.digest);
  return write_file_atomic(pointer_path(root, key), to_json_pretty(pointer));
}

}  // namespace longhaul
