// manifest.json of an artifact: which files, which digests, what made it. Written into the staging folder just before
// the one rename that publishes it, so a folder with a manifest is whole.
#pragma once

#include <string>
#include <vector>

#include "base/value/value.h"

namespace longhaul {

struct ManifestFile {
  std::string path;  // relative to the artifact
  std::uint64_t bytes = 0;
  std::string xxh3;  // 128 bits, hex
};

struct Manifest {
  static constexpr int format = 1;
  std::string stage, kind, key;
  int kind_version = 1;
  std::string software;  // "longhaul 0.1.0"
  std::int64_t created_ms = 0;
  std::vector<ManifestFile> files;  // sorted by path, without manifest.json
  Value figures;                    // table: name = value, from artifact.json
  Value provenance;                 // table: inputs by digest, settings

  // Of files, kind and version; not of times and figures. What depends on this artifact depends on this.
  std::string digest() const;
};

// Walks `folder`, digests every file, adds what `artifact.json` (if the stage wrote one: {"figures": {...}}) says.
Result<Manifest> make_manifest(const std::string& folder);
Status write_manifest(const std::string& folder, const Manifest& manifest);
// corrupt: damaged, or a path in it is absolute or has "..".
Result<Manifest> read_manifest(const std::string& folder);
// Every file there, of the right size and (if `deep`) digest? The error names all files that are not.
Status verify_artifact(const std::string& folder, const Manifest& manifest, bool deep);

}  // namespace longhaul
