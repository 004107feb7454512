// The forms that rows of tuning data come in (JSON Lines), as one table: which keys make a row one of a form, which it
// may have besides, and what it becomes. `sft`, `align`, `reward`, `evaluate` and docs/compatibility.md read this
// table. A row may have a form of its own; a key that its form does not know is refused, unless the stage lists it
// under `ignore`.
#pragma once

#include <span>

namespace longhaul {

enum class TuningRowUse {
  instruction,
  preference,
  labelled,
  reward,  // the forms of `preference`, with what a reward model learns from besides
  rated,   // answers with values of attributes, whose keys are settings
  steps,   // answers in steps, with what each is
};

// Keys are separated by spaces.
struct TuningRowForm {
  TuningRowUse use;
  const char* name;
  const char* keys;      // all of them are there, and none is null
  const char* optional;  // may be there
  const char* becomes;
  const char* of_reward = "";  // may be there for TuningRowUse::reward
};
// In the order in which they are tried.
std::span<const TuningRowForm> tuning_row_forms();

// What is known and not trained on: each with the reason, for rows and for their messages alike.
struct RefusedRowKey {
  const char* key;
  const char* why;
};
std::span<const RefusedRowKey> refused_row_keys();

// Spellings of who speaks, and the role that each becomes.
struct SpeakerName {
  const char* name;
  const char* role;
  const char* how = "";  // what else is done
};
std::span<const SpeakerName> speaker_names();

}  // namespace longhaul
