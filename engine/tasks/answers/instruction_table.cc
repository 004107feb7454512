#include "engine/tasks/answers/instruction_table.h"

#include <algorithm>

#include "base/text/text.h"
#include "base/value/json.h"
#include "engine/data/jinja/values/jinja_text.h"
#include "engine/data/jinja/values/text_case.h"
#include "engine/data/patterns/answer_pattern.h"
#include "engine/tasks/answers/english_text.h"
#ifdef LONGHAUL_HAVE_CURATE
#include "engine/curate/filter/language.h"
#endif

namespace longhaul {
namespace {

using AskedFor = InstructionArguments;

std::string stripped(const std::string& text) {
  return strip_text(text, true, true);
}

Result<std::int64_t> count_matches(const std::string& pattern, const std::string& text) {
  LH_TRY(const AnswerPattern compiled, AnswerPattern::compile(pattern));
  LH_TRY(const auto found, compiled.find_all(text));
  return static_cast<std::int64_t>(found.size());
}

std::vector<std::string> split_by(const std::string& text, const std::string& separator) {
  std::vector<std::string> pieces;
  std::size_t from = 0;
  for (std::size_t at = text.find(separator); at != std::string::npos; at = text.find(separator, from)) {
    pieces.push_back(text.substr(from, at - from));
    from = at + separator.size();
  }
  pieces.push_back(text.substr(from));
  return pieces;
}

// keywords

Result<bool> has_keywords(const AskedFor& asked, const std::string& answer) {
  LH_TRY(const std::vector<std::string> keywords, asked.texts("keywords"));
  for (const std::string& keyword : keywords) {
    LH_TRY(const std::int64_t found, count_matches("(?i)" + keyword, answer));
    if (found == 0) return false;
  }
  return true;
}

Result<bool> has_keyword_often(const AskedFor& asked, const std::string& answer) {
  LH_TRY(const std::string keyword, asked.text("keyword"));
  LH_TRY(const std::int64_t found, count_matches("(?i)" + keyword, answer));
  return asked.compares(found, "frequency", "relation");
}

Result<bool> has_no_forbidden_word(const AskedFor& asked, const std::string& answer) {
  LH_TRY(const std::vector<std::string> forbidden, asked.texts("forbidden_words"));
  for (const std::string& word : forbidden) {
    LH_TRY(const std::int64_t found, count_matches("(?i)\\b" + word + "\\b", answer));
    if (found > 0) return false;
  }
  return true;
}

Result<bool> has_letter_often(const AskedFor& asked, const std::string& answer) {
  LH_TRY(std::string letter, asked.text("letter"));
  letter = lower_case(letter);
  if (count_of_characters(letter) != 1)
    return make_error(ErrorCode::invalid_input, format("the letter '{}' is not one character", letter));
  std::int64_t found = 0;
  for (const std::string& one : characters_of(lower_case(answer))) found += one == letter ? 1 : 0;
  return asked.compares(found, "let_frequency", "let_relation");
}

// language

// "und": not known.
Result<std::string> language_of([[maybe_unused]] const std::string& text) {
#ifdef LONGHAUL_HAVE_CURATE
  return detect_language(text).code;
#else
  return make_error(ErrorCode::unsupported, "this build knows no languages", "build with CLD2 (libcld2-dev)");
#endif
}

// What has no language that is known counts as followed.
Result<bool> is_in(const std::string& language, const std::string& answer) {
  LH_TRY(const std::string found, language_of(answer));
  return found == "und" || found == language || starts_with(found, language + "-");
}

Result<bool> is_in_language(const AskedFor& asked, const std::string& answer) {
  LH_TRY(const std::string language, asked.text("language"));
  return is_in(language, answer);
}

// length_constraints

Result<bool> has_sentences(const AskedFor& asked, const std::string& answer) {
  return asked.compares(count_sentences(answer), "num_sentences", "relation");
}

Result<bool> has_words(const AskedFor& asked, const std::string& answer) {
  LH_TRY(const std::int64_t words, count_matches("\\w+", answer));
  return asked.compares(words, "num_words", "relation");
}

// Between lines of three asterisks; an empty one may only be the first or the last.
Result<bool> has_paragraphs(const AskedFor& asked, const std::string& answer) {
  LH_TRY(const std::int64_t wanted, asked.whole("num_paragraphs"));
  LH_TRY(const AnswerPattern mark, AnswerPattern::compile(R"(\s?\*\*\*\s?)"));
  LH_TRY(const std::vector<std::string> pieces, mark.split(answer));
  auto count = static_cast<std::int64_t>(pieces.size());
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (!stripped(pieces[i]).empty()) continue;
    if (i != 0 && i + 1 != pieces.size()) return false;
    --count;
  }
  return count == wanted;
}

// Up to its first mark, in small letters.
std::string first_word_of(const std::string& paragraph) {
  std::string word;
  for (const std::string& one : characters_of(paragraph)) {
    if (stripped(one).empty()) break;
    word += one;
  }
  word = strip_text(strip_text(word, true, false, "'"), true, false, "\"");
  return lower_case(word.substr(0, word.find_first_of(".,?!'\"")));
}

Result<bool> begins_paragraph(const AskedFor& asked, const std::string& answer) {
  LH_TRY(const std::int64_t wanted, asked.whole("num_paragraphs"));
  LH_TRY(const std::int64_t which, asked.whole("nth_paragraph"));
  LH_TRY(const std::string first, asked.text("first_word"));
  const std::vector<std::string> paragraphs = split_by(answer, "\n\n");
  const std::int64_t count =
      std::ranges::count_if(paragraphs, [](const std::string& one) { return !stripped(one).empty(); });
  if (which > count) return false;
  const std::string paragraph = stripped(paragraphs[static_cast<std::size_t>(which - 1)]);
  return !paragraph.empty() && count == wanted && first_word_of(paragraph) == lower_case(first);
}

// detectable_content

Result<bool> has_placeholders(const AskedFor& asked, const std::string& answer) {
  LH_TRY(const std::int64_t wanted, asked.whole("num_placeholders"));
  LH_TRY(const std::int64_t found, count_matches(R"(\[.*?\])", answer));
  return found >= wanted;
}

Result<bool> has_postscript(const AskedFor& asked, const std::string& answer) {
  LH_TRY(const std::string marker, asked.text("postscript_marker"));
  const std::string mark = marker == "P.P.S"  ? R"(p\.\s?p\.\s?s)"
                           : marker == "P.S." ? R"(p\.\s?s\.)"
                                              : lower_case(marker);
  LH_TRY(const std::int64_t found, count_matches("(?m)\\s*" + mark + ".*$", lower_case(answer)));
  return found > 0;
}

// detectable_format

Result<bool> has_bullets(const AskedFor& asked, const std::string& answer) {
  LH_TRY(const std::int64_t wanted, asked.whole("num_bullets"));
  LH_TRY(const std::int64_t stars, count_matches(R"((?m)^\s*\*[^\*].*$)", answer));
  LH_TRY(const std::int64_t dashes, count_matches(R"((?m)^\s*-.*$)", answer));
  return stars + dashes == wanted;
}

Result<bool> is_constrained(const AskedFor&, const std::string& answer) {
  const auto says = [&](const char* option) { return answer.find(option) != std::string::npos; };
  return says("My answer is yes.") || says("My answer is no.") || says("My answer is maybe.");
}

// Texts in single asterisks, and once more those in double ones.
Result<bool> has_highlights(const AskedFor& asked, const std::string& answer) {
  LH_TRY(const std::int64_t wanted, asked.whole("num_highlights"));
  std::int64_t count = 0;
  for (const char* pattern : {R"(\*[^\n\*]*\*)", R"(\*\*[^\n\*]*\*\*)"}) {
    LH_TRY(const AnswerPattern compiled, AnswerPattern::compile(pattern));
    LH_TRY(const auto found, compiled.find_all(answer));
    for (const auto& match : found) count += stripped(strip_text(match.front(), true, true, "*")).empty() ? 0 : 1;
  }
  return count >= wanted;
}

Result<bool> has_sections(const AskedFor& asked, const std::string& answer) {
  LH_TRY(const std::string mark, asked.text("section_spliter"));
  LH_TRY(const std::int64_t wanted, asked.whole("num_sections"));
  LH_TRY(const std::int64_t found, count_matches("\\s?" + mark + "\\s?\\d+\\s?", answer));
  return found >= wanted;
}

Result<bool> is_json(const AskedFor&, const std::string& answer) {
  std::string text = stripped(answer);
  for (const char* fence : {"```json", "```Json", "```JSON", "```"})
    if (starts_with(text, fence)) text = text.substr(std::string_view(fence).size());
  if (ends_with(text, "```")) text.resize(text.size() - 3);
  return parse_json(stripped(text), "answer").ok();
}

Result<bool> has_title(const AskedFor&, const std::string& answer) {
  LH_TRY(const AnswerPattern pattern, AnswerPattern::compile("<<[^\\n]+>>"));
  LH_TRY(const auto found, pattern.find_all(answer));
  return std::ranges::any_of(found, [](const std::vector<std::string>& match) {
    return !stripped(strip_text(strip_text(match.front(), true, false, "<"), false, true, ">")).empty();
  });
}

// combination

Result<bool> has_two_answers(const AskedFor&, const std::string& answer) {
  std::vector<std::string> given;
  const std::vector<std::string> pieces = split_by(answer, "******");
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const std::string one = stripped(pieces[i]);
    if (!one.empty())
      given.push_back(one);
    else if (i != 0 && i + 1 != pieces.size())
      return false;
  }
  return given.size() == 2 && given[0] != given[1];
}

Result<bool> repeats_prompt(const AskedFor& asked, const std::string& answer) {
  LH_TRY(const std::string prompt, asked.text("prompt_to_repeat"));
  return starts_with(lower_case(stripped(answer)), lower_case(prompt));
}

// startend

Result<bool> ends_with_phrase(const AskedFor& asked, const std::string& answer) {
  LH_TRY(const std::string phrase, asked.text("end_phrase"));
  return ends_with(lower_case(strip_text(stripped(answer), true, true, "\"")), lower_case(phrase));
}

Result<bool> is_quoted(const AskedFor&, const std::string& answer) {
  const std::string text = stripped(answer);
  return text.size() > 1 && text.front() == '"' && text.back() == '"';
}

// change_case

Result<bool> has_capital_words(const AskedFor& asked, const std::string& answer) {
  return asked.compares(count_capital_words(answer), "capital_frequency", "capital_relation");
}

Result<bool> is_english_capitals(const AskedFor&, const std::string& answer) {
  if (!is_upper_text(answer)) return false;
  return is_in("en", answer);
}

Result<bool> is_english_small_letters(const AskedFor&, const std::string& answer) {
  if (!is_lower_text(answer)) return false;
  return is_in("en", answer);
}

// punctuation

Result<bool> has_no_comma(const AskedFor&, const std::string& answer) {
  return answer.find(',') == std::string::npos;
}

constexpr InstructionKind kinds[] = {
    {"keywords:existence", has_keywords},
    {"keywords:frequency", has_keyword_often},
    {"keywords:forbidden_words", has_no_forbidden_word},
    {"keywords:letter_frequency", has_letter_often},
    {"language:response_language", is_in_language},
    {"length_constraints:number_sentences", has_sentences},
    {"length_constraints:number_paragraphs", has_paragraphs},
    {"length_constraints:number_words", has_words},
    {"length_constraints:nth_paragraph_first_word", begins_paragraph},
    {"detectable_content:number_placeholders", has_placeholders},
    {"detectable_content:postscript", has_postscript},
    {"detectable_format:number_bullet_lists", has_bullets},
    {"detectable_format:constrained_response", is_constrained},
    {"detectable_format:number_highlighted_sections", has_highlights},
    {"detectable_format:multiple_sections", has_sections},
    {"detectable_format:json_format", is_json},
    {"detectable_format:title", has_title},
    {"combination:two_responses", has_two_answers},
    {"combination:repeat_prompt", repeats_prompt},
    {"startend:end_checker", ends_with_phrase},
    {"startend:quotation", is_quoted},
    {"change_case:capital_word_frequency", has_capital_words},
    {"change_case:english_capital", is_english_capitals},
    {"change_case:english_lowercase", is_english_small_letters},
    {"punctuation:no_comma", has_no_comma},
};

}  // namespace

std::span<const InstructionKind> instruction_table() {
  return kinds;
}

const InstructionKind* find_instruction(const std::string& name) {
  const auto* const found = std::ranges::find_if(kinds, [&](const InstructionKind& one) { return name == one.name; });
  return found == std::end(kinds) ? nullptr : found;
}

}  // namespace longhaul
