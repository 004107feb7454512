#include "contracts/records/manifest.h"

#include <algorithm>

#include "base/digest/hash.h"
#include "base/files/file_hash.h"
#include "base/files/files.h"
#include "base/text/text.h"
#include "base/value/json.h"

namespace longhaul {

namespace {
constexpr const char* manifest_name = "manifest.json";

bool stays_below(const std::string& path) {
  if (path.empty() || path.front() == '/') return false;
  for (const std::string& part : split(path, '/'))
    if (part.empty() || part == "." || part == "..") return false;
  return true;
}
}  // namespace

std::string Manifest::digest() const {
  std::string text = kind + "\n" + std::to_string(kind_version) + "\n";
  for (const ManifestFile& file : files)
    text += file.path + "\n" + std::to_string(file.bytes) + "\n" + file.xxh3 + "\n";
  return xxh3_128_hex(text);
}

Result<Manifest> make_manifest(const std::string& folder) {
  Manifest manifest;
  LH_TRY(const std::vector<std::string> names, list_tree(folder));
  for (const std::string& name : names) {
    if (name == manifest_name) continue;
    const std::string path = join_path(folder, name);
    LH_TRY(const std::uint64_t bytes, file_size(path));
    LH_TRY(std::string digest, hash_file(path));
    manifest.files.push_back({name, bytes, std::move(digest)});
  }
  manifest.figures = Value::make_table();
  manifest.provenance = Value::make_table();
  constexpr const char* artifact_name = "artifact.json";
  const std::string artifact = join_path(folder, artifact_name);
  if (std::ranges::find(names, artifact_name) != names.end()) {
    LH_TRY(const std::string text, read_file(artifact));
    LH_TRY(const Value value, parse_json(text, artifact));
    if (const Value* figures = value.find("figures"); figures && figures->is_table()) manifest.figures = *figures;
  }
  return manifest;
}

Status write_manifest(const std::string& folder, const Manifest& m) {
  Value value = Value::make_table();
  value.set("file", "longhaul manifest");
  value.set("format", Manifest::format);
  value.set("stage", m.stage);
  value.set("kind", m.kind);
  value.set("kind_version", m.kind_version);
  value.set("key", m.key);
  value.set("digest", m.digest());
  value.set("software", m.software);
  value.set("created_ms", static_cast<long long>(m.created_ms));
  value.set("figures", m.figures);
  value.set("provenance", m.provenance);
  Value files = Value::make_array();
  for (const ManifestFile& file : m.files) {
    Value entry = Value::make_table();
    entry.set("path", file.path);
    entry.set("bytes", static_cast<unsigned long long>(file.bytes));
    entry.set("xxh3", file.xxh3);
    files.push_back(std::move(entry));
  }
  value.set("files", std::move(files));
  return write_file_atomic(join_path(folder, manifest_name), to_json_pretty(value));
}

Result<Manifest> read_manifest(const std::string& folder) {
  const std::string path = join_path(folder, manifest_name);
  LH_TRY(const std::string text, read_file(path));
  LH_TRY(const Value value, parse_json(text, path));
  if (value.get_string("file") != "longhaul manifest" || value.get_integer("format") != Manifest::format)
    return make_error(ErrorCode::corrupt, path + " is not a manifest of format 1");
  Manifest m;
  m.stage = value.get_string("stage");
  m.kind = value.get_string("kind");
  m.kind_version = static_cast<int>(value.get_integer("kind_version"));
  m.key = value.get_string("key");
  m.software = value.get_string("software");
  m.created_ms = value.get_integer("created_ms");
  if (const Value* figures = value.find("figures")) m.figures = *figures;
  if (const Value* provenance = value.find("provenance")) m.provenance = *provenance;
  if (const Value* files = value.find("files"); files && files->is_array())
    for (const Value& entry : files->as_array())
      m.files.push_back(
          {entry.get_string("path"), static_cast<std::uint64_t>(entry.get_integer("bytes")), entry.get_string("xxh3")});
  for (const ManifestFile& file : m.files)
    if (!stays_below(file.path))
      return make_error(ErrorCode::corrupt, format("{} names '{}', which is not below its folder", path, file.path),
                        "it was not written by this software: remove the folder and run the stage again");
  if (m.digest() != value.get_string("digest"))
    return make_error(ErrorCode::corrupt, path + ": its digest does not match its content",
                      "the file was edited or damaged");
  return m;
}

Status verify_artifact(const std::string& folder, const Manifest& manifest, bool deep) {
  std::vector<std::string> problems;
  for (const ManifestFile& file : manifest.files) {
    const std::string path = join_path(folder, file.path);
    const auto bytes = file_size(path);
    if (!bytes.ok())
      problems.push_back(bytes.error().what);
    else if (*bytes != file.bytes)
      problems.push_back(format("{} has {} bytes, its manifest says {}", path, *bytes, file.bytes));
    else if (deep) {
      const auto digest = hash_file(path);
      if (!digest.ok() || *digest != file.xxh3) problems.push_back(path + " differs from its manifest's digest");
    }
  }
  if (problems.empty()) return {};
  return make_error(ErrorCode::corrupt, join(problems, "; "), "remove the folder and run the stage again");
}

}  // namespace longhaul
