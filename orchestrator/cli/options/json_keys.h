// The JSON documents of commands, key by key: what docs/reference/json.md holds, and what a test compares with the
// documents that the commands print.
#pragma once

#include <string>
#include <vector>

namespace longhaul {

// "runs[].stage.id": [] is any element of a list, NAME any key that is a name, .* at the end all that lies below (and
// `meaning` says where it is described).
struct JsonKey {
  std::string path, type, meaning;
};
struct JsonDocument {
  std::string command;  // "runs"
  std::string when;     // in which cases keys are left out, and what the format's number is for
  std::vector<JsonKey> keys;
};
const std::vector<JsonDocument>& json_documents();
// Those of them that stand in files of their own.
JsonDocument plan_json_document();
JsonDocument status_json_document();
JsonDocument checkpoints_json_document();
JsonDocument report_json_document();
std::vector<JsonDocument> command_json_documents();  // `errors`, and commands with few keys
std::vector<JsonDocument> site_json_documents();     // machines, faults, files, questions

}  // namespace longhaul
