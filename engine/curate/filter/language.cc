#include "engine/curate/filter/language.h"

#include <cstdio>  // before CLD2's header, which needs it
//
#include <cld2/public/compact_lang_det.h>

#include "base/text/text.h"

namespace longhaul {
namespace {

// CLD2 keeps a few withdrawn codes.
std::string current_code(const std::string& code) {
  if (code == "iw") return "he";
  if (code == "jw") return "jv";
  if (code == "un") return "und";
  return code;
}

}  // namespace

LanguageGuess detect_language(std::string_view raw) {
  const std::string text = is_valid_utf8(raw) ? std::string(raw) : repair_utf8(raw);
  CLD2::Language languages[3];
  int percents[3];
  int text_bytes = 0;
  LanguageGuess guess;
  bool reliable = false;
  const CLD2::Language best = CLD2::ExtDetectLanguageSummary(text.data(), static_cast<int>(text.size()), true,
                                                             languages, percents, &text_bytes, &reliable);
  if (best == CLD2::UNKNOWN_LANGUAGE) return guess;
  guess.code = current_code(CLD2::LanguageCode(best));
  guess.reliable = reliable;
  for (int i = 0; i < 3; ++i) {
    if (languages[i] == best) guess.score = percents[i] / 100.0;
  }
  return guess;
}

}  // namespace longhaul
