#include "engine/interop/weight_files.h"

#include <algorithm>
#include <set>

#include "base/text/text.h"
#include "base/value/json.h"
#include "engine/interop/json_keys.h"

namespace longhaul {
namespace {

constexpr const char *single_file_name = "model.safetensors", *index_file_name = "model.safetensors.index.json";

Error broken_weights(const std::string& path, std::string what, std::string hint = "copy or download the file again") {
  return make_error(ErrorCode::corrupt, format("{}: {}", path, what), std::move(hint));
}

Status open_file(const std::string& folder, const std::string& name, WeightFiles& into) {
  LH_TRY(SafetensorsFile file, SafetensorsFile::open(join_path(folder, name)));
  into.files.push_back(std::move(file));
  return {};
}

// Tensors that the index does not speak of are taken, too, as other readers take them; one of that kind in two files
// is nobody's.
Status add_unnamed(WeightFiles& into, const std::string& where) {
  std::map<std::string, std::size_t> found;
  for (std::size_t i = 0; i < into.files.size(); ++i)
    for (const auto& [name, view] : into.files[i].tensors()) {
      if (into.file_of.contains(name)) continue;
      if (!found.emplace(name, i).second)
        return broken_weights(
            where,
            format("tensor '{}' stands in {} and in {}", name, into.files[found[name]].path(), into.files[i].path()),
            "remove the file that does not belong to the model");
    }
  into.file_of.merge(found);
  return {};
}

Result<WeightFiles> open_single(const std::string& folder) {
  WeightFiles made;
  LH_CHECK(open_file(folder, single_file_name, made));
  for (const auto& [name, view] : made.files[0].tensors()) made.file_of[name] = 0;
  return made;
}

struct Index {
  std::string path;
  std::vector<std::pair<std::string, std::string>> file_of;  // tensor, file
  std::set<std::string> files;
};

Result<Index> read_index(const std::string& folder) {
  Index index{join_path(folder, index_file_name), {}, {}};
  LH_TRY(const std::string text, read_file(index.path));
  LH_TRY(const Value json, parse_json(text, index.path));
  if (const auto key = doubled_json_key(text))
    return broken_weights(index.path, format("the key '{}' stands twice", *key));
  const Value* weights = json.find("weight_map");
  if (!weights || !weights->is_table()) return broken_weights(index.path, "weight_map is missing");
  for (const ValueMember& member : weights->as_table()) {
    if (!member.value.is_string())
      return broken_weights(index.path, format("weight_map.{} is not a file name", member.key));
    const std::string& file = member.value.as_string();
    if (file.empty() || file.find('/') != std::string::npos)
      return broken_weights(index.path,
                            format("weight_map.{}: '{}' is not a file name in the same folder", member.key, file));
    index.file_of.emplace_back(member.key, file);
    index.files.insert(file);
  }
  return index;
}

Result<WeightFiles> open_indexed(const std::string& folder, const Index& index) {
  WeightFiles made;
  std::map<std::string, std::size_t> opened;
  for (const auto& [tensor, file] : index.file_of) {
    if (!opened.contains(file)) {
      LH_CHECK(open_file(folder, file, made).with_context(index.path));
      opened[file] = made.files.size() - 1;
    }
    if (!made.files[opened[file]].tensors().contains(tensor))
      return broken_weights(index.path, format("tensor '{}' is not in {}", tensor, file));
    made.file_of[tensor] = opened[file];
  }
  LH_CHECK(add_unnamed(made, index.path));
  return made;
}

bool is_same(const WeightFiles& a, const WeightFiles& b) {
  if (a.file_of.size() != b.file_of.size()) return false;
  for (const auto& [name, file] : a.file_of) {
    const auto other = b.file_of.find(name);
    if (other == b.file_of.end()) return false;
    const SafetensorView &x = a.files[file].tensors().at(name), &y = b.files[other->second].tensors().at(name);
    if (x.type != y.type || x.shape != y.shape || x.bytes != y.bytes) return false;
  }
  return true;
}

// The number of files in "model-00001-of-00003.safetensors"; 0: another name.
int shards_of(const std::string& name, int& which) {
  constexpr std::string_view form = "model-ddddd-of-ddddd.safetensors";
  if (name.size() != form.size()) return 0;
  int numbers[2] = {0, 0};
  for (std::size_t i = 0; i < form.size(); ++i) {
    if (i < 6 || (i > 10 && i < 15) || i > 19) {
      if (name[i] != form[i]) return 0;
      continue;
    }
    if (name[i] < '0' || name[i] > '9') return 0;
    int& number = numbers[i < 15 ? 0 : 1];
    number = 10 * number + (name[i] - '0');
  }
  which = numbers[0];
  return numbers[1];
}

Result<WeightFiles> open_shards(const std::string& folder) {
  LH_TRY(std::vector<std::string> names, list_directory(folder));
  std::sort(names.begin(), names.end());
  WeightFiles made;
  std::set<int> there, counts;
  for (const std::string& name : names) {
    int which = 0;
    const int count = shards_of(name, which);
    if (count == 0) continue;
    there.insert(which), counts.insert(count);
    LH_CHECK(open_file(folder, name, made));
  }
  if (made.files.empty()) return open_single(folder);  // names the file that is missing
  if (counts.size() != 1 || static_cast<int>(there.size()) != *counts.begin() || *there.begin() != 1 ||
      *there.rbegin() != *counts.begin())
    return broken_weights(folder, format("holds {} weight files of the {} that their names speak of, and no {}",
                                         there.size(), *counts.rbegin(), index_file_name));
  LH_CHECK(add_unnamed(made, folder));
  return made;
}

}  // namespace

Result<WeightFiles> find_weight_files(const std::string& folder) {
  const bool single = file_exists(join_path(folder, single_file_name));
  if (!file_exists(join_path(folder, index_file_name))) return single ? open_single(folder) : open_shards(folder);
  LH_TRY(const Index index, read_index(folder));
  if (!single || index.files == std::set<std::string>{single_file_name}) return open_indexed(folder, index);
  const bool all_there = std::all_of(index.files.begin(), index.files.end(),
                                     [&](const std::string& file) { return file_exists(join_path(folder, file)); });
  LH_TRY(WeightFiles alone, open_single(folder));
  if (!all_there || index.files.empty()) return alone;
  LH_TRY(const WeightFiles indexed, open_indexed(folder, index));
  if (is_same(alone, indexed)) return alone;
  return make_error(ErrorCode::invalid_input,
                    format("{} holds two models: {} and the files of {} are not the same weights", folder,
                           single_file_name, index_file_name),
                    "remove the ones that are old");
}

}  // namespace longhaul
