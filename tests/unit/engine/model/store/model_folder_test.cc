#include "engine/model/store/model_folder.h"

#include <doctest/doctest.h>

#include <cstring>
#include <numeric>

#include "base/digest/philox.h"
#include "base/files/files.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "engine/parallel/mesh/box_copy.h"
#include "tests/support/scratch.h"
#include "tests/support/write_model_folder.h"
#include "tests/unit/engine/train/training_setup.h"

using namespace longhaul;

namespace {

// A file with one tensor "w" (and its scales) of a type, its values in f32, and a reader of it.
struct OneTensor {
  OneTensor(const std::string& folder, SafetensorType type, std::vector<std::int64_t> shape) {
    spec.name = "w", spec.shape = std::move(shape);
    stored = {"w", spec.shape, {spec}};
    const auto count = static_cast<std::size_t>(spec.elements());
    std::vector<SafetensorInfo> infos = {{"w", type, spec.shape}};
    if (type == SafetensorType::i8) infos.push_back({"w_scale", SafetensorType::f32, {spec.shape[0]}});
    auto writer = SafetensorsWriter::create(join_path(folder, "model.safetensors"), infos);
    REQUIRE(writer.ok());
    std::string bytes;
    std::vector<float> scales;
    for (std::int64_t row = 0; row < spec.shape[0]; ++row) scales.push_back(0.5F + static_cast<float>(row));
    for (std::size_t i = 0; i < count; ++i) {
      const float value = static_cast<float>(static_cast<int>(i * 37 % 200) - 100);
      const std::size_t row = i / (count / static_cast<std::size_t>(spec.shape[0]));
      values.push_back(type == SafetensorType::i8 ? value * scales[row] : value);
      add(bytes, type, value);
    }
    REQUIRE(writer->write("w", bytes).ok());
    if (type == SafetensorType::i8)
      REQUIRE(writer->write("w_scale", {reinterpret_cast<const char*>(scales.data()), scales.size() * 4}).ok());
    REQUIRE(writer->finish().ok());
  }
  static void add(std::string& bytes, SafetensorType type, float value) {
    const auto append = [&](auto x) { bytes.append(reinterpret_cast<const char*>(&x), sizeof x); };
    if (type == SafetensorType::f32) append(value);
    if (type == SafetensorType::bf16) append(bf16(value));
    if (type == SafetensorType::f16) append(static_cast<_Float16>(value));
    if (type == SafetensorType::i8) append(static_cast<signed char>(value));
  }
  ParameterSpec spec;
  StoredTensor stored;
  std::vector<float> values;
};

Box some_box(const Philox& random, std::uint64_t& draw, const std::vector<std::int64_t>& shape) {
  Box box;
  for (const std::int64_t size : shape) {
    const auto extent = 1 + static_cast<std::int64_t>(random.u64(draw++) % static_cast<std::uint64_t>(size));
    box.extent.push_back(extent);
    box.offset.push_back(static_cast<std::int64_t>(random.u64(draw++) % static_cast<std::uint64_t>(size - extent + 1)));
  }
  return box;
}

}  // namespace

TEST_CASE("boxes of parameters that a file holds transposed or put together are those of the whole parameter") {
  const testing::Scratch scratch;
  constexpr std::uint64_t seed = 12;
  CAPTURE(seed);
  const Philox random{seed, 0};
  std::uint64_t draw = 0;
  StoredTensor fused{"w", {4, 11}, {}, true};  // [in, 6 + 5]
  for (const std::int64_t out : {6, 5}) fused.parts.push_back({.name = "w" + std::to_string(out), .shape = {out, 4}});
  const OneTensor file_tensor(scratch.path(), SafetensorType::f32, fused.shape);
  const auto file = SafetensorsModel::open(scratch.path());
  REQUIRE(file.ok());
  for (std::size_t part = 0; part < fused.parts.size(); ++part) {
    const ParameterSpec& spec = fused.parts[part];
    // Where each element of the part stands in the file's tensor, by putting their numbers there.
    std::vector<float> whole(static_cast<std::size_t>(spec.elements())), numbers(whole.size());
    std::iota(numbers.begin(), numbers.end(), 0.0F);
    std::vector<float> placed(file_tensor.values.size(), -1);
    put_part(fused, part, numbers, placed);
    for (std::size_t at = 0; at < placed.size(); ++at)
      if (placed[at] >= 0) whole[static_cast<std::size_t>(placed[at])] = file_tensor.values[at];
    for (int i = 0; i < 40; ++i) {
      const Box box = some_box(random, draw, spec.shape);
      std::vector<float> read(static_cast<std::size_t>(box.elements())), expected(read.size());
      REQUIRE(read_stored_box(*file, fused, part, box, read).ok());
      copy_between_boxes(whole, whole_box(spec.shape), 0, spec.elements(), box, expected);
      CHECK(read == expected);
    }
  }
}

TEST_CASE("any box of a tensor is read from the file as it is in the whole of it") {
  const testing::Scratch scratch;
  constexpr std::uint64_t seed = 11;
  CAPTURE(seed);
  const Philox random{seed, 0};
  std::uint64_t draw = 0;
  for (const SafetensorType type :
       {SafetensorType::f32, SafetensorType::bf16, SafetensorType::f16, SafetensorType::i8}) {
    for (const std::vector<std::int64_t>& shape :
         {std::vector<std::int64_t>{7}, std::vector<std::int64_t>{5, 6}, std::vector<std::int64_t>{3, 4, 5}}) {
      const OneTensor tensor(scratch.path(), type, shape);
      const auto file = SafetensorsModel::open(scratch.path());
      REQUIRE(file.ok());
      for (int i = 0; i < 40; ++i) {
        const Box box = some_box(random, draw, shape);
        std::vector<float> read(static_cast<std::size_t>(box.elements())), expected(read.size());
        REQUIRE(read_stored_box(*file, tensor.stored, 0, box, read).ok());
        copy_between_boxes(tensor.values, whole_box(shape), 0, tensor.spec.elements(), box, expected);
        CHECK(read == expected);
      }
    }
  }
}

TEST_CASE("above a size the weights are several files with an index, and read back the same") {
  const testing::Scratch scratch;
  test::TrainingSetup setup(8, 2);
  std::string small_folder;
  for (const std::int64_t limit : {std::int64_t{0}, std::int64_t{20'000}}) {
    const std::string folder = format("{}/{}", scratch.path(), limit);
    ModelFolderOptions options;
    options.shard_bytes_max = limit;
    REQUIRE(testing::write_model_folder(folder, setup.store, options).ok());
    std::size_t files = 0;
    const auto names = list_directory(folder);
    for (const std::string& name : *names) {
      if (!ends_with(name, ".safetensors")) continue;
      ++files;
      if (limit > 0) CHECK(*file_size(join_path(folder, name)) < 20'000 + 2'000);
    }
    CHECK((limit == 0) == (files == 1));
    CHECK(file_exists(join_path(folder, "model.safetensors.index.json")) == (limit > 0));
    ParameterStore again(setup.store.shape(), DType::f32);
    REQUIRE(load_model_weights(setup.context, folder, again).ok());
    CHECK(std::equal(again.masters().begin(), again.masters().end(), setup.store.masters().begin()));
    if (limit > 0) {
      const auto index = parse_json(*read_file(join_path(folder, "model.safetensors.index.json")), "index");
      CHECK(index->find("metadata")->get_integer("total_size") == 4 * setup.store.shape().parameter_count());
    }
    small_folder = folder;
  }
  // Written again as one file, what the index named is read no more.
  ModelFolderOptions options;
  options.shard_bytes_max = 0;
  REQUIRE(testing::write_model_folder(small_folder, setup.store, options).ok());
  CHECK_FALSE(file_exists(join_path(small_folder, "model.safetensors.index.json")));
}

TEST_CASE("a model that is written keeps its templates, all its end tokens and how it is meant to be sampled") {
  const testing::Scratch from, to;
  const std::string generation = R"({"temperature":0.6,"eos_token_id":[5,6],"bos_token_id":1})";
  for (const auto& [name, text] : {std::pair{"chat_template.jinja", "{{ x }}\n"},
                                   {"tokenizer_config.json", "{ }"},
                                   {"generation_config.json", generation.c_str()}})
    REQUIRE(write_file_atomic(from.file(name), text).ok());
  const test::TrainingSetup setup(8, 2);
  ModelFolderOptions options;
  options.config.eos_token_ids = {5, 6}, options.config.bos_token_id = 1;
  options.tokenizer_folder = from.path();
  REQUIRE(testing::write_model_folder(to.path(), setup.store, options).ok());
  CHECK(read_file(to.file("chat_template.jinja")).value() == "{{ x }}\n");
  CHECK(read_file(to.file("tokenizer_config.json")).value() == "{ }");
  const Value made = parse_json(read_file(to.file("generation_config.json")).value()).value();
  CHECK(made.get_number("temperature") == 0.6);
  CHECK(to_json(*made.find("eos_token_id")) == "[5,6]");
  CHECK(load_hf_config(to.file("config.json"))->eos_token_ids == std::vector<std::int64_t>{5, 6});
}
