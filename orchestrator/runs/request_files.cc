#include "orchestrator/runs/request_files.h"

#include "base/files/files.h"
#include "base/value/json.h"
#include "orchestrator/state/authored_file.h"

namespace longhaul {
namespace {
constexpr std::uint64_t request_bytes_max = 1 << 20;
}  // namespace

std::optional<RequestSeen> read_request(const std::string& folder, const std::string& name) {
  RequestSeen request{name, "unreadable"};
  const auto file = read_with_author(join_path(folder, name), request_bytes_max);
  if (!file.ok() && file.error().code == ErrorCode::not_found) return std::nullopt;
  if (!file.ok()) return request;
  request.uid = file->uid;
  const auto value = parse_json(file->text, name);
  if (!value.ok() || value->get_string("id", name) != name) return request;
  request.what = value->get_string("what");
  if (const Value* arguments = value->find("arguments")) request.arguments = *arguments;
  return request;
}

}  // namespace longhaul
