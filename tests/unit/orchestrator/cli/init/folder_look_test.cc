// What `longhaul init` sees in a folder.
#include "orchestrator/cli/init/folder_look.h"

#include <doctest/doctest.h>

#include "base/files/files.h"
#include "base/text/text.h"
#include "tests/support/scratch.h"

namespace longhaul {
namespace {

using Names = std::vector<std::string>;

void put_file(const std::string& path, const std::string& text) {
  REQUIRE(make_directories(parent_path(path)).ok());
  REQUIRE(write_file_atomic(path, text).ok());
}

FolderLook look_of(const std::string& folder, const FolderLimits& limits = {}) {
  const auto look = look_at_folder(folder, limits);
  REQUIRE_MESSAGE(look.ok(), (look.ok() ? "" : look.error().message()));
  return *look;
}

const std::string a_chat = R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})";

}  // namespace

TEST_CASE("init: texts are named one by one, many of a kind as a glob, a folder of them by its name") {
  const testing::Scratch scratch;
  put_file(scratch.file("a.txt"), "one\n");
  put_file(scratch.file("README.md"), "of the project\n");
  put_file(scratch.file(".hidden/b.txt"), "hidden\n");
  put_file(scratch.file("runs/x/c.txt"), "of a run\n");
  put_file(scratch.file("more/deep/d.html"), "<p>four</p>\n");
  put_file(scratch.file("rows.jsonl"), "{\"text\": \"five\"}\n");
  FolderLook look = look_of(scratch.file(""));
  CHECK(look.documents == Names{"rows.jsonl", "a.txt", "more"});
  CHECK(look.document_files == 3);
  CHECK(look.document_bytes == 4 + 12 + 17);
  CHECK(look.rows.empty());
  for (int i = 0; i < 9; ++i) put_file(scratch.file(format("t{}.txt", i)), "text\n");
  look = look_of(scratch.file("") + "/");
  CHECK(look.documents == Names{"rows.jsonl", "*.txt", "more"});
}

TEST_CASE("init: rows are known by their keys, and what their form does not know is to be ignored") {
  const testing::Scratch scratch;
  put_file(scratch.file("chats.jsonl"), a_chat + "\n" + R"({"input": "a", "output": "b", "id": 7})" + "\n");
  put_file(scratch.file("pairs.jsonl"), R"({"prompt": "a", "chosen": "b", "rejected": "c"})"
                                        "\n");
  put_file(scratch.file("data/labels.jsonl"), R"({"prompt": "a", "completion": "b", "label": true})"
                                              "\n");
  put_file(scratch.file("data/page.txt"), "text\n");
  put_file(scratch.file("broken.jsonl"), "not JSON\n");
  put_file(scratch.file("mixed.jsonl"), a_chat + "\n" + R"({"prompt": "a", "chosen": "b", "rejected": "c"})" + "\n");
  const FolderLook look = look_of(scratch.file(""));
  REQUIRE(look.rows.size() == 3);
  CHECK(look.rows[0].name == "chats.jsonl");
  CHECK(look.rows[0].use == TuningRowUse::instruction);
  CHECK(look.rows[0].ignore == Names{"id"});
  CHECK(look.rows[1].name == "data/labels.jsonl");
  CHECK(look.rows[1].use == TuningRowUse::labelled);
  CHECK(look.rows[2].use == TuningRowUse::preference);
  CHECK(look.documents == Names{"data/page.txt"});  // the folder itself would bring the rows along
  CHECK(look.others == 2);
}

TEST_CASE("init: models, workflows, scripts, images and names that a workflow would read as something else") {
  const testing::Scratch scratch;
  put_file(scratch.file("model/config.json"), "{}");
  put_file(scratch.file("model/model.safetensors"), "x");
  put_file(scratch.file("model/vocab.txt"), "not a text of the user's");
  put_file(scratch.file("my.toml"), "[workflow]\nname = \"x\"\n");
  put_file(scratch.file("pyproject.toml"), "[project]\n");
  put_file(scratch.file("util.py"), "");
  put_file(scratch.file("train_model.py"), "");
  put_file(scratch.file("test_it.py"), "");
  put_file(scratch.file("a.PNG"), "x");
  put_file(scratch.file("odd[1].txt"), "x");
  put_file(scratch.file("@stage.txt"), "x");
  const FolderLook look = look_of(scratch.file(""));
  CHECK(look.models == Names{"model"});
  CHECK(look.workflows == Names{"my.toml"});
  CHECK(look.scripts == Names{"train_model.py", "util.py", "test_it.py"});
  CHECK(look.images == 1);
  CHECK(look.documents.empty());
  CHECK(look_of(scratch.file("model")).models == Names{"."});
  CHECK(look_at_folder(scratch.file("nowhere")).error().code == ErrorCode::not_found);
  CHECK(look_at_folder(scratch.file("my.toml")).error().what.find("is no folder") != std::string::npos);
}

TEST_CASE("init: a large folder is looked at as far as the limit, and that is known") {
  const testing::Scratch scratch;
  for (int i = 0; i < 20; ++i) put_file(scratch.file(format("many/{}.txt", i)), "text\n");
  FolderLimits limits;
  limits.entries = 8;
  const FolderLook look = look_of(scratch.file(""), limits);
  CHECK(!look.whole);
  CHECK(look.document_files == 7);
  CHECK(look.documents == Names{"many"});
}

}  // namespace longhaul
