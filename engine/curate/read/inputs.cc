#include "engine/curate/read/inputs.h"

#include <algorithm>
#include <tuple>
#include <unordered_set>

#include "base/files/files.h"
#include "base/text/text.h"
#include "engine/curate/read/input_stream.h"

namespace longhaul {
namespace {

constexpr const char* packings[] = {".gz", ".bz2", ".xz", ".zst"};

std::string types_hint(const DocumentTypes& types) {
  std::string hint = "documents are";
  for (const DocumentType* type : types)
    for (const char* ending : type->endings)
      if (*type->refusal == '\0') hint += std::string(" ") + ending;
  hint += ", each also with";
  for (const char* ending : packings) hint += std::string(" ") + ending;
  return hint;
}

// Whether there is a type for a file of this name.
bool choose_type(std::string_view path, const DocumentTypes& types, InputFile& file) {
  std::string name = file_name(path);
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; });
  for (const char* ending : packings) {
    if (!ends_with(name, ending)) continue;
    if (!is_packing_built_in(ending))
      file.refusal = format("{} needs a library that was not there when this program was built", ending);
    name.resize(name.size() - std::string_view(ending).size());
    break;
  }
  for (const DocumentType* type : types) {
    const bool is_it = std::any_of(type->endings.begin(), type->endings.end(),
                                   [&](const char* ending) { return ends_with(name, ending); });
    if (!is_it) continue;
    file.type = type;
    if (*type->refusal != '\0') file.refusal = type->refusal;
    return true;
  }
  return false;
}

void add_problem(Diagnostics& problems, ErrorCode code, std::string what, std::string hint) {
  problems.add(make_error(code, std::move(what), std::move(hint)));
}

void find_below(const std::string& folder, const std::string& pattern, const std::string& name,
                const DocumentTypes& types, FoundInputs& found, Diagnostics& problems) {
  auto tree = list_tree(folder);
  if (!tree.ok()) {
    problems.add(tree.error().with_context(format("input \"{}\"", name)));
    return;
  }
  std::size_t matches = 0;
  for (const std::string& path : *tree) {
    if (!pattern.empty() && !matches_pattern(path, pattern)) continue;
    InputFile file{join_path(folder, path), path, nullptr, false, {}};
    if (!choose_type(path, types, file)) {
      ++found.other_files;
      continue;
    }
    ++matches;
    found.files.push_back(std::move(file));
  }
  if (matches == 0)
    add_problem(problems, ErrorCode::not_found, format("input \"{}\" holds no documents", name), types_hint(types));
}

void find_one(const std::string& name, const DocumentTypes& types, FoundInputs& found, Diagnostics& problems) {
  const std::size_t star = name.find_first_of("*?");
  if (star != std::string::npos) {
    const std::size_t slash = name.rfind('/', star);
    const std::string folder = slash == std::string::npos ? "." : slash == 0 ? "/" : name.substr(0, slash);
    return find_below(folder, slash == std::string::npos ? name : name.substr(slash + 1), name, types, found, problems);
  }
  if (!file_exists(name)) {
    return add_problem(problems, ErrorCode::not_found, format("input \"{}\" does not exist", name),
                       "name a file, a folder or a pattern");
  }
  if (is_directory(name)) return find_below(name, "", name, types, found, problems);
  InputFile file{name, file_name(name), nullptr, true, {}};
  if (!choose_type(name, types, file)) {
    return add_problem(problems, ErrorCode::invalid_input, format("input \"{}\" is of no known type", name),
                       types_hint(types));
  }
  if (!file.refusal.empty()) {
    return add_problem(problems, ErrorCode::unsupported, format("input \"{}\": {}", name, file.refusal),
                       types_hint(types));
  }
  found.files.push_back(std::move(file));
}

}  // namespace

bool matches_pattern(std::string_view path, std::string_view pattern) {
  // Where the last * or ** stood and what it has swallowed so far, to go back to; ** outlives *.
  std::size_t p = 0, s = 0;
  std::size_t star = std::string_view::npos, star_s = 0, deep = std::string_view::npos, deep_s = 0;
  while (s < path.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      if (p + 1 < pattern.size() && pattern[p + 1] == '*') {
        p += 2;
        if (p < pattern.size() && pattern[p] == '/') ++p;  // "**/x" also matches "x"
        deep = p;
        deep_s = s;
        star = std::string_view::npos;
      } else {
        star = ++p;
        star_s = s;
      }
    } else if (p < pattern.size() && ((pattern[p] == '?' && path[s] != '/') || pattern[p] == path[s])) {
      ++p;
      ++s;
    } else if (star != std::string_view::npos && path[star_s] != '/') {
      p = star;
      s = ++star_s;
    } else if (deep != std::string_view::npos) {
      p = deep;
      s = ++deep_s;
      star = std::string_view::npos;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

FoundInputs find_inputs(const std::vector<std::string>& names, const DocumentTypes& types, Diagnostics& problems) {
  FoundInputs found;
  if (names.empty())
    add_problem(problems, ErrorCode::invalid_input, "no input documents are named", "name files, folders or patterns");
  for (const std::string& name : names) find_one(name, types, found, problems);
  std::sort(found.files.begin(), found.files.end(), [](const InputFile& a, const InputFile& b) {
    return std::tuple(std::string_view(a.source), std::string_view(a.path), !a.named) <
           std::tuple(std::string_view(b.source), std::string_view(b.path), !b.named);
  });
  // One file named twice is one file; two of the same relative path keep their whole paths.
  std::unordered_set<std::string> paths;
  std::erase_if(found.files, [&](const InputFile& file) { return !paths.insert(absolute_path(file.path)).second; });
  for (std::size_t i = 0; i + 1 < found.files.size(); ++i) {
    for (std::size_t j = i + 1; j < found.files.size() && found.files[j].source == found.files[i].source; ++j) {
      found.files[j].source = found.files[j].path;
    }
  }
  return found;
}

Result<std::string> read_input(const InputFile& file, std::int64_t bytes_max) {
  LH_TRY(InputStream stream, InputStream::open(file.path));
  const auto limit = static_cast<std::size_t>(bytes_max) + 1;
  std::string text;
  for (;;) {
    const std::size_t before = text.size(), wanted = std::min<std::size_t>(limit - before, 1 << 18);
    text.resize(before + wanted);
    LH_TRY(const std::size_t n, stream.read(text.data() + before, wanted));
    text.resize(before + n);
    if (n < wanted || text.size() == limit) break;
  }
  if (!stream.damage().empty()) {
    return make_error(ErrorCode::corrupt, format("cannot unpack {}: {}", file.path, stream.damage()),
                      "the file is truncated or damaged; fetch it again");
  }
  return text;
}

}  // namespace longhaul
