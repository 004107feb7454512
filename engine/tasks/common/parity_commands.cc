#include "engine/tasks/common/parity_commands.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "base/files/files.h"
#include "base/text/print.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "base/value/json_lines.h"
#include "engine/data/jinja/jinja_template.h"
#include "engine/data/template/end_tokens.h"
#include "engine/data/template/post_processor.h"
#include "engine/model/inference/inference_memory.h"
#include "engine/model/store/model_folder.h"

namespace longhaul {

namespace {

Value array_of(std::span<const std::int32_t> ids) {
  Value array = Value::make_array();
  for (const std::int32_t id : ids) array.push_back(id);
  return array;
}

void print_line(const Value& value) {
  print_text(stdout, to_json(value) + "\n");
}

Result<DType> dtype_of(const std::string& precision) {
  if (precision == "f32") return DType::f32;
  if (precision == "bf16") return DType::bf16;
  return make_error(ErrorCode::invalid_input, "precision " + precision, "use f32 or bf16");
}

}  // namespace

Status print_token_ids(const std::string& tokenizer_path, const std::string& documents_path) {
  LH_TRY(const Tokenizer tokenizer, Tokenizer::load(tokenizer_path));
  LH_TRY(const std::string text, read_file(documents_path));
  EncodeScratch scratch;
  std::vector<std::int32_t> ids;
  const auto print_ids = [&](std::string_view document) -> Status {
    ids.clear();
    LH_CHECK(tokenizer.encode(document, false, scratch, ids));
    print_line(array_of(ids));
    return {};
  };
  if (!ends_with(documents_path, ".jsonl")) {
    return print_ids(text);
  }
  JsonLineReader lines(text);
  for (JsonLine line; lines.next(line);) {
    LH_TRY(const Value document, parse_json_row(line, documents_path));
    LH_CHECK(print_ids(document.get_string("text")));
  }
  return {};
}

Status print_rendered(const std::string& template_path, const std::string& variables_path) {
  LH_TRY(const std::string source, read_file(template_path));
  LH_TRY(const std::string text, read_file(variables_path));
  LH_TRY(const JinjaTemplate chat, JinjaTemplate::parse(source, template_path));
  std::tm now{};  // the same in every run: Friday, 27 November 2026, 9:00
  now.tm_year = 126, now.tm_mon = 10, now.tm_mday = 27, now.tm_hour = 9, now.tm_wday = 5, now.tm_yday = 330;
  JsonLineReader lines(text);
  for (JsonLine line; lines.next(line);) {
    LH_TRY(const Value variables, parse_json_row(line, variables_path));
    const Result<JinjaRendering> made = chat.render(JinjaValue::from(variables).as_table(), now);
    Value out = Value::make_table();
    if (made.ok()) {
      out.set("text", made->text);
      Value answers = Value::make_array();
      for (const auto& [begin, end] : made->answers) answers.push_back(ValueArray{Value(begin), Value(end)});
      out.set("answers", std::move(answers));
    } else {
      out.set("error", made.error().message());
    }
    print_line(out);
  }
  return {};
}

Result<InferenceModel> load_for_one(const ComputeContext& context, const std::string& folder, DType dtype,
                                    std::int64_t tokens, std::int64_t prompt_tokens) {
  if (context.device() != nullptr) {
    LH_TRY(const HfConfig config, load_model_config(folder, AdapterParts::known));
    InferenceLoad load;
    load.context_length = std::min(tokens, config.shape.max_position_embeddings);
    load.tokens_max = prompt_tokens, load.logits_rows = prompt_tokens;
    load.in_pages = true;
    LH_TRY(InferenceMemory planned, plan_inference_memory(folder, config.shape, dtype, load));
    LH_CHECK(plan_cache_pages(config.shape, dtype, load, *context.device(), planned));
  }
  return InferenceModel::load(folder, dtype, context.device());
}

Status print_logits(const std::string& model_folder, const std::string& tokens_path, const InferenceChoice& choice,
                    const OpenGpu& open_gpu) {
  LH_TRY(const DType dtype, dtype_of(choice.precision));
  LH_TRY(const std::unique_ptr<Gpu> gpu, open_device(choice.device, open_gpu));
  const ComputeContext context = gpu ? ComputeContext(gpu->device(), gpu->ops()) : ComputeContext(1);
  LH_TRY(const std::string text, read_file(tokens_path));
  LH_TRY(Value value, parse_json(text, tokens_path));
  const Value* list = value.is_table() ? value.find("tokens") : &value;
  std::vector<std::int32_t> ids;
  if (list && list->is_array())
    for (const Value& id : list->as_array())
      if (id.is_integer()) ids.push_back(static_cast<std::int32_t>(id.as_integer()));
  if (ids.empty()) return make_error(ErrorCode::invalid_input, tokens_path + " holds no token ids");
  const auto count = static_cast<std::int64_t>(ids.size());
  LH_TRY(InferenceModel model, load_for_one(context, model_folder, dtype, count, count));
  const std::int64_t vocab = model.shape().vocab_size;
  std::vector<float> logits(ids.size() * static_cast<std::size_t>(vocab));
  KvCache cache = model.make_cache(static_cast<std::int64_t>(ids.size()));
  const SequenceStep step{&cache, ids};
  LH_CHECK(model.forward(context, {&step, 1}, LogitsWanted::all, logits));
  Value rows = Value::make_array();
  for (std::size_t t = 0; t < ids.size(); ++t) {
    Value row = Value::make_array();
    for (std::int64_t v = 0; v < vocab; ++v)
      row.push_back(static_cast<double>(logits[t * static_cast<std::size_t>(vocab) + static_cast<std::size_t>(v)]));
    rows.push_back(std::move(row));
  }
  Value out = Value::make_table();
  out.set("vocab", vocab);
  out.set("tokens", array_of(ids));
  out.set("logits", std::move(rows));
  print_line(out);
  return {};
}

// The first of equal ones, as argmax everywhere. logits: scratch [vocab].
static Result<std::int32_t> most_probable(const ComputeContext& context, InferenceModel& model,
                                          const SequenceStep& step, std::span<float> logits) {
  if (model.device() != nullptr) {
    SampleRow greedy;
    greedy.temperature = 0;
    std::int32_t token = -1;
    LH_CHECK(model.draw(context, {&step, 1}, {&greedy, 1}, {&token, 1}));
    return token;
  }
  LH_CHECK(model.forward(context, {&step, 1}, LogitsWanted::last, logits));
  return static_cast<std::int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

Result<std::vector<std::int32_t>> generate_greedy(const ComputeContext& context, InferenceModel& model,
                                                  std::span<const std::int32_t> prompt, std::int64_t tokens_max,
                                                  std::span<const std::int64_t> ends) {
  const std::int64_t length =
      std::min(model.shape().text_length_max(), static_cast<std::int64_t>(prompt.size()) + tokens_max);
  std::unique_ptr<KvPool> pool;  // on a device
  KvCache cache;
  if (model.device() != nullptr) {
    pool = model.make_pool(KvPool::pages_for(length));
    cache = KvCache(*pool);
    LH_ASSERT(cache.reserve(length), "a pool of its own");
  } else {
    cache = model.make_cache(length);
  }
  std::vector<float> logits(static_cast<std::size_t>(model.shape().vocab_size));
  std::vector<std::int32_t> out;
  SequenceStep step{&cache, prompt};
  while (static_cast<std::int64_t>(out.size()) < tokens_max) {
    LH_TRY(const std::int32_t next, most_probable(context, model, step, logits));
    if (std::find(ends.begin(), ends.end(), next) != ends.end()) break;
    out.push_back(next);
    if (cache.length() + 1 > cache.length_max()) break;
    step.tokens = std::span<const std::int32_t>(&out.back(), 1);
  }
  return out;
}

Status print_generated(const std::string& model_folder, const std::string& prompt, std::int64_t tokens_max,
                       const InferenceChoice& choice, const OpenGpu& open_gpu) {
  LH_TRY(const DType dtype, dtype_of(choice.precision));
  LH_TRY(const std::unique_ptr<Gpu> gpu, open_device(choice.device, open_gpu));
  const ComputeContext context = gpu ? ComputeContext(gpu->device(), gpu->ops()) : ComputeContext(1);
  LH_CHECK(load_model_config(model_folder, AdapterParts::known));
  const std::string tokenizer_path = join_path(model_folder, "tokenizer.json");
  LH_TRY(const Tokenizer tokenizer, Tokenizer::load(tokenizer_path));
  LH_TRY(const PostProcessor around, PostProcessor::create(tokenizer, tokenizer_path));
  LH_TRY(const ModelTokens named, tokens_of_folder(model_folder, tokenizer));
  LH_TRY(std::vector<std::int32_t> text_ids, tokenizer.encode(prompt, true));
  const std::vector<std::int32_t> ids = around.around(std::move(text_ids));
  const auto count = static_cast<std::int64_t>(ids.size());
  LH_TRY(InferenceModel model, load_for_one(context, model_folder, dtype, count + tokens_max, count));
  LH_TRY(const std::vector<std::int32_t> out, generate_greedy(context, model, ids, tokens_max, named.ends));
  const std::string text = repair_utf8(tokenizer.decode(out, true)) + "\n";  // a token may be a zero byte
  (::isatty(STDOUT_FILENO) == 1 ? print_text : print_bytes)(stdout, text);   // in a pipe it is data
  return {};
}

}  // namespace longhaul
