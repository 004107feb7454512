// Room engine/data
// The work of the stage `tokenize`: a corpus becomes a vocabulary and token files.
// tokenize_task.h lists what is read and written; it joins tokenizer/ (training BPE) and files/ (token files).
// It does not know the order in which a training reads samples: that is engine/data/samples.
//
// The work of the stage kind `tokenize`: a curated corpus becomes a vocabulary and token files.
//
// Reads   CORPUS/documents.jsonl and, if it is there, CORPUS/heldout.jsonl; each line {"text", "language", ...}.
// Writes  tokenizer.json, tokenizer_config.json
//         train.bin/.idx, heldout.bin/.idx   documents in file order, each ended by the end-of-text token
//         heldout.txt                        the held-out texts, each followed by a newline
//         stats.json                         documents, tokens, bytes, bytes per token; in all and per language
// The vocabulary is learnt from documents.jsonl only; held-out pages never shape it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/error/result.h"
#include "base/value/value.h"
#include "contracts/settings/stages/tokenize.h"

namespace longhaul {

struct TokenizeInputs {
  std::string corpus;     // folder
  std::string tokenizer;  // an existing tokenizer.json, or a folder that holds one; empty: train
};

// (what is being done, fraction in 0..1); called from one thread.
using TokenizeProgress = std::function<void(std::string_view what, double fraction)>;

// Fills the existing folder `out`; the same bytes for any number of threads. Returns what stats.json holds.
// ErrorCode::invalid_input: no documents, or lines that are none (reported together, at most 20 shown).
Result<Value> tokenize_corpus(const TokenizeInputs& inputs, const TokenizeSettings& settings, const std::string& out,
                              int threads, const TokenizeProgress& progress = {});

}  // namespace longhaul
