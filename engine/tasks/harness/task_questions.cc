#include "engine/tasks/harness/task_questions.h"

#include <algorithm>
#include <numeric>
#include <span>

#include "base/text/text.h"
#include "engine/tasks/answers/instruction_checks.h"
#include "engine/tasks/harness/python_random.h"
#include "engine/tasks/harness/row_texts.h"
#include "engine/tasks/harness/task_rows.h"

namespace longhaul {

namespace {

constexpr std::uint32_t example_seed = 1234;  // fewshot_random_seed of lm-evaluation-harness

bool same_row(const Value& a, const Value& b) {
  if (a.size() != b.size()) return false;
  return std::ranges::all_of(a.as_table(), [&](const ValueMember& member) {
    const Value* other = b.find(member.key);
    return other != nullptr && *other == member.value;
  });
}

TaskTexts with_defaults(TaskTexts texts, const TaskTexts& otherwise) {
  if (texts.text.is_null()) texts.text = otherwise.text;
  if (texts.target.is_null()) texts.target = otherwise.target;
  if (texts.choice.is_null()) texts.choice = otherwise.choice;
  return texts;
}

class QuestionMaker {
 public:
  QuestionMaker(const EvaluationTask& task, const TaskChat& chat) : task_(task), chat_(chat), random_(example_seed) {}

  Status prepare(const TaskRows& asked) {
    LH_TRY(texts_, RowTexts::create(task_.texts, asked.columns));
    LH_TRY(example_texts_, RowTexts::create(with_defaults(task_.example_texts, task_.texts), asked.columns));
    Value description(task_.description);
    description.pos = task_.description_where;
    LH_TRY(description_, RowText::create(description, "description", {}));
    if (task_.gen_prefix) {
      Value prefix(*task_.gen_prefix);
      prefix.pos = task_.gen_prefix_where;
      LH_TRY(prefix_, RowText::create(prefix, "gen_prefix", asked.columns));
    }
    if (task_.num_fewshot > 0) LH_CHECK(prepare_examples());
    LH_TRY(const Value first, texts_.text(asked.rows.front()));
    contexts_are_choices_ = first.is_integer() && texts_.has_choices();
    return {};
  }

  Result<TaskQuestion> make(const Value& row, int line) {
    TaskQuestion question;
    question.line = line;
    if (texts_.has_choices()) {
      LH_TRY(question.choices, texts_.choices(row));
    }
    if (task_.output == TaskOutput::loglikelihood_rolling) {
      LH_CHECK(take_targets(row, question));
      question.requests.push_back({"", question.targets.front()});
      return question;
    }
    LH_TRY(const std::string context, context_of(row, question.choices));
    if (task_.output == TaskOutput::multiple_choice) {
      LH_CHECK(ask_choices(row, context, question));
      return question;
    }
    LH_CHECK(take_targets(row, question));
    LH_CHECK(keep_row(row, question));
    const bool generates = task_.output == TaskOutput::generate_until;
    question.requests.push_back({context, generates ? std::string() : question.targets.front()});
    if (!generates && question.targets.size() != 1)
      return make_error(ErrorCode::unsupported, "doc_to_target gives several answers to score",
                        "a loglikelihood has one");
    return question;
  }

 private:
  Status prepare_examples() {
    if (!task_.fewshot_split.empty() || task_.examples.empty()) {
      LH_TRY(examples_, read_task_rows(task_, task_.example_split()));
    } else {
      examples_ = rows_of(task_.examples);
    }
    // One more is drawn where the row itself may be among them: as there, also where neither split is named.
    drawn_ = static_cast<std::size_t>(task_.num_fewshot) + (task_.fewshot_split == task_.test_split ? 1 : 0);
    if (drawn_ <= examples_.rows.size()) return {};
    return make_error(ErrorCode::invalid_input, format("num_fewshot = {} draws {} examples, and there are {}",
                                                       task_.num_fewshot, drawn_, examples_.rows.size()));
  }

  // What is asked and answered in an example.
  struct Example {
    std::string text, answer;
    bool answered = true;
  };

  // The examples before a row.
  Result<std::vector<Example>> examples_of(const Value& row) {
    std::vector<std::size_t> drawn(drawn_);
    std::iota(drawn.begin(), drawn.end(), std::size_t{0});
    if (task_.sampler == ExampleSampler::drawn) {
      // As there: for one turn of a conversation examples are drawn twice, and the second ones taken.
      if (chat_.chat_template != nullptr && !chat_.examples_as_turns) random_.sample(examples_.rows.size(), drawn_);
      drawn = random_.sample(examples_.rows.size(), drawn_);
    }
    std::vector<Example> made;
    for (const std::size_t which : drawn) {
      if (made.size() == static_cast<std::size_t>(task_.num_fewshot)) break;
      const Value& example = examples_.rows[which];
      if (same_row(example, row)) continue;
      LH_TRY(Example one, example_of(example, row));
      made.push_back(std::move(one));
    }
    return made;
  }

  Result<Example> example_of(const Value& example, const Value& row) {
    std::vector<std::string> choices;
    if (example_texts_.has_choices()) {
      LH_TRY(choices, example_texts_.choices(example));
    }
    LH_TRY(const Value text, example_texts_.text(example));
    LH_TRY(const Value target, example_texts_.target(example));
    Example made;
    LH_TRY(made.text, as_text(text, choices));
    made.answered = !target.is_string() || !target.as_string().empty();
    if (target.is_array() && target.as_array().empty())
      return make_error(ErrorCode::invalid_input, "an example has no answer");
    LH_TRY(const std::string answer,
           target.is_array() ? python_text(target.as_array().front()) : as_text(target, choices));
    LH_TRY(const std::string prefix, prefix_of(row));
    made.answer = (prefix.empty() ? "" : prefix + " ") + answer;
    return made;
  }

  std::string joined(const std::vector<Example>& examples) const {
    std::string made;
    for (const Example& one : examples) {
      made += one.text;
      if (one.answered) made += task_.target_delimiter + one.answer + task_.fewshot_delimiter;
    }
    return made;
  }

  // "" where the task has none.
  Result<std::string> prefix_of(const Value& row) const {
    if (!task_.gen_prefix) return std::string();
    LH_TRY(const Value prefix, prefix_.of(row));
    return python_text(prefix);
  }

  // A text, or the choice of that index.
  Result<std::string> as_text(const Value& value, const std::vector<std::string>& choices) const {
    if (!value.is_integer() || choices.empty()) return python_text(value);
    const std::int64_t at = value.as_integer();
    if (at < 0 || at >= static_cast<std::int64_t>(choices.size()))
      return make_error(ErrorCode::invalid_input, format("choice {} of {}", at, choices.size()));
    return choices[static_cast<std::size_t>(at)];
  }

  // What stands before the answer of a row.
  struct Parts {
    std::string description, question, prefix;
    std::vector<Example> examples;
  };

  Result<std::string> context_of(const Value& row, const std::vector<std::string>& choices) {
    Parts parts;
    if (!task_.description.empty()) {
      LH_TRY(const Value description, description_.of(row));
      parts.description = description.as_string();
    }
    if (task_.num_fewshot > 0) {
      LH_TRY(parts.examples, examples_of(row));
    }
    if (!contexts_are_choices_) {
      LH_TRY(const Value text, texts_.text(row));
      LH_TRY(parts.question, as_text(text, choices));
      LH_TRY(parts.prefix, prefix_of(row));
    }
    if (chat_.chat_template != nullptr) return conversation_of(parts);
    std::string context = parts.description + joined(parts.examples) + parts.question;
    if (task_.gen_prefix && !contexts_are_choices_) context += task_.target_delimiter + parts.prefix;
    return context;
  }

  Result<std::string> conversation_of(const Parts& parts) const {
    std::vector<ChatMessage> messages;
    if (!parts.description.empty()) messages.push_back({"system", parts.description});
    std::string before;
    if (chat_.examples_as_turns) {
      for (const Example& one : parts.examples) {
        messages.push_back({"user", one.text});
        messages.push_back({"assistant", one.answer});
      }
    } else {
      before = joined(parts.examples);
    }
    if (contexts_are_choices_) {
      if (!before.empty()) messages.push_back({"user", before});
      return messages.empty() ? Result<std::string>(std::string()) : rendered(messages);
    }
    messages.push_back({"user", before + parts.question});
    if (!parts.prefix.empty()) messages.push_back({"assistant", parts.prefix});
    return rendered(messages);
  }

  // Where the assistant has the last turn, that goes on; else its turn is opened.
  Result<std::string> rendered(const std::vector<ChatMessage>& messages) const {
    const auto render = [&](std::span<const ChatMessage> turns) -> Result<std::string> {
      if (turns.back().role == "assistant") return chat_.chat_template->render_begun(turns);
      LH_TRY(JinjaRendering made, chat_.chat_template->render(turns, true));
      return std::move(made.text);
    };
    auto whole = render(messages);
    if (whole.ok() || messages.front().role != "system" || messages.size() == 1) return whole;
    return render(std::span(messages).subspan(1));
  }

  Status ask_choices(const Value& row, const std::string& context, TaskQuestion& question) const {
    const std::string delimiter = chat_.chat_template != nullptr ? "" : task_.target_delimiter;
    if (contexts_are_choices_) {
      LH_TRY(const Value target, texts_.target(row));
      LH_TRY(const std::string behind, python_text(target));
      for (const std::string& choice : question.choices) {
        const std::vector<ChatMessage> turn = {{"user", choice}};
        LH_TRY(const std::string asked, chat_.chat_template != nullptr ? rendered(turn) : Result<std::string>(choice));
        question.requests.push_back({context + asked, delimiter + behind});
      }
    } else {
      for (const std::string& choice : question.choices) question.requests.push_back({context, delimiter + choice});
    }
    LH_TRY(const Value right, contexts_are_choices_ ? texts_.text(row) : texts_.target(row));
    const std::vector<Value> all = right.is_array() ? right.as_array() : std::vector<Value>{right};
    for (const Value& one : all) {
      std::size_t at = question.choices.size();
      if (one.is_integer() && one.as_integer() >= 0) at = static_cast<std::size_t>(one.as_integer());
      if (one.is_string())
        at = static_cast<std::size_t>(std::find(question.choices.begin(), question.choices.end(), one.as_string()) -
                                      question.choices.begin());
      if (at < question.choices.size()) question.right.push_back(at);
    }
    if (!question.right.empty()) return {};
    LH_TRY(const std::string answer, python_text(right));
    return make_error(ErrorCode::invalid_input,
                      format("the answer {} is none of its {} choices", answer, question.choices.size()),
                      "rows without an answer cannot be asked");
  }

  // What cannot be judged is said before anything is asked.
  Status keep_row(const Value& row, TaskQuestion& question) const {
    if (!task_.keeps_rows()) return {};
    question.row = row;
    const bool instructs =
        std::ranges::any_of(task_.metrics, [](const TaskMetric& one) { return is_instruction_metric(one.name); });
    if (instructs) LH_CHECK(InstructionChecks::create(row));
    return {};
  }

  Status take_targets(const Value& row, TaskQuestion& question) const {
    LH_TRY(const Value target, texts_.target(row));
    const std::vector<Value> all = target.is_array() ? target.as_array() : std::vector<Value>{target};
    for (const Value& one : all) {
      LH_TRY(std::string text, as_text(one, question.choices));
      question.targets.push_back(std::move(text));
    }
    if (question.targets.empty()) return make_error(ErrorCode::invalid_input, "the row has no answer");
    return {};
  }

  const EvaluationTask& task_;
  const TaskChat chat_;
  PythonRandom random_;
  RowTexts texts_, example_texts_;
  RowText description_, prefix_;
  TaskRows examples_;
  std::size_t drawn_ = 0;
  bool contexts_are_choices_ = false;  // the choices stand before what is scored
};

}  // namespace

Result<std::vector<TaskQuestion>> task_questions(const EvaluationTask& task, const TaskChat& chat) {
  LH_TRY(const TaskRows asked, read_task_rows(task, task.evaluated_split()));
  QuestionMaker maker(task, chat);
  LH_CHECK(maker.prepare(asked));
  std::vector<TaskQuestion> questions;
  for (const Value& row : asked.rows) {
    const int line = static_cast<int>(questions.size()) + 1;
    auto question = maker.make(row, line);
    if (!question.ok())
      return question.error().with_context(format("row {} of the split {}", line, task.evaluated_split()));
    questions.push_back(std::move(*question));
  }
  return questions;
}

}  // namespace longhaul
