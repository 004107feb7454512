#include "orchestrator/cli/init/first_workflow.h"

#include <algorithm>

#include "base/files/files.h"
#include "base/text/text.h"

namespace longhaul {
namespace {

constexpr const char* first_recipe = "quickstart-tiny";
constexpr std::int64_t sequence_length_max = 512;  // of a first training: what a small machine has memory for

std::string toml_quoted(const std::string& name) {
  return "\"" + name + "\"";  // names with quotes and backslashes are not offered (folder_look.cc)
}

std::string list_of(const std::vector<std::string>& names) {
  std::vector<std::string> all;
  for (const std::string& name : names) all.push_back(toml_quoted(name));
  return all.size() == 1 ? all.front() : "[" + join(all, ", ") + "]";
}

// Letters, digits, '-' and '_' of a file's or folder's name; `otherwise` where there are none.
std::string plain_name(const std::string& name, const std::string& otherwise) {
  constexpr std::size_t most = 40;
  std::string plain;
  for (const char c : name.substr(0, name.rfind('.') == 0 ? std::string::npos : name.rfind('.'))) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (letter)
      plain += c;
    else if (!plain.empty() && plain.back() != '-')
      plain += '-';
  }
  plain.resize(std::min(plain.size(), most));
  while (!plain.empty() && plain.back() == '-') plain.pop_back();
  return plain.empty() ? otherwise : plain;
}

std::string counted(std::size_t count, const std::string& one) {
  return format("{} {}{}", count, one, count == 1 ? "" : "s");
}

const RowsFile* rows_of(const FolderLook& look, TuningRowUse use) {
  for (const RowsFile& rows : look.rows)
    if (rows.use == use) return &rows;
  return nullptr;
}

Error nothing_to_begin_with(const FolderLook& look) {
  const std::string hint =
      "put texts (.txt, .md, .html, .jsonl), rows of tuning data, a model's folder or a script of yours there; "
      "docs/your-own-data.md";
  if (look.images > 0 && look.others == 0)
    return make_error(ErrorCode::not_found,
                      format("{} holds {} (such as {}) and no text: models of language learn from text, and images are "
                             "not read",
                             look.path, counted(look.images, "image"), look.an_image),
                      hint);
  if (look.images + look.others == 0)
    return make_error(ErrorCode::not_found, look.path + " is empty: there is nothing that a workflow could begin with",
                      hint);
  return make_error(
      ErrorCode::not_found,
      format("{} holds nothing that a workflow could begin with: {}, such as {}", look.path,
             counted(look.images + look.others, "file"), look.an_other.empty() ? look.an_image : look.an_other),
      hint);
}

Status check_look(const FolderLook& look) {
  if (!look.workflows.empty())
    return make_error(ErrorCode::invalid_input,
                      join_path(look.path, look.workflows.front()) + " is a workflow already, and stays as it is",
                      "longhaul validate " + look.workflows.front() +
                          " says what is wrong with it; init is for folders "
                          "without one");
  if (!look.models.empty() && look.models.front() == ".")
    return make_error(ErrorCode::invalid_input,
                      look.path + " is a model's own folder: runs would lie in it, and become part of the model",
                      "call longhaul init in the folder above it");
  const bool texts = !look.documents.empty(), rows = !look.rows.empty(), model = !look.models.empty();
  if (!texts && !rows && !model && look.scripts.empty()) return nothing_to_begin_with(look);
  if (rows && !texts && !model)
    return make_error(ErrorCode::invalid_input,
                      look.rows.front().name + " is tuning data, and no model lies here that it could tune",
                      "put the folder of one (config.json, tokenizer.json, model.safetensors) beside it, or texts "
                      "from which a small one is made");
  if (texts && !model && look.document_bytes < first_text_bytes_min && (rows || look.scripts.empty()))
    return make_error(
        ErrorCode::invalid_input,
        format("the texts in {} have {} bytes together: too few to train on", look.path, look.document_bytes),
        "a few kilobytes are enough to try it");
  return {};
}

// Writes the workflow from its first stage to its last; `model_` and `tokens_` are what the next stage takes.
class Writer {
 public:
  Writer(const FolderLook& look, std::int64_t context, const MachineLook& machine)
      : look_(look), context_(context), machine_(machine) {}

  FirstWorkflow write() {
    head();
    if (!look_.scripts.empty() && look_.rows.empty() && look_.models.empty())
      script();
    else
      model_of_data();
    if (!look_.whole) note("there are more files here than were looked at: what lies beyond was not seen");
    return std::move(made_);
  }

 private:
  void put(const std::string& line) { made_.text += line + "\n"; }
  void note(const std::string& sentence) { made_.notes.push_back(sentence); }
  void stage(const std::string& name, const std::string& kind, const std::string& inputs, const std::string& why) {
    put("");
    put("# " + why);
    put("[stage." + name + "]");
    put("kind = " + toml_quoted(kind));
    if (!inputs.empty()) put("inputs = { " + inputs + " }");
  }

  void head() {
    put("# A first workflow, made by `longhaul init` for what lies in this folder. Relative paths start here.");
    put("# `longhaul explain KEY` says what a key means, `longhaul plan workflow.toml --settings` lists all with "
        "their");
    put("# values. Change one and run it again: stages before the change are taken from the run before.");
    put(format("# Made on {}: {}, {} of memory, {}.", machine_.host,
               counted(static_cast<std::size_t>(machine_.cores), "core"),
               human_bytes(static_cast<double>(machine_.memory_bytes)),
               machine_.gpus ? "GPUs, which the engine uses" : "no GPU that the engine could use"));
    put("[workflow]");
    put("name = " + toml_quoted(plain_name(file_name(look_.path), "first")));
  }

  void script() {
    const std::string& name = look_.scripts.front();
    const std::string interpreter = ends_with(name, ".py") ? "python3" : "bash";
    made_.made_of = name;
    stage(plain_name(name, "script"), "command", "",
          "Your script, watched and started again where it fails for the machine.");
    put(format("argv = [{}, {}]  # it starts in this folder; `workdir` is another", toml_quoted(interpreter),
               toml_quoted(name)));
    put("# What it writes to $LONGHAUL_OUT is its result; what it saves in $LONGHAUL_STATE is there when it starts "
        "again.");
    put("# RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT are set as under torchrun.");
    put("ranks = 1                  # processes; more for torch.distributed, Accelerate or Lightning");
    put("retries = 1                # further attempts after one that failed by itself");
    put("# inputs = { data = \"data\" }  # its path is in $LONGHAUL_INPUT_DATA; where it changes, the stage runs "
        "again");
    put("# time_limit = \"8h\"");
    for (std::size_t i = 1; i < look_.scripts.size(); ++i) note(look_.scripts[i] + " is not started: " + name + " is");
    if (!look_.documents.empty())
      note(format("{} beside {}: they are left to it; docs/your-own-data.md makes a model of texts",
                  counted(look_.document_files, "text"), name));
  }

  void model_of_data() {
    std::vector<std::string> made_of;
    const bool own_model = look_.models.empty();
    if (!own_model) {
      model_ = look_.models.front();
      made_of.push_back("the model " + model_);
      for (std::size_t i = 1; i < look_.models.size(); ++i)
        note(look_.models[i] + " is not used: the model " + model_ + " is");
    }
    if (!look_.documents.empty()) {
      made_of.push_back(format("{} ({})", counted(look_.document_files, "text"),
                               human_bytes(static_cast<double>(look_.document_bytes))));
      texts(own_model);
    }
    tune(made_of);
    if (tokens_) evaluate();
    if (own_model) quantize();
    stage("deploy", "deploy", "model = " + toml_quoted(model_),
          "Served by HTTP, as OpenAI's interface is, and asked once.");
    put("prompts = [\"What do people do in the morning?\"]  # asked once; the answer stands at the end of the run");
    put("# leave_running = true     # the server stays when the run has ended");
    for (const std::string& name : look_.scripts) note(name + " is not started: a stage of the kind command would");
    made_.made_of = join(made_of, ", ");
  }

  void texts(bool own_model) {
    stage("corpus", "curate", "documents = " + list_of(look_.documents),
          "Your texts, cleaned and without repetitions; some are held out for evaluation.");
    stage("tokens", "tokenize", "corpus = \"@corpus\"" + (own_model ? "" : ", tokenizer = " + toml_quoted(model_)),
          own_model ? "A vocabulary of your texts, and the texts in it." : "The texts in the model's vocabulary.");
    tokens_ = true;
    if (!own_model) return;
    stage("pretrain", "pretrain", "tokens = \"@tokens\"", "A small model, trained from nothing.");
    put(format("recipe = {}  # 1.6 million parameters; a recipe of yours is a TOML file beside this one",
               toml_quoted(first_recipe)));
    put("# steps = 1200             # in place of one pass over the texts");
    if (machine_.cores > 1) put("# ranks = 2                # processes that share the work");
    if (!look_.rows.empty())
      put(format("model = {{ max_position_embeddings = {} }}  # tokens that it reads at once: room for your rows",
                 sequence_length_max));
    model_ = "@pretrain";
    context_ = sequence_length_max;
  }

  void tune(std::vector<std::string>& made_of) {
    if (const RowsFile* rows = rows_of(look_, TuningRowUse::instruction)) {
      tuning_stage("chat", "sft", *rows, "Tuned on your conversations; the loss is that of the answers alone.");
      put("# epochs = 3.0             # passes over the rows");
      made_of.push_back(rows->name);
    }
    const RowsFile* pairs = rows_of(look_, TuningRowUse::preference);
    const RowsFile* labels = rows_of(look_, TuningRowUse::labelled);
    if (const RowsFile* rows = pairs ? pairs : labels) {
      tuning_stage("align", "align", *rows, "Tuned on which answers are better.");
      if (!pairs) put("method = \"kto\"             # rows with a label");
      made_of.push_back(rows->name);
    }
    for (const RowsFile& rows : look_.rows)
      if (std::find(made_of.begin(), made_of.end(), rows.name) == made_of.end())
        note(rows.name + " is not used: another file of its kind is");
  }

  void tuning_stage(const std::string& name, const std::string& kind, const RowsFile& rows, const std::string& why) {
    stage(name, kind, format("model = {}, data = {}", toml_quoted(model_), toml_quoted(rows.name)), why);
    put(format("sequence_length = {}  # tokens; longer rows are left out: `longhaul data check` counts them",
               std::min(context_ > 0 ? context_ : sequence_length_max, sequence_length_max)));
    if (!rows.ignore.empty()) {
      std::vector<std::string> keys;
      for (const std::string& key : rows.ignore) keys.push_back(toml_quoted(key));
      put(format("ignore = [{}]  # keys of the rows that are not trained on", join(keys, ", ")));
    }
    model_ = "@" + name;
  }

  void evaluate() {
    stage("evaluate", "evaluate", format("model = {}, tokens = \"@tokens\"", toml_quoted(model_)),
          "How well it foresees the texts that were held out.");
  }

  void quantize() {
    stage("quantize", "quantize", format("model = {}, tokens = \"@tokens\"", toml_quoted(model_)),
          "The same in 8 bits.");
    model_ = "@quantize";
  }

  const FolderLook& look_;
  std::int64_t context_;
  const MachineLook& machine_;
  FirstWorkflow made_;
  std::string model_;    // what the next stage takes: "@pretrain", or a folder
  bool tokens_ = false;  // a stage of that name is there
};

}  // namespace

Result<FirstWorkflow> first_workflow(const FolderLook& look, std::int64_t context, const MachineLook& machine) {
  LH_CHECK(check_look(look));
  return Writer(look, context, machine).write();
}

}  // namespace longhaul
