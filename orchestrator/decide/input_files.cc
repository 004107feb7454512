#include "orchestrator/decide/input_files.h"

#include "base/files/files.h"
#include "base/value/json.h"

namespace longhaul {
namespace {

constexpr const char* file_kind = "longhaul inputs";
constexpr int file_format = 1;
constexpr const char* name_of_file = "inputs.json";
constexpr std::uint64_t inputs_bytes_max = 64 << 20;

}  // namespace

void InputFiles::add(InputFile file) {
  complete = complete && files.size() < kept_max;
  if (complete)
    files.push_back(std::move(file));
  else
    files.clear();
}

Status write_input_files(const std::string& stage_dir, const std::vector<InputFiles>& inputs) {
  Value document = Value::make_table();
  document.set("file", file_kind);
  document.set("format", file_format);
  Value& list = document.set("inputs", Value::make_array());
  for (const InputFiles& input : inputs) {
    Value one = Value::make_table();
    one.set("input", input.input);
    one.set("complete", input.complete);
    Value files = Value::make_array();
    for (const InputFile& file : input.files)
      files.push_back(ValueArray{file.path, static_cast<unsigned long long>(file.bytes), file.digest});
    one.set("files", std::move(files));
    list.push_back(std::move(one));
  }
  LH_CHECK(make_directories(stage_dir));
  return write_file_renamed(join_path(stage_dir, name_of_file), to_json(document) + "\n");
}

std::vector<InputFiles> read_input_files(const std::string& stage_dir) {
  const auto text = read_file(join_path(stage_dir, name_of_file), inputs_bytes_max);
  const auto document = text.ok() ? parse_json(*text) : Result<Value>(text.error());
  std::vector<InputFiles> inputs;
  if (!document.ok() || document->get_string("file") != file_kind || document->get_integer("format") != file_format)
    return inputs;
  const Value* list = document->find("inputs");
  if (!list || !list->is_array()) return inputs;
  for (const Value& one : list->as_array()) {
    InputFiles input;
    input.input = one.get_string("input");
    input.complete = one.get_bool("complete");
    const Value* files = one.find("files");
    if (!files || !files->is_array()) continue;
    for (const Value& file : files->as_array()) {
      if (!file.is_array() || file.size() != 3) continue;
      const ValueArray& parts = file.as_array();
      if (!parts[0].is_string() || !parts[1].is_integer() || !parts[2].is_string()) continue;
      input.files.push_back(
          {parts[0].as_string(), static_cast<std::uint64_t>(parts[1].as_integer()), parts[2].as_string()});
    }
    inputs.push_back(std::move(input));
  }
  return inputs;
}

}  // namespace longhaul
