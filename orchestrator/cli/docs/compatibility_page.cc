#include "orchestrator/cli/docs/compatibility_page.h"

#include <span>
#include <string_view>

#include "base/text/text.h"
#include "contracts/borders/border_table.h"
#include "contracts/borders/request_field.h"
#include "contracts/settings/stages/tuning_row_form.h"

namespace longhaul {
namespace {

std::string table_cell(std::string_view text) {
  return replace_all(std::string(text), "|", "\\|");
}

// "`a`, `b`"
std::string quoted_list(std::string_view keys) {
  return keys.empty() ? "" : format("`{}`", replace_all(std::string(keys), " ", "`, `"));
}

std::string border_section(const char* title, const char* text, std::span<const BorderEntry> entries) {
  std::string out = format("\n## {}\n\n{}\n\n| what | treated | how, or the message |\n|---|---|---|\n", title, text);
  for (const BorderEntry& entry : entries)
    out +=
        format("| {} | {} | {} |\n", table_cell(entry.what), entry.treatment == Treatment::taken ? "taken" : "refused",
               entry.treatment == Treatment::taken ? table_cell(entry.text) : format("`{}`", table_cell(entry.text)));
  return out;
}

std::string rows_section() {
  std::string out =
      "\n## Rows of tuning data\n\nThe forms in full are in [tuning-rows.md](reference/tuning-rows.md). `longhaul data "
      "check FILE` says what a file is before anything is trained on it. Any key of a row or a message may stand "
      "under `ignore` of the stage (`ignore = [\"id\"]`), and then counts as not there; so `ignored on request` stands "
      "at every key that is refused.\n\n| what | treated | how, or the message |\n|---|---|---|\n";
  for (const TuningRowForm& form : tuning_row_forms()) {
    std::string more = *form.optional ? "perhaps " + quoted_list(form.optional) : "nothing else";
    if (*form.of_reward) more += "; for `reward` also " + quoted_list(form.of_reward);
    out += format("| {} with {} | taken | {} |\n", quoted_list(form.keys), more, table_cell(form.becomes));
  }
  for (const RefusedRowKey& key : refused_row_keys())
    out += format("| `{}` | refused, ignored on request | `'{}' is not used: {}` |\n", key.key, key.key, key.why);
  for (const SpeakerName& speaker : speaker_names())
    out += format("| messages of `{}` | taken | those of {}{}{} |\n", speaker.name, speaker.role,
                  *speaker.how ? "; " : "", speaker.how);
  return out + "| any other key | refused, ignored on request | `'...' is no key of the form ...` |\n";
}

std::string harmless_values(const UndoneField& field) {
  std::string out;
  for (const char* value : field.harmless) out += format(", `{}`", value);
  return out;
}

std::string requests_section() {
  std::string out =
      "\n## Requests\n\n`POST /v1/chat/completions` and `/v1/completions`; the guide is [serving.md](serving.md). A "
      "refusal is a 400 with the field in `param`. A field that stands nowhere here is not looked at.\n\n"
      "| field | of | treated | how, or the message |\n|---|---|---|---|\n";
  for (const DoneField& field : done_fields())
    out += format("| `{}` | {} | taken | {} |\n", field.key,
                  field.of == RequestKind::both   ? "both"
                  : field.of == RequestKind::chat ? "chats"
                                                  : "completions",
                  table_cell(field.meaning));
  for (const UndoneField& field : undone_fields())
    out += format("| `{}`, but `null`{} | both | refused | `{} is not done here: {}` |\n", field.key,
                  table_cell(harmless_values(field)), field.key, field.why);
  for (const HarmlessField& field : harmless_fields())
    out += format("| `{}` | both | changes nothing | {} |\n", field.key, field.why);
  out += "\nOf a message:\n\n| field | treated | how, or the message |\n|---|---|---|\n";
  out += "| `content` | taken | a text, or a list of parts of the type `text` |\n";
  for (const RequestRole& role : request_roles())
    out += role.role ? format("| `role` = {} | taken | {} |\n", role.name, role.role)
                     : format(
                           "| `role` = {} | refused | `role is {}: not done here, the role of what a tool answers is "
                           "tool` |\n",
                           role.name, role.name);
  out +=
      "| `tool_calls` of the assistant | taken | beside them `content` may be null; `arguments` are JSON text |\n"
      "| `tool_calls` of others | refused | `tool_calls: the assistant alone calls tools` |\n"
      "| `tool_call_id`, `name` of the role tool | taken | as the chat template writes them |\n";
  for (const UndoneField& field : undone_message_fields())
    out += format("| `{}`, but `null`{} | refused | `{} is not done here: {}` |\n", field.key, harmless_values(field),
                  field.key, field.why);
  return out +
         "| `name` of other roles, and other fields | change nothing | the form of conversations has no place for "
         "names |\n";
}

}  // namespace

ReferencePage compatibility_page() {
  std::string text =
      "# What is taken from others, and what is refused\n\n"
      "<!-- Written by `longhaul docs compatibility`; change the tables in the code, not this file. -->\n\n"
      "What somebody wrote is used, or refused by name and place, or counted and reported; it is never dropped in "
      "silence. A table for each border, with the message of each refusal (`{}` and `...`: what it found).\n";
  text += border_section("Pages", "What `curate` makes of HTML.", page_border());
  text += border_section("Files",
                         "What `curate` reads. A refused record is counted and written to `rejected.jsonl` with the "
                         "reason that stands here; a refused file is an error before anything is read.",
                         file_border());
  text += rows_section();
  text += border_section("Models", "Folders as Hugging Face writes them.", model_border());
  text += border_section("Chat templates", "How a conversation becomes tokens.", template_border());
  text += requests_section();
  return {"compatibility.md", text};
}

}  // namespace longhaul
