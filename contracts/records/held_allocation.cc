#include "contracts/records/held_allocation.h"

#include "base/files/files.h"
#include "base/value/json.h"

namespace longhaul {

Value allocation_held_to_value(const AllocationHeld& held) {
  Value value = Value::make_table();
  value.set("held_s", held.held_s);
  value.set("gpu_minutes", held.gpu_minutes);
  value.set("gpus", held.gpus);
  if (held.gave_back_s >= 0) value.set("gave_back_s", held.gave_back_s);
  value.set("left", held.left);
  return value;
}

AllocationHeld allocation_held_from_value(const Value& value) {
  AllocationHeld held;
  held.held_s = value.get_number("held_s");
  held.gpu_minutes = value.get_number("gpu_minutes");
  held.gpus = static_cast<int>(value.get_integer("gpus"));
  if (const Value* given = value.find("gave_back_s"); given && given->is_number())
    held.gave_back_s = given->as_number();
  held.left = value.get_string("left");
  return held;
}

std::string follower_path(const std::string& run_dir) {
  return join_path(run_dir, "driver/follower.json");
}

Follower read_follower(const std::string& run_dir) {
  Follower follower;
  const std::string path = follower_path(run_dir);
  const auto text = read_file(path);
  if (!text.ok()) return follower;
  const auto value = parse_json(*text, path);
  if (!value.ok() || !value->is_table()) return follower;
  follower.job = value->get_string("job");
  if (const Value* behind = value->find("behind"); behind && behind->is_array())
    for (const Value& id : behind->as_array())
      if (id.is_string()) follower.behind.push_back(id.as_string());
  return follower;
}

Status write_follower(const std::string& run_dir, const Follower& follower) {
  const std::string path = follower_path(run_dir);
  if (follower.job.empty()) return remove_tree(path);
  LH_CHECK(make_directories(parent_path(path)));
  Value value = Value::make_table();
  value.set("file", "longhaul follower");
  value.set("format", 1);
  value.set("job", follower.job);
  value.set("behind", ValueArray(follower.behind.begin(), follower.behind.end()));
  return write_file_renamed(path, to_json(value) + "\n");
}

}  // namespace longhaul
