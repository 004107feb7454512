#include "orchestrator/cli/commands/completion.h"

#include <algorithm>
#include <cstdio>

#include "base/files/files.h"
#include "base/text/print.h"
#include "base/text/text.h"
#include "base/toml.h"
#include "contracts/tasks/stage_kinds.h"
#include "orchestrator/cli/session/commands.h"
#include "orchestrator/cli/session/load_workflow.h"
#include "orchestrator/forecast/serving_request.h"
#include "orchestrator/forecast/size_request.h"
#include "orchestrator/runs/run.h"
#include "orchestrator/state/run_folder.h"

namespace longhaul {
namespace {

// Names of runs, stages, sites and parameters come from files and folders that others may have made. What is not made
// of these letters alone is not offered: a shell would read it as something else than a name.
bool is_plain_name(const std::string& name) {
  constexpr const char* letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._,=+@/-";
  return !name.empty() && name.find_first_not_of(letters) == std::string::npos;
}

void add_keys(const std::vector<FieldInfo>& fields, const std::string& prefix, std::vector<std::string>& keys) {
  for (const FieldInfo& field : fields) {
    const std::string name = prefix.empty() ? field.name : prefix + "." + field.name;
    if (field.members.empty())
      keys.push_back(name);
    else if (!field.named)  // those names are the user's
      add_keys(field.members, name, keys);
  }
}

const FieldInfo* find_field(const std::vector<FieldInfo>& fields, const std::string& key) {
  const std::size_t dot = key.find('.');
  for (const FieldInfo& field : fields) {
    if (field.name != key.substr(0, dot)) continue;
    if (dot == std::string::npos) return &field;
    const std::size_t below = field.named ? key.find('.', dot + 1) : dot;  // behind a name of the user's
    return below == std::string::npos ? nullptr : find_field(field.members, key.substr(below + 1));
  }
  return nullptr;
}

std::vector<std::string> allowed_values(const FieldInfo& field) {
  if (field.type == "yes/no") return {"true", "false"};
  return field.options.choices;
}

// As TOML.
std::vector<std::string> values_of(const std::string& kind, const std::string& key) {
  const StageKind* known = find_stage_kind(kind);
  const std::vector<FieldInfo> common = stage_common_fields().describe();
  const FieldInfo* field = known ? find_field(known->fields, key) : nullptr;
  if (!field) field = find_field(common, key);
  if (!field) return {};
  std::vector<std::string> values = allowed_values(*field);
  if (field->type != "yes/no")
    for (std::string& value : values) value = format("\"{}\"", value);
  return values;
}

// "gpus=", "goal=", and behind the "=" the values that a key of this question allows.
std::vector<std::string> question_key_choices(const std::string& command, const std::string& typed) {
  std::vector<FieldInfo> fields;
  if (command == "serving") fields = serving_request_fields().describe();
  if (command == "size") fields = budget_request_fields().describe();
  const std::size_t equals = typed.find('=');
  std::vector<std::string> choices;
  if (equals == std::string::npos) {
    add_keys(fields, "", choices);
    for (std::string& choice : choices) choice += "=";
  } else if (const FieldInfo* field = find_field(fields, typed.substr(0, equals))) {
    for (const std::string& value : allowed_values(*field)) choices.push_back(typed.substr(0, equals + 1) + value);
  }
  return choices;
}

// "params.x=", "stage.pretrain.optimizer.lr=", and behind the "=" the values that a key allows.
std::vector<std::string> set_choices(const std::string& workflow, const std::string& typed) {
  std::vector<std::string> choices;
  const auto file = read_toml_file(workflow);
  if (!file.ok()) return choices;
  if (const Value* params = file->find("params"); params && params->is_table())
    for (const ValueMember& param : params->as_table())
      if (is_plain_name(param.key)) choices.push_back("params." + param.key + "=");
  const Value* stages = file->find("stage");
  if (!stages || !stages->is_table()) return choices;
  for (const ValueMember& stage : stages->as_table()) {
    if (!is_plain_name(stage.key)) continue;
    const std::string kind = stage.value.get_string("kind"), prefix = "stage." + stage.key + ".";
    const std::size_t equals = typed.find('=');
    if (equals != std::string::npos && !starts_with(typed, prefix)) continue;
    if (equals != std::string::npos) {
      for (const std::string& value : values_of(kind, typed.substr(prefix.size(), equals - prefix.size())))
        choices.push_back(typed.substr(0, equals + 1) + value);
      continue;
    }
    for (const std::string& key : stage_key_choices(kind)) choices.push_back(prefix + key + "=");
  }
  return choices;
}

std::vector<std::string> stages_of_workflow(const std::string& workflow) {
  std::vector<std::string> names;
  const auto file = read_toml_file(workflow);
  const Value* stages = file.ok() ? file->find("stage") : nullptr;
  if (stages == nullptr || !stages->is_table()) return names;
  for (const ValueMember& stage : stages->as_table())
    if (is_plain_name(stage.key)) names.push_back(stage.key);
  return names;
}

// Positionals by what completes them.
std::string positional_kind(const OptionText& option) {
  if (option.name == "WORKFLOW") return "workflow";
  if (option.name == "RUN") return "run";
  if (option.name == "STAGE") return "stage";
  if (option.name == "ORDER") return "order";
  if (option.name == "SHELL") return "shell";
  if (option.name == "KEYS") return "question";
  if (option.name == "FOLDER") return "path";
  return "none";
}

std::string option_kind(const OptionText& option) {
  const std::string& name = option.name;
  if (name == "--site") return "site";
  if (name == "--set") return "set";
  if (name == "--stage") return "stage";
  if (name == "--from") return "stage";
  if (name == "--pin" || name == "--unpin") return "run";
  if (name == "--workflow") return "workflow";
  if (name == "--runs-dir" || name == "--output" || name == "--html" || name == "--man" || name == "--figures" ||
      name == "--question")
    return "path";
  return "none";
}

constexpr const char* bash_head = R"bash(# Completion of longhaul for bash, written by `longhaul completion bash`.
_longhaul_words() { "${COMP_WORDS[0]}" completion words "$@" 2>/dev/null; }
# Of the words on standard input, one a line, those that begin as the current one does. They are data: compgen -W would
# expand them as the shell expands a command line, so it gets nothing but what stands in this script.
_longhaul_offer() {
  local one
  while IFS= read -r one; do
    [[ -n "$one" && "$one" == "$current"* ]] && COMPREPLY+=("$one")
  done
}
_longhaul() {
  local current before command="" kind="" options="" positionals=() given=() runs_dir=() i word
  # Bash takes "=" and ":" for separators; longhaul does not.
  local words=() line="${COMP_LINE:0:COMP_POINT}"
  read -r -a words <<< "$line"
  [[ "$line" == *[[:space:]] ]] && words+=("")
  current="${words[${#words[@]}-1]}"
  before="${words[${#words[@]}-2]}"
  for ((i = 1; i < ${#words[@]} - 1; ++i)); do
    word="${words[i]}"
    [[ "$word" == --runs-dir ]] && runs_dir=(--runs-dir "${words[i + 1]}")
    case "$word" in
      @FLAGS@) ;;
      --*) ((++i)) ;;
      -*) ;;
      *) if [[ -z "$command" ]]; then command="$word"; else given+=("$word"); fi ;;
    esac
  done
  COMPREPLY=()
  case "$command" in
    "") COMPREPLY=($(compgen -W "@COMMANDS@ --help --version" -- "$current")); return ;;
@CASES@    *) return ;;
  esac
  if [[ -z "$kind" && "$current" == -* ]]; then
    _longhaul_offer <<< "${options// /$'\n'}"
    return
  fi
  if [[ -z "$kind" ]]; then
    local place=${#given[@]}
    ((place >= ${#positionals[@]})) && place=$((${#positionals[@]} - 1))
    ((place >= 0)) && kind="${positionals[place]}"
  fi
  case "$kind" in
    workflow)
      _longhaul_offer < <(compgen -f -X '!*.toml' -- "$current"; compgen -d -- "$current")
      compopt -o filenames 2>/dev/null ;;  # quoted as they are put on the line
    path)
      _longhaul_offer < <(compgen -f -- "$current")
      compopt -o filenames 2>/dev/null ;;
    run) _longhaul_offer < <(echo latest; _longhaul_words runs "${runs_dir[@]}") ;;
    stage) _longhaul_offer < <(_longhaul_words stages "${given[0]:-latest}" "${runs_dir[@]}") ;;
    site) _longhaul_offer < <(_longhaul_words sites) ;;
    shell) COMPREPLY=($(compgen -W "bash zsh fish" -- "$current")) ;;
    order)
      if [[ " ${given[*]} " == *" set "* ]]; then
        COMPREPLY=($(compgen -W "lr= checkpoint_interval=" -- "$current"))
        compopt -o nospace 2>/dev/null
      else
        COMPREPLY=($(compgen -W "checkpoint stop-after set stacks fault" -- "$current"))
      fi ;;
    set|question)
      local about="$command"
      [[ "$kind" == set ]] && about="${given[0]}"
      _longhaul_offer < <(_longhaul_words "$kind" "$about" "$current")
      # What is left of "=" stands on the line already, as a word of its own.
      [[ "$current" == *=* ]] && COMPREPLY=("${COMPREPLY[@]#*=}")
      compopt -o nospace 2>/dev/null ;;
  esac
}
complete -F _longhaul longhaul
)bash";

constexpr const char* zsh_head = R"zsh(#compdef longhaul
# Completion of longhaul for zsh, written by `longhaul completion zsh`.
# What the program says is data: compadd quotes it as it puts it on the line.
_longhaul_offer() {
  local -a found
  found=("${(@f)$("${(Q)words[1]}" completion words "$@" 2>/dev/null)}")
  found=("${(@)found:#}")
  (( $#found )) && compadd $suffix -- "${found[@]}"
}
_longhaul() {
  local command="" kind="" word i before="${words[CURRENT-1]}" current="${words[CURRENT]}"
  local -a options positionals given runs_dir suffix
  for ((i = 2; i < CURRENT; ++i)); do
    word="${words[i]}"
    [[ "$word" == --runs-dir ]] && runs_dir=(--runs-dir "${words[i+1]}")
    case "$word" in
      @FLAGS@) ;;
      --*) ((++i)) ;;
      -*) ;;
      *) if [[ -z "$command" ]]; then command="$word"; else given+=("$word"); fi ;;
    esac
  done
  case "$command" in
    "") compadd -- @COMMANDS@ --help --version; return ;;
@CASES@    *) return ;;
  esac
  if [[ -z "$kind" && "$current" == -* ]]; then
    compadd -- "${options[@]}"
    return
  fi
  if [[ -z "$kind" ]]; then
    local place=$(( $#given + 1 ))
    (( place > $#positionals )) && place=$#positionals
    (( place > 0 )) && kind="${positionals[place]}"
  fi
  case "$kind" in
    workflow) _files -g '*.toml' ;;
    path) _files ;;
    run) compadd -- latest; _longhaul_offer runs "${runs_dir[@]}" ;;
    stage) _longhaul_offer stages "${given[1]:-latest}" "${runs_dir[@]}" ;;
    site) _longhaul_offer sites ;;
    shell) compadd -- bash zsh fish ;;
    order)
      if [[ " ${given[*]} " == *" set "* ]]; then
        compadd -S '' -- lr= checkpoint_interval=
      else
        compadd -- checkpoint stop-after set stacks fault
      fi ;;
    set) suffix=(-S ''); _longhaul_offer set "${given[1]}" "$current" ;;
    question) suffix=(-S ''); _longhaul_offer question "$command" "$current" ;;
  esac
}
(( $+functions[compdef] )) || { autoload -Uz compinit && compinit; }
compdef _longhaul longhaul
)zsh";

// What the command table says, in the terms that bash and zsh share.
std::string posix_script(const std::string& head, bool zsh) {
  std::string names, cases, flags = "--help";
  for (const CommandSpec& spec : command_specs()) {
    names += (names.empty() ? "" : " ") + spec.name;
    std::string options = "--help", values, positionals;
    for (const OptionText& option : option_texts(spec.command)) {
      if (option.positional) {
        positionals += (positionals.empty() ? "" : " ") + positional_kind(option);
        continue;
      }
      if (option.name == "--help") continue;
      options += " " + option.name;
      if (!option.takes_value) flags += "|" + option.name;
      if (option.takes_value) values += format("        {}) kind={} ;;\n", option.name, option_kind(option));
    }
    cases += format("    {})\n      options={}\n      positionals=({})\n", spec.name,
                    zsh ? "(" + options + ")" : "\"" + options + "\"", positionals);
    if (!values.empty()) cases += "      case \"$before\" in\n" + values + "      esac\n";
    cases += "      ;;\n";
  }
  return replace_all(replace_all(replace_all(head, "@FLAGS@", flags), "@COMMANDS@", names), "@CASES@", cases);
}

std::string fish_script() {
  std::string out =
      "# Completion of longhaul for fish, written by `longhaul completion fish`.\n"
      "# What it offers is data to fish, which quotes it as it puts it on the line.\n"
      "function __longhaul_words\n  set -l tokens (commandline -opc)\n  $tokens[1] completion words $argv "
      "2>/dev/null\nend\n"
      "complete -c longhaul -f\n";
  const auto quoted = [](const std::string& text) {
    return "'" + replace_all(replace_all(text, "\\", "\\\\"), "'", "\\'") + "'";
  };
  for (const CommandSpec& spec : command_specs()) {
    out += format("complete -c longhaul -n __fish_use_subcommand -a {} -d {}\n", spec.name, quoted(spec.summary));
    const std::string here = format("complete -c longhaul -n '__fish_seen_subcommand_from {}'", spec.name);
    for (const OptionText& option : option_texts(spec.command)) {
      const std::string kind = option.positional ? positional_kind(option) : option_kind(option);
      std::string values;
      if (kind == "run") values = "(__longhaul_words runs)";
      if (kind == "stage") values = "(__longhaul_words stages latest)";
      if (kind == "site") values = "(__longhaul_words sites)";
      if (kind == "shell") values = "bash zsh fish";
      if (kind == "order") values = "checkpoint stop-after set stacks fault";
      if (kind == "workflow") values = "(__fish_complete_suffix .toml)";
      if (kind == "question") values = format("(__longhaul_words question {} (commandline -ct))", spec.name);
      if (option.positional) {
        if (!values.empty()) out += here + " -a " + quoted(values) + "\n";
        continue;
      }
      if (option.name == "--help") continue;
      out += here + " -l " + option.name.substr(2) + " -d " + quoted(option.help);
      if (option.takes_value) out += kind == "path" ? " -r -F" : " -x";
      if (!values.empty()) out += " -a " + quoted(values);
      out += "\n";
    }
  }
  return out;
}

}  // namespace

std::string completion_script(const std::string& shell) {
  if (shell == "bash") return posix_script(bash_head, false);
  if (shell == "zsh") return posix_script(zsh_head, true);
  return shell == "fish" ? fish_script() : "";
}

std::vector<std::string> stage_key_choices(const std::string& kind) {
  std::vector<std::string> keys;
  const StageKind* known = find_stage_kind(kind);
  if (!known) return keys;
  add_keys(known->fields, "", keys);
  add_keys(stage_common_fields().describe(), "", keys);
  return keys;
}

std::vector<std::string> completion_choices(const std::vector<std::string>& asked, const CommandLine& line,
                                            const Installation& installation) {
  std::vector<std::string> found;
  if (asked.empty()) return found;
  const auto site = load_site("local", installation.site_folders());
  const std::string runs = runs_folder(line, site.ok() ? site->config : SiteConfig());
  const std::string argument = asked.size() > 1 ? asked[1] : "";
  if (asked[0] == "runs") {
    if (const auto paths = list_runs(runs); paths.ok())
      for (const std::string& path : *paths)
        if (const std::string name = file_name(path); is_plain_name(name)) found.push_back(name);
  } else if (asked[0] == "stages" && ends_with(argument, ".toml")) {
    found = stages_of_workflow(argument);  // of `tune WORKFLOW --stage`
  } else if (asked[0] == "stages") {
    const auto run = find_run(runs, argument);
    const auto frozen = run.ok() ? read_frozen_run(*run) : Result<FrozenRun>(run.error());
    if (frozen.ok()) found = frozen->stage_ids();
    std::erase_if(found, [](const std::string& id) { return !is_plain_name(id); });
  } else if (asked[0] == "sites") {
    found.emplace_back("local");
    for (const std::string& folder : installation.site_folders())
      if (const auto names = list_directory(folder); names.ok())
        for (const std::string& name : *names)
          if (ends_with(name, ".toml")) found.push_back(name.substr(0, name.size() - 5));
    std::sort(found.begin(), found.end());
    found.erase(std::unique(found.begin(), found.end()), found.end());
    std::erase_if(found, [](const std::string& name) { return !is_plain_name(name); });
  } else if (asked[0] == "kinds") {
    for (const StageKind& kind : stage_kinds()) found.push_back(kind.name);
  } else if (asked[0] == "stage-keys") {
    found = stage_key_choices(argument);
  } else if (asked[0] == "set") {
    found = set_choices(argument, asked.size() > 2 ? asked[2] : "");
  } else if (asked[0] == "question") {
    found = question_key_choices(argument, asked.size() > 2 ? asked[2] : "");
  }
  return found;
}

ExitCode show_completion(const CommandLine& line, const Installation& installation) {
  if (line.arguments.front() == "words") {
    for (const std::string& choice :
         completion_choices({line.arguments.begin() + 1, line.arguments.end()}, line, installation))
      print(stdout, "{}\n", choice);
    return ExitCode::ok;
  }
  const std::string script = completion_script(line.arguments.front());
  if (script.empty()) {
    print(stderr, "longhaul completion: no completion for '{}'; there is one for bash, zsh and fish\n",
          line.arguments.front());
    return ExitCode::usage;
  }
  print_text(stdout, script);
  return ExitCode::ok;
}

}  // namespace longhaul
