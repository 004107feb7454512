// What other programs call the settings of a stage: Megatron-LM, transformers' TrainingArguments, TRL, DeepSpeed, NeMo,
// Accelerate, and Slurm's options. Data alone; key_advice.h offers a row where the table at hand has its key.
#pragma once

#include <string>
#include <vector>

namespace longhaul {

struct KeySynonym {
  std::string theirs;             // in small letters, with '_' for '-'
  std::vector<std::string> ours;  // keys of a stage, "optimizer.lr"; the ones that a table has are offered
  std::string note;               // what differs; "": only the name
};
const std::vector<KeySynonym>& key_synonyms();

}  // namespace longhaul
