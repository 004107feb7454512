// The text of a first workflow. That it is valid and runs: tests/e2e/first_hour_test.py.
#include "orchestrator/cli/init/first_workflow.h"

#include <doctest/doctest.h>

#include "base/text/text.h"
#include "base/toml.h"

namespace longhaul {
namespace {

const MachineLook first_machine{"host", 4, std::int64_t{8} << 30, false, false};

FolderLook folder_of(const std::string& path = "/home/me/my texts.d") {
  FolderLook look;
  look.path = path;
  return look;
}

FolderLook with_texts(FolderLook look) {
  look.documents = {"a.txt", "more"};
  look.document_files = 3, look.document_bytes = 5000;
  return look;
}

Value stages_of(const FolderLook& look, std::int64_t context = 0) {
  const auto made = first_workflow(look, context, first_machine);
  REQUIRE_MESSAGE(made.ok(), (made.ok() ? "" : made.error().message()));
  const auto file = parse_toml(made->text, "workflow.toml");
  REQUIRE_MESSAGE(file.ok(), (file.ok() ? made->text : file.error().message()));
  return *file->find("stage");
}

std::string names_of(const Value& stages) {
  std::vector<std::string> names;
  for (const ValueMember& stage : stages.as_table()) names.push_back(stage.key);
  return join(names, " ");
}

std::string model_input(const Value& stages, const std::string& name) {
  return stages.find(name)->find("inputs")->get_string("model");
}

Error refusal_of(const FolderLook& look) {
  const auto made = first_workflow(look, 0, first_machine);
  REQUIRE(!made.ok());
  return made.error();
}

}  // namespace

TEST_CASE("init: texts become a small model, and rows beside them tune it") {
  FolderLook look = with_texts(folder_of());
  Value stages = stages_of(look);
  CHECK(names_of(stages) == "corpus tokens pretrain evaluate quantize deploy");
  CHECK(model_input(stages, "deploy") == "@quantize");
  CHECK(parse_toml(first_workflow(look, 0, first_machine)->text, "w")->find("workflow")->get_string("name") ==
        "my-texts");
  look.rows = {{"chats.jsonl", TuningRowUse::instruction, {"id"}},
               {"pairs.jsonl", TuningRowUse::preference, {}},
               {"labels.jsonl", TuningRowUse::labelled, {}}};
  stages = stages_of(look);
  CHECK(names_of(stages) == "corpus tokens pretrain chat align evaluate quantize deploy");
  CHECK(model_input(stages, "align") == "@chat");
  CHECK(model_input(stages, "quantize") == "@align");
  CHECK(stages.find("chat")->get_integer("sequence_length") ==
        stages.find("pretrain")->find("model")->get_integer("max_position_embeddings"));
  CHECK(stages.find("chat")->find("ignore")->as_array().at(0).as_string() == "id");
  CHECK(first_workflow(look, 0, first_machine)->notes ==
        std::vector<std::string>{"labels.jsonl is not used: another file of its kind is"});
}

TEST_CASE("init: a model is tuned on rows within its context, measured on texts, or served alone") {
  FolderLook look = folder_of();
  look.models = {"m", "other"};
  CHECK(names_of(stages_of(look, 128)) == "deploy");
  look.rows = {{"labels.jsonl", TuningRowUse::labelled, {}}};
  const Value tuned = stages_of(look, 128);
  CHECK(names_of(tuned) == "align deploy");
  CHECK(tuned.find("align")->get_string("method") == "kto");
  CHECK(tuned.find("align")->get_integer("sequence_length") == 128);
  CHECK(model_input(tuned, "align") == "m");
  look.rows.clear();
  const Value measured = stages_of(with_texts(look), 128);
  CHECK(names_of(measured) == "corpus tokens evaluate deploy");
  CHECK(measured.find("tokens")->find("inputs")->get_string("tokenizer") == "m");
}

TEST_CASE("init: a script is a command, and the texts beside it are left to it") {
  FolderLook look = with_texts(folder_of());
  look.scripts = {"train.py", "util.py"};
  const Value stages = stages_of(look);
  CHECK(names_of(stages) == "train");
  CHECK(stages.find("train")->find("argv")->as_array().at(0).as_string() == "python3");
  CHECK(first_workflow(look, 0, first_machine)->notes.size() == 2);
  look.scripts = {"go.sh"};
  CHECK(stages_of(look).find("go")->find("argv")->as_array().at(0).as_string() == "bash");
}

TEST_CASE("init: what is no beginning is refused by a sentence that says what to do") {
  FolderLook look = folder_of("/here");
  CHECK(refusal_of(look).what == "/here is empty: there is nothing that a workflow could begin with");
  look.images = 12, look.an_image = "a.png";
  CHECK(refusal_of(look).what.find("/here holds 12 images (such as a.png) and no text") == 0);
  look.others = 1, look.an_other = "b.pdf";
  CHECK(refusal_of(look).what == "/here holds nothing that a workflow could begin with: 13 files, such as b.pdf");
  CHECK(refusal_of(look).code == ErrorCode::not_found);
  look.rows = {{"chats.jsonl", TuningRowUse::instruction, {}}};
  CHECK(refusal_of(look).what.find("no model lies here") != std::string::npos);
  look.models = {"."};
  CHECK(refusal_of(look).hint == "call longhaul init in the folder above it");
  look.workflows = {"my.toml"};
  CHECK(refusal_of(look).what == "/here/my.toml is a workflow already, and stays as it is");
  CHECK(refusal_of(look).code == ErrorCode::invalid_input);
  FolderLook little = with_texts(folder_of());
  little.document_bytes = first_text_bytes_min - 1;
  CHECK(refusal_of(little).what.find("have 999 bytes together: too few to train on") != std::string::npos);
}

}  // namespace longhaul
