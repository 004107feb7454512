// Which files of a folder hold a model's weights, and headers that say something twice (tests/cases/models).
#include <doctest/doctest.h>

#include <cstring>
#include <vector>

#include "base/files/files.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "engine/interop/folder/model_companions.h"
#include "engine/interop/safetensors.h"
#include "tests/support/scratch.h"

using namespace longhaul;

namespace {

std::vector<Value> folder_cases(const std::string& name) {
  std::vector<Value> rows;
  const std::string path = std::string(LONGHAUL_SOURCE_DIR) + "/tests/cases/models/" + name;
  for (const std::string& line : split(read_file(path).value(), '\n'))
    if (!line.empty()) rows.push_back(parse_json(line).value());
  return rows;
}

std::vector<float> numbers_of(const Value& tensor) {
  std::vector<float> numbers;
  const ValueArray one = {tensor};
  for (const Value& number : tensor.is_array() ? tensor.as_array() : one)
    numbers.push_back(static_cast<float>(number.as_number()));
  return numbers;
}

// {"a": 1, "b": [1, 2]}: a tensor of one number, and one of two.
void write_weights(const std::string& path, const Value& tensors) {
  std::vector<SafetensorInfo> infos;
  for (const ValueMember& tensor : tensors.as_table())
    infos.push_back({tensor.key, SafetensorType::f32, {static_cast<std::int64_t>(numbers_of(tensor.value).size())}});
  SafetensorsWriter writer = SafetensorsWriter::create(path, infos).value();
  for (const ValueMember& tensor : tensors.as_table()) {
    const std::vector<float> numbers = numbers_of(tensor.value);
    REQUIRE(
        writer.write(tensor.key, {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(float)}).ok());
  }
  REQUIRE(writer.finish().ok());
}

template <class T>
void check_said(const Result<T>& result, const std::string& part) {
  REQUIRE_FALSE(result.ok());
  CHECK_MESSAGE(result.error().message().find(part) != std::string::npos, result.error().message());
}

}  // namespace

TEST_CASE("weights are judged by what the files of a folder hold") {
  for (const Value& row : folder_cases("weights.jsonl")) {
    CAPTURE(row.get_string("why"));
    const testing::Scratch folder;
    for (const ValueMember& file : row.find("files")->as_table())
      write_weights(join_path(folder.path(), file.key), file.value);
    if (const Value* map = row.find("index")) {
      Value index = Value::make_table();
      index.set("weight_map", map->size() == 0 ? Value::make_table() : *map);
      REQUIRE(write_file_atomic(join_path(folder.path(), "model.safetensors.index.json"), to_json(index)).ok());
    }
    const Result<SafetensorsModel> model = SafetensorsModel::open(folder.path());
    if (row.find("refused")) {
      check_said(model, row.get_string("refused"));
      continue;
    }
    REQUIRE_MESSAGE(model.ok(), model.error().message());
    CHECK(model->names().size() == row.find("holds")->size());
    for (const ValueMember& tensor : row.find("holds")->as_table()) {
      float number = 0;
      REQUIRE(convert_to_f32(model->find(tensor.key).value(), {&number, 1}).ok());
      CHECK(number == static_cast<float>(tensor.value.as_number()));
    }
  }
}

TEST_CASE("a header that says something twice is refused by the key") {
  for (const Value& row : folder_cases("headers.jsonl")) {
    CAPTURE(row.get_string("why"));
    const testing::Scratch folder;
    const std::string path = join_path(folder.path(), "model.safetensors"), header = row.get_string("header");
    std::string bytes(8, '\0');
    const std::uint64_t length = header.size();
    std::memcpy(bytes.data(), &length, 8);
    REQUIRE(write_file_atomic(path, bytes + header + std::string(8, '\1')).ok());
    const Result<SafetensorsFile> file = SafetensorsFile::open(path);
    if (row.find("doubled"))
      check_said(file, "the key '" + row.get_string("doubled") + "' stands twice");
    else
      CHECK_MESSAGE(file.ok(), file.error().message());
  }
}

TEST_CASE("tied weights are found under either name, and two that differ are refused") {
  for (const Value& row : folder_cases("tied.jsonl")) {
    CAPTURE(row.get_string("why"));
    const testing::Scratch folder;
    write_weights(join_path(folder.path(), "model.safetensors"), *row.find("holds"));
    SafetensorsModel model = SafetensorsModel::open(folder.path()).value();
    const Status tied = model.tie("model.embed_tokens.weight", "lm_head.weight");
    if (row.find("refused")) {
      check_said(tied, row.get_string("refused"));
      continue;
    }
    REQUIRE_MESSAGE(tied.ok(), tied.error().message());
    for (const Value& name : row.find("finds")->as_array()) CHECK(model.find(name.as_string()).ok());
    if (row.find("finds")->size() == 0) CHECK_FALSE(model.find("model.embed_tokens.weight").ok());
  }
}

TEST_CASE("everything that belongs to a model is carried on as it is, and nothing else") {
  const testing::Scratch from, to;
  REQUIRE(make_directories(join_path(from.path(), "additional_chat_templates")).ok());
  const std::vector<std::string> names = {"tokenizer.json",         "tokenizer_config.json",
                                          "chat_template.jinja",    "special_tokens_map.json",
                                          "generation_config.json", "additional_chat_templates/rag.jinja"};
  for (const std::string& name : names) REQUIRE(write_file_atomic(join_path(from.path(), name), name + "\n ").ok());
  REQUIRE(write_file_atomic(join_path(from.path(), "config.json"), "{}").ok());
  REQUIRE(write_file_atomic(join_path(from.path(), "optimizer.pt"), "x").ok());
  REQUIRE(copy_model_companions(from.path(), to.path()).ok());
  for (const std::string& name : names) CHECK(read_file(join_path(to.path(), name)).value() == name + "\n ");
  CHECK(list_directory(to.path()).value().size() == names.size());  // the folder of templates among them
}
