// What the commands print with --json that have few keys, and all of them where they fail.
#include "orchestrator/cli/options/json_keys.h"

namespace longhaul {
namespace {

// What each of them begins with.
JsonDocument begun(const std::string& command, const std::string& when, std::vector<JsonKey> keys) {
  keys.insert(keys.begin(), {{"file", "text", "longhaul " + command}, {"format", "integer", "of this document: 1"}});
  return {command, when, std::move(keys)};
}

void add_error_keys(std::vector<JsonKey>& keys) {
  for (const JsonKey& key :
       {JsonKey{"errors", "list", "all problems of the input"},
        JsonKey{"errors[].code", "text", "invalid_input, not_found, io, ...: the exit code follows from it"},
        JsonKey{"errors[].file", "text", "where the user wrote the cause; left out where nobody did"},
        JsonKey{"errors[].line", "integer", "from 1; left out as `file` is"},
        JsonKey{"errors[].column", "integer", "from 1; left out as `file` is"},
        JsonKey{"errors[].what", "text", "what is wrong"},
        JsonKey{"errors[].hint", "text", "what to do; \"\": see `what`"}})
    keys.push_back(key);
}

JsonDocument errors_json_document() {
  JsonDocument document =
      begun("errors",
            "Format 1. What any command prints in place of its own document where it does not do what it was asked; "
            "its exit code is not 0. The same stands as text on standard error.",
            {{"command", "text", "which one; \"\": none was named"},
             {"ok", "yes/no", "no"},
             {"exit_code", "integer", "with which the command ends: exit-codes.md"},
             {"warnings", "list", "sentences; left out where the input was not looked at"}});
  add_error_keys(document.keys);
  return document;
}

JsonDocument validate_json_document() {
  return begun("validate", "Format 1. Of a workflow that is not valid: `errors`.",
               {{"ok", "yes/no", "yes"},
                {"workflow", "text", "its name"},
                {"stages", "integer", "how many, variants counted"},
                {"errors", "list", "empty"},
                {"warnings", "list", "sentences"}});
}

JsonDocument logs_json_document() {
  return begun("logs", "Format 1. Not with --follow.",
               {{"run", "text", "folder of the run; of a cached stage, that of the run that made it"},
                {"stage", "text", "id"},
                {"attempt", "text", "folder of the attempt, with events.jsonl in it"},
                {"logs", "list", "files of what the programs printed: the lead's, then each rank's"},
                {"events", "list", "of the attempt, the steps of a long training thinned"},
                {"events[].ms", "integer", "when, in ms since 1970 UTC"},
                {"events[].t", "text", "the same as text"},
                {"events[].kind", "text", "events.md"},
                {"events[].rank", "integer", "who wrote it; -1: the lead"},
                {"events[].NAME", "as it comes", "the fields of its kind: events.md"}});
}

JsonDocument tell_json_document() {
  return begun("tell", "Format 1. What has not happened within --wait is null.",
               {{"run", "text", "folder of the run"},
                {"orders", "list", "what was ordered, in the order of the command line"},
                {"orders[].stage", "text", "to whom; \"\": nobody has answered yet"},
                {"orders[].accepted", "yes/no or null", "the run's controller took it"},
                {"orders[].answer", "text or null", "the controller's"},
                {"orders[].done", "yes/no or null", "it was obeyed"},
                {"orders[].outcome", "text or null", "what became of it"}});
}

JsonDocument tune_json_document() {
  return begun(
      "tune",
      "Format 1. With --dry-run `run` is null and `plan` is there; with --calibrate `constants` and "
      "`calibration` stand in place of what a stage found.",
      {{"run", "text or null", "folder of the run; null: nothing was started"},
       {"written", "text", "when, in UTC"},
       {"stage", "text", "id of the tune or search stage"},
       {"kind", "text", "tune or search"},
       {"state", "text", "of that stage"},
       {"cause", "text or null", "why it failed"},
       {"found_path", "text or null", "layout.toml or hyperparameters.toml; null: nothing was found"},
       {"found", "table or null", "what stands there"},
       {"found.*", "table", "keys of the stage that it is for, and how they were found"},
       {"trials", "list", "as `status` has them"},
       {"trials[].*", "table", "name, outcome, why; of a search settings, rung, steps and its figure, by name"},
       {"plan.*", "table", "the plan as resolved.toml would have it"},
       {"constants", "text", "the file that was written"},
       {"calibration.*", "table", "what was measured and fitted"}});
}

}  // namespace

std::vector<JsonDocument> command_json_documents() {
  return {
      errors_json_document(),
      validate_json_document(),
      begun("init", "Format 1.",
            {{"workflow", "text", "the file that was written"},
             {"made_of", "text", "what it begins with, in words"},
             {"notes", "list", "sentences: what lies there and is not used"},
             {"next", "list", "commands, the likeliest first"}}),
      logs_json_document(),
      tell_json_document(),
      begun("fork", "Format 1.",
            {{"run", "text", "folder of the new run, which is not started"},
             {"name", "text", "its name"},
             {"from", "text", "where it goes on, in words"}}),
      begun("notify",
            "Format 1. Printed also where messages wait or were given up, which ends with another code than 0.",
            {{"run", "text", "folder of the run"},
             {"sent", "integer", "messages that arrived"},
             {"waiting", "integer", "messages that are tried again"},
             {"given_up", "integer", "messages that are not"},
             {"problem", "text", "why the last one did not arrive; \"\": none failed"}}),
      begun("support-bundle", "Format 1.",
            {{"run", "text", "folder of the run"},
             {"bundle", "text", "the file that was written"},
             {"bytes", "integer", "its size"}}),
      begun("explain", "Format 1. Of a name that is not known: `errors`.",
            {{"asked", "text", "the name, as it was given"},
             {"said", "text", "where it is another program's name: what it is called here; \"\" otherwise"},
             {"found", "list", "what the reference says of it"},
             {"found[].name", "text", "as the reference writes it"},
             {"found[].where", "list", "pages and sections that say the same"},
             {"found[].text", "text", "a line for each column"}}),
      tune_json_document(),
      begun("docs", "Format 1.",
            {{"pages", "list", "of the reference; manual pages with --man, drawings with --figures"},
             {"pages[].name", "text", "file name"},
             {"pages[].text", "text", "in Markdown; left out where files are written"},
             {"pages[].path", "text", "the file that was written; left out where none is"}}),
  };
}

}  // namespace longhaul
