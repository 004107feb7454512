#include "orchestrator/slurm_helper/batch_options.h"

#include <cctype>

#include "base/text/text.h"

namespace longhaul {
namespace {

enum class Argument { none, required, optional };
struct KnownOption {
  const char* name;
  char letter;  // 0: none
  Argument argument;
};

// What job_description.cc maps, and what means nothing to it. sbatch's own table is longer.
constexpr KnownOption known_options[] = {
    {"account", 'A', Argument::required},
    {"acctg-freq", 0, Argument::required},
    {"array", 'a', Argument::required},
    {"begin", 'b', Argument::required},
    {"chdir", 'D', Argument::required},
    {"comment", 0, Argument::required},
    {"constraint", 'C', Argument::required},
    {"contiguous", 0, Argument::none},
    {"cores-per-socket", 0, Argument::required},
    {"core-spec", 'S', Argument::required},
    {"cpus-per-gpu", 0, Argument::required},
    {"cpus-per-task", 'c', Argument::required},
    {"deadline", 0, Argument::required},
    {"dependency", 'd', Argument::required},
    {"error", 'e', Argument::required},
    {"exclude", 'x', Argument::required},
    {"exclusive", 0, Argument::optional},
    {"export", 0, Argument::required},
    {"gpus", 'G', Argument::required},
    {"gpus-per-node", 0, Argument::required},
    {"gpus-per-socket", 0, Argument::required},
    {"gpus-per-task", 0, Argument::required},
    {"gres", 0, Argument::required},
    {"gres-flags", 0, Argument::required},
    {"hint", 0, Argument::required},
    {"hold", 'H', Argument::none},
    {"ignore-pbs", 0, Argument::none},
    {"input", 'i', Argument::required},
    {"job-name", 'J', Argument::required},
    {"kill-on-invalid-dep", 0, Argument::required},
    {"licenses", 'L', Argument::required},
    {"mail-type", 0, Argument::required},
    {"mail-user", 0, Argument::required},
    {"mem", 0, Argument::required},
    {"mem-per-cpu", 0, Argument::required},
    {"mem-per-gpu", 0, Argument::required},
    {"mincpus", 0, Argument::required},
    {"network", 0, Argument::required},
    {"nice", 0, Argument::optional},
    {"no-kill", 'k', Argument::optional},
    {"no-requeue", 0, Argument::none},
    {"nodelist", 'w', Argument::required},
    {"nodes", 'N', Argument::required},
    {"ntasks", 'n', Argument::required},
    {"ntasks-per-core", 0, Argument::required},
    {"ntasks-per-gpu", 0, Argument::required},
    {"ntasks-per-node", 0, Argument::required},
    {"ntasks-per-socket", 0, Argument::required},
    {"open-mode", 0, Argument::required},
    {"output", 'o', Argument::required},
    {"overcommit", 'O', Argument::none},
    {"oversubscribe", 's', Argument::none},
    {"parsable", 0, Argument::none},
    {"partition", 'p', Argument::required},
    {"prefer", 0, Argument::required},
    {"priority", 0, Argument::required},
    {"qos", 'q', Argument::required},
    {"quiet", 'Q', Argument::none},
    {"reboot", 0, Argument::none},
    {"requeue", 0, Argument::none},
    {"reservation", 0, Argument::required},
    {"segment", 0, Argument::required},
    {"signal", 0, Argument::required},
    {"sockets-per-node", 0, Argument::required},
    {"spread-job", 0, Argument::none},
    {"switches", 0, Argument::required},
    {"threads-per-core", 0, Argument::required},
    {"time", 't', Argument::required},
    {"time-min", 0, Argument::required},
    {"tmp", 0, Argument::required},
    {"use-min-nodes", 0, Argument::none},
    {"verbose", 'v', Argument::none},
    {"wait-all-nodes", 0, Argument::required},
    {"wckey", 0, Argument::required},
};

constexpr const char* cli_hint = "use slurm_backend = \"cli\" in the site file: then sbatch itself reads the option";

const KnownOption* find_option(std::string_view name) {
  for (const KnownOption& option : known_options)
    if (name == option.name) return &option;
  return nullptr;
}
const KnownOption* find_option(char letter) {
  for (const KnownOption& option : known_options)
    if (option.letter != 0 && option.letter == letter) return &option;
  return nullptr;
}

struct Word {
  std::string text;
  int line = 0;
};

Error at_line(const std::string& path, int line, std::string what, std::string hint = {}) {
  Error error = make_error(ErrorCode::invalid_input, std::move(what), std::move(hint));
  if (line > 0) error.where = SourcePos{path, line, 0};
  return error;
}

bool is_blank(char c) {
  return std::isspace(static_cast<unsigned char>(c)) != 0;
}

// The words of one line after "#SBATCH".
Status read_words(std::string_view line, const std::string& path, int number, std::vector<Word>& words) {
  for (std::size_t at = 0;;) {
    while (at < line.size() && is_blank(line[at])) ++at;
    if (at == line.size()) return {};
    if (line[at] == ':') return at_line(path, number, "':' does not begin an option");
    std::string word;
    bool any = false, escaped = false;
    char quote = 0;
    for (; at < line.size() && (quote != 0 || !is_blank(line[at])); ++at) {
      const char c = line[at];
      if (escaped) {
        escaped = false;
      } else if (c == '\\') {
        escaped = true;
        continue;
      } else if (quote != 0) {
        if (c == quote) {
          quote = 0;
          continue;
        }
      } else if (c == '"' || c == '\'') {
        quote = c;
        continue;
      } else if (c == '#') {
        break;
      }
      word += c;
      any = true;
    }
    if (quote != 0) return at_line(path, number, format("unmatched {}", quote));
    if (!any) return {};  // a comment; sbatch also stops at an empty quoted word
    words.push_back({std::move(word), number});
  }
}

Result<std::vector<Word>> script_words(const std::string& text, const std::string& path) {
  constexpr std::string_view magic = "#SBATCH";
  std::vector<Word> words;
  int number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = std::string_view(text).substr(begin, end - begin);
    begin = end + 1;
    ++number;
    if (line.substr(0, magic.size()) == magic) {
      const std::string_view rest = line.substr(magic.size());
      const std::string first = trim(rest);
      if (first == "hetjob" || first == "packjob" || starts_with(first, "hetjob ") || starts_with(first, "packjob "))
        return at_line(path, number, "heterogeneous jobs are not passed on", cli_hint);
      LH_CHECK(read_words(rest, path, number, words));
      continue;
    }
    std::size_t at = 0;
    while (at < line.size() && is_blank(line[at])) ++at;
    if (at < line.size() && line[at] != '#') break;
  }
  return words;
}

Error unknown_option(const std::string& path, const Word& word) {
  return at_line(path, word.line, "longhaul-slurm does not know the option " + word.text,
                 std::string("write long names in full; or ") + cli_hint);
}

}  // namespace

Result<std::vector<BatchOption>> batch_options(const std::string& script_text, const std::string& script_path,
                                               const std::vector<std::pair<std::string, std::string>>& overrides) {
  LH_TRY(const std::vector<Word> words, script_words(script_text, script_path));
  std::vector<BatchOption> options;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const Word& word = words[i];
    std::string name, value;
    bool has_value = false;
    const KnownOption* known = nullptr;
    if (starts_with(word.text, "--")) {
      const std::size_t equals = word.text.find('=');
      name = word.text.substr(2, equals == std::string::npos ? equals : equals - 2);
      has_value = equals != std::string::npos;
      if (has_value) value = word.text.substr(equals + 1);
      known = find_option(name);
    } else if (word.text.size() >= 2 && word.text[0] == '-') {
      known = find_option(word.text[1]);
      has_value = word.text.size() > 2;
      if (has_value) value = word.text.substr(2);
      if (known && known->argument == Argument::none && has_value) return unknown_option(script_path, word);
    } else {
      return at_line(script_path, word.line, "'" + word.text + "' is no option");
    }
    if (!known) return unknown_option(script_path, word);
    if (known->argument == Argument::none && has_value)
      return at_line(script_path, word.line, format("--{} takes no value", known->name));
    if (known->argument == Argument::required && !has_value) {
      if (i + 1 == words.size()) return at_line(script_path, word.line, format("--{} lacks its value", known->name));
      value = words[++i].text;
      has_value = true;
    }
    options.push_back({known->name, std::move(value), has_value, word.line});
  }
  for (const auto& [name, value] : overrides) {
    const KnownOption* known = find_option(name);
    if (!known) return unknown_option(script_path, {"--" + name, 0});
    options.push_back({name, value, !value.empty(), 0});
  }
  return options;
}

}  // namespace longhaul
