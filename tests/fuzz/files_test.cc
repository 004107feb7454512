// What strangers bring: JSON, TOML, safetensors, tokenizers, token files, checkpoints, model configs, pages,
// conversations.
#include "base/files/files.h"

#include <doctest/doctest.h>

#include <cstdio>
#include <numeric>

#include "base/text/text.h"
#include "base/toml.h"
#include "base/value/json.h"
#include "contracts/model/hf_config.h"
#include "contracts/records/checkpoint_format.h"
#include "contracts/records/manifest.h"
#include "engine/data/files/indexed_dataset.h"
#include "engine/data/samples/instruct_data.h"
#include "engine/data/tokenizer/tokenizer.h"
#include "engine/interop/safetensors.h"
#include "tests/fuzz/mutate.h"
#include "tests/support/plain_file.h"
#include "tests/support/scratch.h"
#ifdef LONGHAUL_HAVE_CURATE
#include "engine/curate/html/html_text.h"
#endif

#if defined(LONGHAUL_FUZZ_ASAN)
extern "C" const char* __asan_default_options() {
  return "max_allocation_size_mb=1024";
}
#endif

namespace longhaul {
namespace {

using fuzz::good_or_refused;

// Removed first: a file system may sync a file that is cut to nothing and written again.
bool write_new(const std::string& path, const std::string& bytes) {
  std::remove(path.c_str());
  return write_plain(path, bytes);
}

std::string golden(const std::string& name) {
  return read_file(std::string(LONGHAUL_SOURCE_DIR) + "/tests/parity/golden/" + name).value();
}

std::string some_checkpoint() {
  CheckpointManifest manifest;
  manifest.step = 240;
  manifest.shape = resolve_shape({.vocab_size = 64, .hidden_size = 32}).value();
  manifest.extra = Value::make_table();
  manifest.tensors = {{"a", {4, 6}}, {"b", {5}}};
  const Box left{{0, 0}, {4, 3}}, right{{0, 3}, {4, 3}}, whole{{0}, {5}};
  manifest.entries = {{"a", left, 0, 12, "s1", "a.0", "F32", 1},
                      {"a", right, 0, 12, "s2", "a.1", "F32", 2},
                      {"b", whole, 0, 3, "s1", "b.0", "F32", 3},
                      {"b", whole, 3, 5, "s2", "b.1", "F32", 4}};
  return to_json_pretty(checkpoint_to_value(manifest));
}

}  // namespace

TEST_CASE("fuzz: JSON") {
  const std::string deep = std::string(300, '[') + "1" + std::string(300, ']');
  fuzz::run("json", {golden("model-untied/config.json"), R"({"a":[1,-2.5e3,"\u00e9\ud83d\ude00",null,true,{}]})", deep},
            1500, [](const std::string& text) {
              const auto value = parse_json(text);
              if (value.ok()) {
                const auto again = parse_json(to_json(*value));  // what was taken can be said and read again
                REQUIRE(again.ok());
              }
              return good_or_refused(value);
            });
}

TEST_CASE("fuzz: TOML") {
  const std::string source = LONGHAUL_SOURCE_DIR;
  fuzz::run("toml",
            {read_file(source + "/workflows/quickstart.toml").value(),
             "a = { b = [1, 2.5, \"x\"], c = 1979-05-27 }\n[[d]]\ne = '''x'''\n"},
            1500, [](const std::string& text) { return good_or_refused(parse_toml(text, "x.toml")); });
}

TEST_CASE("fuzz: safetensors") {
  const testing::Scratch scratch;
  const std::string path = scratch.file("x.safetensors");
  fuzz::run("safetensors", {golden("small.safetensors")}, 2500, [&](const std::string& bytes) {
    REQUIRE(write_new(path, bytes));
    const auto file = SafetensorsFile::open(path);
    if (!file.ok()) return good_or_refused(file);
    unsigned sum = 0;
    for (const auto& [name, tensor] : file->tensors()) {
      for (const char c : tensor.bytes) sum += static_cast<unsigned char>(c);  // every byte that is promised is there
      REQUIRE(tensor.elements() >= 0);
      REQUIRE(static_cast<std::size_t>(tensor.elements()) * element_bytes(tensor.type) == tensor.bytes.size());
      std::vector<float> values(static_cast<std::size_t>(tensor.elements()));
      good_or_refused(convert_to_f32(tensor, values));
    }
    return sum < ~0U;
  });
}

TEST_CASE("fuzz: tokenizer.json") {
  const std::string small = golden("model-untied/tokenizer.json");
  const std::string text = "Hello w\xc3\xb6rld 123\n<|endoftext|>";
  fuzz::run("tokenizer", {small}, 400, [&](const std::string& json) {
    const auto tokenizer = Tokenizer::parse(json);
    if (!tokenizer.ok()) return good_or_refused(tokenizer);
    const auto ids = tokenizer->encode(text, true);
    if (!ids.ok()) return good_or_refused(ids);
    for (const std::int32_t id : *ids) {
      REQUIRE(id >= 0);
      REQUIRE(id < tokenizer->vocab_size());
    }
    const std::vector<std::int32_t> strange = {-1, 0, tokenizer->vocab_size(), 1 << 30};
    (void)tokenizer->decode(strange);
    return true;
  });
}

TEST_CASE("fuzz: token files") {
  const testing::Scratch scratch;
  const std::string prefix = scratch.file("x");
  for (const TokenType type : {TokenType::u16, TokenType::i32}) {
    auto writer = IndexedDatasetWriter::create(prefix, type).value();
    std::vector<std::int32_t> ids(40);
    std::iota(ids.begin(), ids.end(), 0);
    for (std::size_t n : {40, 0, 7, 1}) REQUIRE(writer.add_document(std::span(ids).first(n)).ok());
    REQUIRE(writer.finish().ok());
    const std::string idx = read_file(prefix + ".idx").value();
    fuzz::run("idx", {idx}, 1200, [&](const std::string& bytes) {
      REQUIRE(write_new(prefix + ".idx", bytes));
      const auto dataset = IndexedDataset::open(prefix);
      if (!dataset.ok()) return good_or_refused(dataset);
      std::vector<std::int32_t> out(static_cast<std::size_t>(dataset->tokens()));
      dataset->read(0, out);
      for (std::int64_t d = 0; d < dataset->documents(); ++d) (void)dataset->read_document(d);
      return true;
    });
  }
}

TEST_CASE("fuzz: checkpoint manifests") {
  fuzz::run("checkpoint", {some_checkpoint()}, 2500, [](const std::string& text) {
    const auto value = parse_json(text);
    if (!value.ok()) return false;
    const auto manifest = checkpoint_from_value(*value);
    return good_or_refused(manifest) && good_or_refused(check_coverage(*manifest));
  });
}

TEST_CASE("fuzz: config.json") {
  fuzz::run("config", {golden("model-untied/config.json"), golden("model-tied-llama3/config.json")}, 1500,
            [](const std::string& text) {
              const auto value = parse_json(text);
              if (!value.ok()) return false;
              const auto config = read_hf_config(*value, "config.json");
              if (config.ok()) REQUIRE(config->shape.parameter_count() > 0);
              return good_or_refused(config);
            });
}

TEST_CASE("fuzz: conversations and preferences") {
  const std::string lines =
      "{\"input\": \"a\", \"output\": \"b\"}\n{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}, {\"role\": "
      "\"assistant\", \"content\": \"y\"}]}\n";
  fuzz::run("instructions", {lines}, 1500,
            [](const std::string& text) { return good_or_refused(parse_instructions(text, "x.jsonl")); });
  fuzz::run("preferences", {"{\"prompt\": \"a\", \"chosen\": \"b\", \"rejected\": \"c\"}\n"}, 1500,
            [](const std::string& text) { return good_or_refused(parse_preferences(text, "x.jsonl")); });
}

TEST_CASE("fuzz: artifact manifests") {
  const testing::Scratch scratch;
  REQUIRE(write_file_atomic(scratch.file("a"), "text").ok());
  Manifest manifest = make_manifest(scratch.path()).value();
  manifest.stage = "s", manifest.kind = "command", manifest.key = "k";
  REQUIRE(write_manifest(scratch.path(), manifest).ok());
  const std::string text = read_file(scratch.file("manifest.json")).value();
  fuzz::run("manifest", {text}, 1000, [&](const std::string& mutant) {
    REQUIRE(write_new(scratch.file("manifest.json"), mutant));
    const auto read = read_manifest(scratch.path());
    return good_or_refused(read) && good_or_refused(verify_artifact(scratch.path(), *read, true));
  });
}

#ifdef LONGHAUL_HAVE_CURATE
TEST_CASE("fuzz: pages") {
  const std::string page =
      "<!DOCTYPE html><html lang=en><head><meta charset=\"utf-8\"><title>A page</title></head><body><nav><a "
      "href=/>Home</a>"
      "</nav><main><h1>A page</h1><p>This is a paragraph of some length, with <b>bold</b> &amp; <i>other</i> "
      "text.</p><pre>"
      "code\n  "
      "more</pre><ul><li>one</li><li>two</li></ul><table><tr><td>1</td><td>2</td></tr></table></main></body></html>";
  std::string nested;
  for (int i = 0; i < 200; ++i) nested += "<div><span>";
  const auto check = [](const std::string& bytes) {  // any bytes are a page
    const PageText found = extract_main_text(bytes);
    REQUIRE(is_valid_utf8(found.text));
    REQUIRE(is_valid_utf8(found.title));
    REQUIRE(is_valid_utf8(extract_all_text(bytes).text));
    return true;
  };
  fuzz::run_all_good("html", {page, page + nested + "text", "<title>&#x80000080;</title>&#x80000080;"}, 1500, check);
}
#endif

}  // namespace longhaul
