#include "orchestrator/workflow/raw_inputs.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <optional>
#include <set>
#include <tuple>

#include "base/files/file_lines.h"
#include "base/files/files.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "base/value/json_lines.h"
#include "contracts/evaluation/task_folder.h"
#include "contracts/settings/job/resumable.h"
#include "contracts/settings/stages/alignment.h"
#include "contracts/settings/stages/tuning_row_keys.h"

namespace longhaul {
namespace {

// As engine/curate/readers/document_readers.cc has them.
constexpr const char* document_endings[] = {".html", ".htm",   ".xhtml",  ".txt", ".text",
                                            ".md",   ".jsonl", ".ndjson", ".json"};
constexpr const char* packed_endings[] = {".gz", ".bz2", ".xz", ".zst"};

std::string documents_hint() {
  return "documents are .html .htm .xhtml .txt .text .md .jsonl .ndjson .json, each also with .gz .bz2 .xz .zst";
}

Error wrong_input(ErrorCode code, std::string what, std::string hint) {
  return make_error(code, std::move(what), std::move(hint));
}

// ok() as well where the folder has more entries than may be looked at.
Status check_documents_folder(const std::string& folder, std::size_t entries_max) {
  std::error_code error;
  std::filesystem::recursive_directory_iterator at(folder, std::filesystem::directory_options::skip_permission_denied,
                                                   error);
  std::size_t files = 0, entries = 0;
  std::string other;
  for (; !error && at != std::filesystem::recursive_directory_iterator(); at.increment(error)) {
    if (++entries > entries_max) return {};
    if (at->is_directory(error)) continue;
    const std::string name = at->path().filename().string();
    if (is_document_name(name)) return {};
    ++files;
    other = name;
  }
  if (error) return {};  // a folder that cannot be listed is the stage's to judge
  if (files == 0)
    return wrong_input(ErrorCode::not_found, folder + " is empty: it holds no documents", documents_hint());
  return wrong_input(ErrorCode::not_found,
                     format("{} holds no documents: {} files of other kinds, such as {}", folder, files, other),
                     documents_hint());
}

Status check_documents(const std::string& path, const RawInputLimits& limits) {
  if (is_directory(path)) return check_documents_folder(path, limits.entries);
  if (is_document_name(file_name(path))) return {};
  return wrong_input(ErrorCode::invalid_input, path + " is of no known type", documents_hint());
}

Status check_has(const std::string& folder, const std::vector<std::string>& names, const std::string& what) {
  for (const std::string& name : names)
    if (!file_exists(join_path(folder, name)))
      return wrong_input(ErrorCode::not_found, join_path(folder, name) + " is missing", what);
  return {};
}

bool has_ending(const std::vector<std::string>& names, const char* ending) {
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) { return ends_with(name, ending); });
}

// Names of the files that model.safetensors.index.json speaks of; none where it cannot be read.
std::set<std::string> indexed_files(const std::string& folder) {
  constexpr std::uint64_t index_max = 64 << 20;
  const std::string path = join_path(folder, "model.safetensors.index.json");
  std::set<std::string> files;
  const auto text = read_file(path, index_max);
  if (!text.ok()) return files;
  const auto index = parse_json(*text, path);
  const Value* map = index.ok() && index->is_table() ? index->find("weight_map") : nullptr;
  if (!map || !map->is_table()) return files;
  for (const ValueMember& member : map->as_table())
    if (member.value.is_string()) files.insert(member.value.as_string());
  return files;
}

Status check_weights(const std::string& folder) {
  const auto names = list_directory(folder);
  if (!names.ok()) return {};
  const auto has = [&](const std::string& name) {
    return std::find(names->begin(), names->end(), name) != names->end();
  };
  for (const std::string& file : indexed_files(folder))
    if (!has(file))
      return wrong_input(ErrorCode::not_found, join_path(folder, file) + " is missing",
                         "model.safetensors.index.json names it: copy the whole folder again");
  if (has_ending(*names, ".safetensors")) return {};
  const bool pickled = has_ending(*names, ".bin") || has_ending(*names, ".pt") || has_ending(*names, ".pth");
  return wrong_input(ErrorCode::not_found, "there is no " + join_path(folder, "model.safetensors"),
                     pickled ? "weights of pickle (.bin, .pt) are not read; save them with save_pretrained(..., "
                               "safe_serialization=True)"
                             : "a model is a folder with config.json, model.safetensors and tokenizer.json");
}

Status check_tokenizer(const std::string& folder) {
  if (file_exists(join_path(folder, "tokenizer.json"))) return {};
  const bool other = file_exists(join_path(folder, "tokenizer.model")) || file_exists(join_path(folder, "vocab.json"));
  return wrong_input(ErrorCode::not_found, "there is no " + join_path(folder, "tokenizer.json"),
                     other ? "its tokenizer is there in another form; AutoTokenizer.from_pretrained(...)"
                             ".save_pretrained(...) writes tokenizer.json"
                           : "a model is a folder with config.json, model.safetensors and tokenizer.json");
}

Status check_model(const std::string& folder, const std::string& kind) {
  if (!is_directory(folder))
    return wrong_input(ErrorCode::invalid_input, folder + " is no folder",
                       "a model is a folder with config.json, model.safetensors and tokenizer.json");
  if (!file_exists(join_path(folder, "config.json"))) return {};  // has been said (imported_model.h)
  LH_CHECK(check_weights(folder));
  const bool reads_text = kind != "convert" && kind != "quantize";
  return reads_text ? check_tokenizer(folder) : Status();
}

// What rows are for; nothing: prompts that the model itself answers (engine/data/samples/prompt_rows.h).
using RowUse = std::optional<TuningRowUse>;

Status check_row(const Value& row, RowUse use, const std::vector<std::string>& ignore) {
  const RowKeys keys(row, ignore);
  if (!use) {
    if (keys.find("prompt") || keys.find("messages")) return {};
    return make_error(ErrorCode::invalid_input, "the row has neither 'prompt' nor 'messages'",
                      "use {\"prompt\", \"answer\"}");
  }
  const auto form = form_of_row(keys, *use);
  return form.ok() ? Status() : form.error();
}

// Of a file of rows that is in another form; "": it may be JSON Lines.
std::string rows_form_hint(const std::string& path, const std::string& text) {
  const std::string each = "write each row as a JSON object in a line of its own";
  if (ends_with(path, ".csv") || ends_with(path, ".tsv")) return "a table of text is not read; " + each;
  if (ends_with(path, ".parquet") || starts_with(text, "PAR1")) return "Parquet is not read; " + each;
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string::npos && text[first] == '[')
    return "this is one JSON list; " + each + ": jq -c '.[]' " + shell_quoted(file_name(path)) + " > rows.jsonl";
  return {};
}

Status check_rows(const std::string& path, RowUse use, const std::vector<std::string>& ignore,
                  const RawInputLimits& limits) {
  const std::string text = file_beginning(path, limits.row_bytes);
  if (text.empty())
    return make_error(ErrorCode::invalid_input, path + " has no examples", "one JSON object per line is expected");
  JsonLineReader lines(whole_lines(text, limits.row_bytes));
  int rows = 0;
  for (JsonLine line; rows < limits.rows && lines.next(line); ++rows) {
    const Result<Value> row = parse_json_row(line, path, limits.row_bytes);
    const Status fits = row.ok() ? check_row(*row, use, ignore) : Status(row.error());
    if (fits.ok()) continue;
    std::string hint = rows_form_hint(path, text);
    return make_error(ErrorCode::invalid_input, format("{}:{}: error: {}", path, line.number, fits.error().what),
                      hint.empty() ? fits.error().hint : hint);
  }
  return {};
}

// The file of rows in a folder, as the stage looks for it; "" with the names that it may have.
std::string rows_file(const std::string& path, const std::vector<std::string>& names) {
  if (!is_directory(path)) return path;
  for (const std::string& name : names)
    if (file_exists(join_path(path, name))) return join_path(path, name);
  return {};
}

RowUse row_use(const PlannedStage& stage) {
  if (stage.kind == "sft") return TuningRowUse::instruction;
  if (stage.kind == "sample") return std::nullopt;
  if (stage.kind == "reward") {
    const std::string method = stage.settings.get_string("method", RewardForm().method);
    return method == "attributes" ? TuningRowUse::rated
           : method == "process"  ? TuningRowUse::steps
                                  : TuningRowUse::reward;
  }
  const std::string method = stage.settings.get_string("method", AlignSettings().method);
  if (learns_from_rollouts(method)) return std::nullopt;
  for (const AlignMethod& one : align_methods())
    if (one.labels && method == one.name) return TuningRowUse::labelled;
  return TuningRowUse::preference;
}

std::vector<std::string> row_file_names(RowUse use, const std::string& input) {
  const bool data = input == "data";
  if (use == TuningRowUse::instruction)
    return data ? std::vector<std::string>{"train.jsonl"} : std::vector<std::string>{"heldout.jsonl", "answers.jsonl"};
  const std::string of = !use                            ? "prompts"
                         : use == TuningRowUse::labelled ? "labels"
                         : use == TuningRowUse::rated    ? "ratings"
                         : use == TuningRowUse::steps    ? "steps"
                                                         : "pairs";
  const std::string set = data ? "train" : "heldout";
  return {of + "-" + set + ".jsonl", of + ".jsonl", set + ".jsonl"};
}

std::vector<std::string> ignored_keys(const Value& settings) {
  std::vector<std::string> keys;
  if (const Value* list = settings.find("ignore"); list && list->is_array())
    for (const Value& key : list->as_array())
      if (key.is_string()) keys.push_back(key.as_string());
  // Attributes of a reward model are keys that rows have beside their form.
  if (const Value* attributes = settings.find("attribute"); attributes && attributes->is_table())
    for (const ValueMember& one : attributes->as_table()) keys.push_back(one.key);
  return keys;
}

Status check_tuning_data(const std::string& path, const PlannedStage& stage, const std::string& input,
                         const RawInputLimits& limits) {
  const RowUse use = row_use(stage);
  const auto names = row_file_names(use, input);
  const std::string file = rows_file(path, names);
  if (file.empty())
    return wrong_input(ErrorCode::not_found, format("{} holds none of {}", path, join(names, ", ")),
                       "name the file of rows itself, or one of these in the folder");
  return check_rows(file, use, ignored_keys(stage.settings), limits);
}

// Questions of an evaluate stage: rows of the form that each of its tasks reads, in the file that the task looks for.
Status check_questions(const std::string& path, const PlannedStage& stage, const RawInputLimits& limits) {
  struct Reader {
    const char* task;
    std::vector<std::string> files;
    TuningRowUse use;
  };
  static const std::vector<Reader> readers = {
      {"answer_loss", {"answers.jsonl", "heldout.jsonl"}, TuningRowUse::instruction},
      {"preference", {"pairs.jsonl", "pairs-heldout.jsonl"}, TuningRowUse::preference},
      {"reward", {"pairs.jsonl", "pairs-heldout.jsonl"}, TuningRowUse::reward}};
  const Value* tasks = stage.settings.find("tasks");
  for (const Reader& reader : readers) {
    const bool asked = tasks != nullptr && tasks->is_array() &&
                       std::any_of(tasks->as_array().begin(), tasks->as_array().end(),
                                   [&](const Value& task) { return task == Value(reader.task); });
    if (!asked) continue;
    const std::string file = rows_file(path, reader.files);
    if (file.empty())
      return wrong_input(
          ErrorCode::not_found,
          format("{} holds none of {}, which the task \"{}\" reads", path, join(reader.files, ", "), reader.task),
          "name the file of rows itself, or one of these in the folder");
    LH_CHECK(check_rows(file, reader.use, ignored_keys(stage.settings), limits));
  }
  return {};
}

// The tasks that the stage names, as their files describe them; a name that no file has is at fault where it is
// written.
void check_harness(const PlannedStage& stage, const PlannedInput& input, const WrittenStages& written,
                   Diagnostics& diagnostics) {
  std::vector<std::string> names;
  const Value* tasks = stage.settings.find("tasks");
  if (tasks == nullptr || !tasks->is_array()) return;
  const auto& built_in = built_in_evaluations();
  for (const Value& task : tasks->as_array())
    if (task.is_string() && std::find(built_in.begin(), built_in.end(), task.as_string()) == built_in.end())
      names.push_back(task.as_string());
  if (names.empty()) return;
  Diagnostics found;
  const Value* run_code = stage.settings.find("run_code");
  const bool allowed = run_code != nullptr && run_code->is_bool() && run_code->as_bool();
  check_code_is_allowed(evaluation_tasks(input.paths, names, found), allowed, found);
  for (Error error : found.errors()) {
    if (!error.where || error.where->file.empty()) {
      error = error.with_context("stage." + stage.stage);
      error.where = written.place(stage, {"tasks"});
    }
    diagnostics.add(std::move(error));
  }
}

bool is_model_input(const std::string& name) {
  return name == "model" || name == "baseline" || name == "reward" || name == "judge" || name == "teacher";
}

Status check_path(const PlannedStage& stage, const PlannedInput& input, const std::string& path,
                  const RawInputLimits& limits) {
  const std::string& kind = stage.kind;
  if (kind == "curate" && input.name == "documents") return check_documents(path, limits);
  if (kind == "tokenize" && input.name == "corpus")
    return check_has(path, {"documents.jsonl"}, "the corpus is a folder as the stage kind curate makes it");
  if (kind == "command" || kind == "tune" || kind == "search" || kind == "benchmark") return {};
  if (is_model_input(input.name)) return check_model(path, kind);
  if (kind == "pretrain")
    return check_has(path, {"tokenizer.json", "train.bin", "train.idx"},
                     "tokens are a folder as the stage kind tokenize makes it");
  if (kind == "sample" && input.name == "constitution" && is_directory(path))
    return wrong_input(ErrorCode::invalid_input, path + " is a folder", "a constitution is a file of text");
  if ((trains(kind) || kind == "sample") && (input.name == "data" || input.name == "heldout"))
    return check_tuning_data(path, stage, input.name, limits);
  // Of several files each task finds its own by their names, and it is the stage that looks.
  if (kind == "evaluate" && input.name == "data" && input.paths.size() == 1)
    return check_questions(path, stage, limits);
  return {};
}

// A command that comes before may fill a folder, or write a file anew.
std::set<std::string> stages_behind_commands(const RunPlan& plan) {
  std::set<std::string> behind, commands;
  for (const PlannedStage& stage : plan.stages) {  // every stage after those it needs
    for (const std::string& need : stage.needs)
      if (behind.contains(need) || commands.contains(need)) behind.insert(stage.id());
    if (stage.kind == "command") commands.insert(stage.id());
  }
  return behind;
}

}  // namespace

bool is_document_name(std::string name) {
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  for (const char* ending : packed_endings)
    if (ends_with(name, ending)) {
      name.resize(name.size() - std::string_view(ending).size());
      break;
    }
  return std::any_of(std::begin(document_endings), std::end(document_endings),
                     [&](const char* ending) { return ends_with(name, ending); });
}

void check_raw_inputs(const RunPlan& plan, const WrittenStages& written, const RawInputLimits& limits,
                      Diagnostics& diagnostics) {
  std::set<std::tuple<std::string, std::string, std::string>> seen;  // kind, input, path
  std::set<std::string> first_of_stage;
  const std::set<std::string> filled_later = stages_behind_commands(plan);
  for (const PlannedStage& stage : plan.stages) {
    if (filled_later.contains(stage.id())) continue;
    for (const PlannedInput& input : stage.inputs) {
      if (stage.kind == "evaluate" && input.name == "harness") {
        if (first_of_stage.insert(stage.stage).second) check_harness(stage, input, written, diagnostics);
        continue;
      }
      // Where one of many files has no known type, the others may be meant: the stage counts it.
      const bool one = input.paths.size() == 1;
      for (const std::string& path : input.paths) {
        if (!one && stage.kind == "curate" && !is_directory(path)) continue;
        // Rows are of the method's form.
        if (!seen.emplace(stage.kind + " " + stage.settings.get_string("method"), input.name, path).second) continue;
        const Status fits = check_path(stage, input, path, limits);
        if (fits.ok()) continue;
        Error error = fits.error().with_context("stage." + stage.stage + ".inputs." + input.name);
        error.where = written.place(stage, {"inputs." + input.name});
        diagnostics.add(std::move(error));
      }
    }
  }
}

}  // namespace longhaul
