#include "contracts/borders/border_table.h"

namespace longhaul {
namespace border_tables {  // names of their own within a batch of files
namespace {

constexpr auto taken = Treatment::taken, refused = Treatment::refused;
constexpr const char* records = "engine/curate/read/records.cc";
constexpr const char* inputs = "engine/curate/read/inputs.cc";
constexpr const char* readers = "engine/curate/readers/document_readers.cc";
constexpr const char* config = "contracts/model/hf_config.cc";
constexpr const char* adapter = "engine/interop/peft_adapter.cc";

constexpr BorderEntry files[] = {
    {".html .htm .xhtml", taken, "a page", ""},
    {".txt .md .text", taken, "a document", ""},
    {".jsonl .ndjson", taken, "a document a line, in its key `text`", ""},
    {".json", taken, "the same, or one array of them", ""},
    {"... with .gz .bz2 .xz .zst behind", taken, "unpacked; of a cut one what is whole, and the cut is counted", ""},
    {"a packing whose library the build lacks", refused, "{} needs a library that was not there", inputs},
    {"Parquet and Arrow", refused, "columns of Parquet and Arrow are not read; write the file as JSON lines", readers},
    {"a record that is no JSON", refused, "not_json", records},
    {"a record that is cut", refused, "cut", records},
    {"a record longer than `page_bytes_max`", refused, "too_long", records},
    {"a record that is no object", refused, "not_an_object", records},
    {"a record without a text", refused, "no_text", records},
};

constexpr BorderEntry pages[] = {
    {"article, main, headings, paragraphs, lists, quotations", taken, "text, a paragraph each", ""},
    {"tables", taken, "their cells in order", ""},
    {"code, `pre`", taken, "as it stands, lines kept", ""},
    {"formulas: MathML, KaTeX, MathJax, `alt` of their images", taken, "LaTeX, once, within its sentence", ""},
    {"navigation, lists of links, what the pages of a site have in common", taken,
     "left out by what it holds and where it stands, and counted", ""},
    {"what is hidden by attribute; scripts, styles", taken, "left out", ""},
    {"any encoding that the page or its bytes name", taken, "UTF-8", ""},
};

constexpr BorderEntry models[] = {
    {"`model_type` llama, mistral, mixtral, gpt2", taken, "as transformers computes them", ""},
    {"any other `model_type`", refused, "model_type '{}' is not supported", config},
    {"another `hidden_act`", refused, "hidden_act '{}' is not supported", config},
    {"rope scaling default, linear, llama3", taken, "as transformers computes it", ""},
    {"any other rope scaling", refused, "rope type '{}' is not supported", config},
    {"`quantization_config` of another kind than Longhaul's own", refused,
     "quantization_config is of a kind that is not read", config},
    {"`model.safetensors`, or shards with an index", taken, "the weights", ""},
    {"an index beside a single file that holds other weights", refused,
     "{} holds two models: {} and the files of {} are not the same weights", "engine/interop/weight_files.cc"},
    {"a header with a key twice", refused, "the key '{}' stands twice in the header", "engine/interop/safetensors.cc"},
    {"a tensor of an unknown dtype", refused, "dtype {} is not supported", "engine/interop/safetensors.cc"},
    {"a tensor that is missing", refused, "the model has no tensor '{}'", "engine/interop/safetensors.cc"},
    {"an adapter of PEFT (LoRA, rsLoRA, DoRA, IA3), or of a training stage, as the input `adapter` of `convert`", taken,
     "merged into the weights", ""},
    {"of PEFT's prompt tuning and p-tuning the embeddings, of its prefix tuning keys and values, in the same place",
     taken, "stand before every text", ""},
    {"the folder `adapter` of a stage with `adapter.kind = \"bottleneck\"`, in the same place", refused,
     " is of a bottleneck, whose layers no weights can take the place of", adapter},
    {"any other `peft_type`", refused, " is no change of weights", adapter},
    {"a key of `adapter_config.json` that is not known, and not empty", refused,
     "is not known: what it changes would be missing", adapter},
    {"`adapter_model.bin`", refused, " has adapter_model.bin, a pickle, which may run programs", adapter},
    {"an adapter of another model", refused, "{} is no adapter of this model: {}", adapter},
    {"`tokenizer.json` of the kind BPE over bytes", taken, "as the tokenizers library reads it", ""},
    {"weights that do not belong to `config.json`", refused,
     "{} describes {} parameters, but the weights beside it have only {} bytes", "engine/model/store/model_folder.cc"},
};

constexpr BorderEntry templates[] = {
    {"a tokenizer with `<|system|>`, `<|user|>`, `<|assistant|>`, `<|end|>`, `<|endoftext|>`", taken,
     "Longhaul's own form, which it also writes as `chat_template`", ""},
    {"`chat_template.jinja`, `chat_template` (a text, or a list of which one is named `default`), `chat_template.json`",
     taken, "run as transformers runs them, for servers, evaluation and the masks of trainings", ""},
    {"named templates of which none is the default", refused, "none of the chat templates {} is named default",
     "engine/data/template/chat_template.cc"},
    {"a conversation that a template refuses", refused,
     "the chat template says: ", "engine/data/jinja/jinja_functions.cc"},
    {"tools, calls of tools, answers of tools", taken,
     "as the template writes them: `tools`, `tool_calls` with arguments as objects, the role `tool`", ""},
    {"a template that leaves out a tool, a call, its arguments or the answer of a tool", refused,
     "the chat template leaves out {}", "engine/data/template/template_tools.cc"},
    {"tools where a model has Longhaul's own form", refused,
     "{} not used: Longhaul's own form of conversations has no place for tools", "engine/data/template/chat.cc"},
    {"for a training, a template without `{% generation %}` that writes earlier turns anew", refused,
     "the chat template does not say which tokens of message {} are the answer",
     "engine/data/template/template_encoder.cc"},
    {"a tokenizer without them, for conversations", refused, "the tokenizer has no special token '{}'",
     "engine/data/tokenizer/tokenizer.cc"},
};

}  // namespace
}  // namespace border_tables

std::span<const BorderEntry> file_border() {
  return border_tables::files;
}
std::span<const BorderEntry> page_border() {
  return border_tables::pages;
}
std::span<const BorderEntry> model_border() {
  return border_tables::models;
}
std::span<const BorderEntry> template_border() {
  return border_tables::templates;
}

}  // namespace longhaul
