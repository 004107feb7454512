#include "contracts/settings/stages/tuning_row_form.h"

namespace longhaul {
namespace {

constexpr auto instruction = TuningRowUse::instruction, preference = TuningRowUse::preference,
               labelled = TuningRowUse::labelled, rated = TuningRowUse::rated, steps = TuningRowUse::steps;

constexpr TuningRowForm forms[] = {
    {labelled, "labelled answer", "prompt completion label", "system tools",
     "an answer to a prompt, as texts or as lists of messages, that is good (`label` true or 1) or bad (false or 0)"},
    {instruction, "messages", "messages", "system tools",
     "the conversation; each answer of the assistant is trained on unless its `weight` is 0 or its `train` false"},
    {instruction, "ShareGPT", "conversations", "system tools", "the same from {from, value} or {role, content}"},
    {instruction, "Alpaca", "instruction output", "input system history",
     "the instruction, an empty line and the input, answered by the output, after the turns of the history"},
    {instruction, "Alpaca", "instruction response", "input system history", "the same"},
    {instruction, "input/output", "input output", "system history", "a question and its answer"},
    {instruction, "prompt/completion", "prompt completion", "system history tools",
     "a question and its answer, as texts or as lists of messages"},
    {instruction, "prompt/response", "prompt response", "system history", "the same"},
    {instruction, "question/answer", "question answer", "system history", "the same"},
    {instruction, "text", "text", "", "the text as it stands and the token that ends a text, all of it trained on"},
    {preference, "pair", "prompt chosen rejected", "system tools",
     "two answers to a prompt, as texts or as lists of messages that go on from the prompt or repeat it",
     "margin category subset"},
    {preference, "pair of conversations", "chosen rejected", "system tools",
     "two conversations, of which what both begin with is the prompt; the rest begins with an answer",
     "margin category subset"},
    {preference, "ranked answers", "prompt responses ranks", "system",
     "a pair for any two answers of different rank; 1 is the best", "category subset"},
    {preference, "scored answers", "prompt responses scores", "system",
     "a pair for any two answers of different score; more is better", "category subset"},
    {rated, "rated answer", "prompt response", "system tools",
     "an answer with a value for each attribute of the stage that the row has as a key (HelpSteer)"},
    {steps, "labelled steps", "prompt completions labels", "system tools category subset",
     "an answer in steps, each right (true, 1), wrong (false, 0), between the two, or not said (null) (TRL)"},
    {steps, "steps with the first wrong one", "prompt steps label", "system tools category subset",
     "an answer in steps, of which that number is the first wrong one, counted from 0; -1: all are right"},
    {steps, "steps with the first wrong one", "problem steps label", "system category subset",
     "the same (ProcessBench)"},
};

constexpr const char* older_calls = "tools and calls of them are written as tools and tool_calls";
constexpr const char* no_images = "models here read text alone";

constexpr RefusedRowKey keys_refused[] = {
    {"tools", "tools stand beside messages, conversations, a prompt and its completion, or a pair of answers"},
    {"functions", older_calls},
    {"tool_calls", "the assistant alone calls tools, in messages"},
    {"function_call", older_calls},
    {"tool_call_id", "a message of the role tool alone answers a call"},
    {"image", no_images},
    {"images", no_images},
    {"image_url", no_images},
    {"video", no_images},
    {"videos", no_images},
    {"audio", no_images},
    {"audios", no_images},
    {"label",
     "answers that are good or bad by themselves are {prompt, completion, label}, for align with method = \"kto\""},
    {"margin", "by how much the chosen answer is better is learnt by a stage of the kind reward, of pairs"},
    {"reasoning_content", "the form of conversations has no place for thoughts beside the answer"},
    {"thinking", "the form of conversations has no place for thoughts beside the answer"},
    {"prefix", "the beginning of an answer that is given cannot be left out of the loss"},
};

constexpr SpeakerName speakers[] = {
    {"system", "system"},       {"developer", "system"},
    {"user", "user"},           {"human", "user"},
    {"assistant", "assistant"}, {"gpt", "assistant"},
    {"chatgpt", "assistant"},   {"bot", "assistant"},
    {"model", "assistant"},     {"bing", "assistant"},
    {"bard", "assistant"},      {"function_call", "assistant", "its text is the JSON of a call, or of a list of them"},
    {"tool", "tool"},           {"function", "tool"},
    {"observation", "tool"},    {"function_response", "tool"},
    {"ipython", "tool"},
};

}  // namespace

std::span<const TuningRowForm> tuning_row_forms() {
  return forms;
}
std::span<const RefusedRowKey> refused_row_keys() {
  return keys_refused;
}
std::span<const SpeakerName> speaker_names() {
  return speakers;
}

}  // namespace longhaul
