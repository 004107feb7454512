#include "orchestrator/cli/init/folder_look.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>
#include <optional>

#include "base/files/file_lines.h"
#include "base/files/files.h"
#include "base/text/text.h"
#include "base/toml.h"
#include "base/value/json_lines.h"
#include "contracts/settings/stages/tuning_row_keys.h"
#include "orchestrator/workflow/raw_inputs.h"

namespace longhaul {
namespace {

constexpr std::size_t named_files_max = 8;  // more files of one kind are a glob

std::string lower_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

std::string ending_of(const std::string& name) {
  const std::size_t dot = name.rfind('.');
  return dot == std::string::npos ? "" : lower_case(name.substr(dot));
}

bool is_image(const std::string& name) {
  static const std::vector<std::string> endings = {".png", ".jpg", ".jpeg", ".gif", ".webp",
                                                   ".bmp", ".tif", ".tiff", ".svg", ".heic"};
  return std::find(endings.begin(), endings.end(), ending_of(name)) != endings.end();
}

// Of every project, and not what somebody wants a model of.
bool is_of_project(const std::string& name) {
  const std::string lower = lower_case(name);
  for (const char* begin : {"readme", "license", "licence", "notice", "changelog", "contributing", "requirements"})
    if (starts_with(lower, begin)) return true;
  return false;
}

bool is_left_out(const std::string& name) {
  return starts_with(name, ".") || name == "runs" || name == "__pycache__" || ends_with(name, "-report");
}

// As a path in a workflow it is that file and nothing else.
bool is_plain_path(const std::string& name) {
  return !starts_with(name, "@") && std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return c >= 32 && c != 127 && std::string_view("*?[]{}$\"\\").find(static_cast<char>(c)) == std::string_view::npos;
  });
}

// The row's form, and the keys that it does not know.
const TuningRowForm* form_by_keys(const Value& row, std::vector<std::string>& unknown) {
  const RowKeys keys(row, {});
  for (const TuningRowForm& form : tuning_row_forms()) {
    if (!keys.has_all(form.keys)) continue;
    const std::string known = format(" {} {} ", form.keys, form.optional);
    for (const std::string& name : keys.names())
      if (known.find(" " + name + " ") == std::string::npos) unknown.push_back(name);
    return &form;
  }
  return nullptr;
}

enum class RowsKind { documents, tuning, unknown };

// By the first rows; a file whose rows have a `text` alone is documents.
RowsKind kind_of_rows(const std::string& path, const FolderLimits& limits, RowsFile& file) {
  const std::string text = file_beginning(path, limits.row_bytes);
  std::optional<TuningRowUse> use;
  JsonLineReader lines(whole_lines(text, limits.row_bytes));
  int rows = 0;
  for (JsonLine line; rows < limits.rows && lines.next(line); ++rows) {
    const Result<Value> row = parse_json_row(line, path, limits.row_bytes);
    if (!row.ok()) return RowsKind::unknown;
    std::vector<std::string> unknown;
    const TuningRowForm* form = form_by_keys(*row, unknown);
    if (!form) return RowsKind::unknown;
    if (std::string_view(form->keys) == "text") return use ? RowsKind::unknown : RowsKind::documents;
    if (use && *use != form->use) return RowsKind::unknown;
    use = form->use;
    for (const std::string& key : unknown)
      if (std::find(file.ignore.begin(), file.ignore.end(), key) == file.ignore.end()) file.ignore.push_back(key);
  }
  if (!use) return RowsKind::unknown;
  file.use = *use;
  return RowsKind::tuning;
}

bool has_weights(const std::string& folder) {
  const auto names = list_directory(folder);
  return file_exists(join_path(folder, "config.json")) && names.ok() &&
         std::any_of(names->begin(), names->end(), [](const std::string& name) {
           return ends_with(name, ".safetensors") || ends_with(name, ".bin") || ends_with(name, ".pth");
         });
}

class Looker {
 public:
  Looker(FolderLook& look, const FolderLimits& limits) : look_(look), limits_(limits) {}

  void look(const std::vector<std::string>& names) {
    if (has_weights(look_.path)) {
      look_.models.emplace_back(".");
      return;
    }
    for (const std::string& name : names) {
      if (is_left_out(name) || !one_more()) continue;
      if (is_directory(join_path(look_.path, name)))
        look_at_below(name);
      else if (!look_at_own(name) && take_file(name))
        own_.push_back(name);
    }
    name_own_documents();
  }

 private:
  bool one_more() {
    look_.whole = look_.whole && ++entries_ <= limits_.entries;
    return look_.whole;
  }

  // Workflows and scripts, which count in the folder itself alone.
  bool look_at_own(const std::string& name) {
    const std::string ending = ending_of(name);
    if (ending == ".toml") {
      const auto file = read_toml_file(join_path(look_.path, name));
      if (!file.ok() || !file->find("workflow")) return false;
      look_.workflows.push_back(name);
    } else if ((ending == ".py" || ending == ".sh") && is_plain_path(name)) {
      look_.scripts.push_back(name);
    } else {
      return is_of_project(name);
    }
    return true;
  }

  // Whether it is a document; everything else is counted.
  bool take_file(const std::string& name) {
    const std::string path = join_path(look_.path, name), ending = ending_of(name);
    bool is_text = is_plain_path(name) && is_document_name(name) && ending != ".json";
    if (is_text && (ending == ".jsonl" || ending == ".ndjson")) {
      RowsFile rows{name, TuningRowUse::instruction, {}};
      const RowsKind kind = kind_of_rows(path, limits_, rows);
      if (kind == RowsKind::tuning) look_.rows.push_back(std::move(rows));
      if (kind == RowsKind::tuning) return false;
      is_text = kind == RowsKind::documents;
    }
    if (is_text) {
      const auto size = file_size(path);
      look_.document_files += 1;
      look_.document_bytes += size.ok() ? *size : 0;
    } else if (is_image(name)) {
      look_.images += 1;
      look_.an_image = name;
    } else {
      look_.others += 1;
      look_.an_other = name;
    }
    return is_text;
  }

  void look_at_below(const std::string& folder) {
    const std::string path = join_path(look_.path, folder);
    if (has_weights(path)) {
      look_.models.push_back(folder);
      return;
    }
    std::vector<std::string> found;
    const std::size_t rows_before = look_.rows.size();
    std::error_code error;
    std::filesystem::recursive_directory_iterator at(path, std::filesystem::directory_options::skip_permission_denied,
                                                     error);
    for (; !error && at != std::filesystem::recursive_directory_iterator() && one_more(); at.increment(error)) {
      if (!at->is_regular_file(error)) continue;
      const std::string name = folder + at->path().string().substr(path.size());
      if (take_file(name)) found.push_back(name);
    }
    if (found.empty()) return;
    if (look_.rows.size() == rows_before && is_plain_path(folder)) {
      look_.documents.push_back(folder);
      return;
    }
    std::sort(found.begin(), found.end());  // beside files of rows each is named
    look_.documents.insert(look_.documents.end(), found.begin(), found.end());
  }

  void name_own_documents() {
    std::map<std::string, std::vector<std::string>> by_ending;
    for (const std::string& name : own_) by_ending[name.substr(name.rfind('.'))].push_back(name);
    std::vector<std::string> named;
    for (const auto& [ending, files] : by_ending) {
      const bool of_rows = std::any_of(look_.rows.begin(), look_.rows.end(),
                                       [&, &end = ending](const RowsFile& rows) { return ends_with(rows.name, end); });
      if (files.size() > named_files_max && !of_rows)
        named.push_back("*" + ending);
      else
        named.insert(named.end(), files.begin(), files.end());
    }
    look_.documents.insert(look_.documents.begin(), named.begin(), named.end());
  }

  FolderLook& look_;
  const FolderLimits& limits_;
  std::vector<std::string> own_;  // documents of the folder itself
  std::size_t entries_ = 0;
};

// train.py, then main and run, then the others as they are.
int likelihood(const std::string& script) {
  const std::string lower = lower_case(script);
  if (starts_with(lower, "train")) return 0;
  if (starts_with(lower, "main") || starts_with(lower, "run")) return 1;
  return starts_with(lower, "setup") || starts_with(lower, "test") || starts_with(lower, "conftest") ? 3 : 2;
}

}  // namespace

Result<FolderLook> look_at_folder(const std::string& path, const FolderLimits& limits) {
  FolderLook look;
  look.path = absolute_path(path);
  while (look.path.size() > 1 && look.path.back() == '/') look.path.pop_back();
  if (!is_directory(look.path))
    return make_error(ErrorCode::not_found, path + (file_exists(path) ? " is no folder" : " does not exist"),
                      "name the folder in which your texts, rows, model or script lie");
  LH_TRY(const auto names, list_directory(look.path));
  Looker(look, limits).look(names);
  std::stable_sort(look.scripts.begin(), look.scripts.end(),
                   [](const std::string& a, const std::string& b) { return likelihood(a) < likelihood(b); });
  return look;
}

}  // namespace longhaul
