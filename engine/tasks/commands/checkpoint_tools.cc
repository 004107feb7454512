#include "engine/tasks/commands/checkpoint_tools.h"

#include <algorithm>
#include <map>

#include "base/digest/hash.h"
#include "base/files/files.h"
#include "base/system/parallel_for.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "contracts/checkpoints/checkpoint_files.h"
#include "engine/checkpoint/global/checkpoint_reader.h"
#include "engine/checkpoint/global/checkpoint_share.h"
#include "engine/checkpoint/global/retention.h"
#include "engine/interop/peft_writer.h"
#include "engine/model/adapter/adapter_export.h"
#include "engine/model/store/model_folder.h"

namespace longhaul {

Result<std::string> find_checkpoint(const std::string& path) {
  const auto holds = [](const std::string& folder) { return file_exists(join_path(folder, checkpoint_manifest_name)); };
  if (holds(path)) return path;
  for (const std::string& folder : {path, join_path(path, checkpoints_name)}) {
    const auto names = list_directory(folder);
    if (!names.ok()) continue;
    for (auto name = names->rbegin(); name != names->rend(); ++name)
      if (starts_with(*name, "step-") && holds(join_path(folder, *name))) return join_path(folder, *name);
  }
  return make_error(ErrorCode::not_found, format("there is no checkpoint in {}: no {}", path, checkpoint_manifest_name),
                    "name a folder step-..., or the folder that holds them");
}

namespace {

Status must_be_free(const std::string& folder) {
  const auto names = list_directory(folder);
  if (!names.ok() || names->empty()) return make_directories(folder);
  return make_error(ErrorCode::conflict, format("{} is not empty", folder),
                    "nothing is overwritten: name a new folder");
}

}  // namespace

Result<CheckpointSummary> inspect_checkpoint(const std::string& path) {
  CheckpointSummary summary;
  summary.path = path;
  LH_TRY(summary.manifest, read_checkpoint_manifest(path));
  std::map<std::string, CheckpointFile> files;
  for (const CheckpointEntry& entry : summary.manifest.entries) {
    CheckpointFile& file = files[entry.file];
    file.name = entry.file;
    ++file.entries, file.bytes += entry.bytes();
    ++summary.entries, summary.bytes += entry.bytes();
  }
  for (auto& [name, file] : files) summary.files.push_back(std::move(file));
  summary.types = stored_types(summary.manifest);
  summary.manifest.entries.clear();
  summary.pinned = is_pinned_checkpoint(path);
  return summary;
}

namespace {
std::string moments_text(const StateTypes& types) {
  return types[1] == types[2] ? dtype_name(types[1])
                              : format("{} (first) and {} (second)", dtype_name(types[1]), dtype_name(types[2]));
}
}  // namespace

std::string summary_text(const CheckpointSummary& summary) {
  const CheckpointManifest& m = summary.manifest;
  const ModelShape& s = m.shape;
  std::string text;
  const auto line = [&](const char* name, const std::string& value) { text += format("{:<11} {}\n", name, value); };
  line("checkpoint", summary.path + (summary.pinned ? "  (pinned)" : ""));
  line("step", format("{} ({} samples consumed, seed {})", m.step, m.consumed_samples, m.seed));
  line("model", format("{} parameters: {} layers, hidden {}, {} heads of {}, vocabulary {}", s.parameter_count(),
                       s.num_hidden_layers, s.hidden_size, s.num_attention_heads, s.head_dim, s.vocab_size));
  line("written by", m.written_by.to_string());
  for (const char* key : {checkpoint_loss_key, checkpoint_heldout_loss_key})
    if (const Value* value = m.extra.find(key); value && value->is_number())
      line(key, format("{:.6f}", value->as_number()));
  line("moments", moments_text(summary.types));
  line("holds", format("{} tensors in {} entries of {} files, {}", m.tensors.size(), summary.entries,
                       summary.files.size(), human_bytes(static_cast<double>(summary.bytes))));
  for (const CheckpointFile& file : summary.files)
    line("file", format("{}  {} entries, {}", file.name, file.entries, human_bytes(static_cast<double>(file.bytes))));
  return text;
}

Value summary_value(const CheckpointSummary& summary) {
  CheckpointManifest without = summary.manifest;
  Value value = checkpoint_to_value(without);
  Value files = Value::make_array();
  for (const CheckpointFile& file : summary.files) {
    Value one = Value::make_table();
    one.set("name", file.name);
    one.set("entries", file.entries);
    one.set("bytes", file.bytes);
    files.push_back(std::move(one));
  }
  value.set("path", summary.path);
  value.set("pinned", summary.pinned);
  value.set("moments", moments_text(summary.types));
  value.set("entries", summary.entries);
  value.set("bytes", summary.bytes);
  value.set("files", std::move(files));
  return value;
}

Result<VerifiedCheckpoint> verify_checkpoint(const std::string& path, int threads) {
  LH_TRY(const std::unique_ptr<CheckpointReader> reader, CheckpointReader::open(path));
  const std::vector<CheckpointEntry>& entries = reader->manifest().entries;
  std::vector<Status> outcomes(entries.size());
  parallel_for(entries.size(), threads, [&](std::size_t i) {
    if (const auto read = reader->entry(i); !read.ok()) outcomes[i] = read.error();
  });
  VerifiedCheckpoint verified;
  std::map<std::string, std::pair<std::string, int>> damage;  // of a file: the first, and how many
  for (std::size_t i = 0; i < entries.size(); ++i) {
    ++verified.entries, verified.bytes += entries[i].bytes();
    if (outcomes[i].ok()) continue;
    auto& [first, count] = damage[entries[i].file];
    if (count++ == 0) first = outcomes[i].error().message();
  }
  for (const auto& [file, found] : damage)
    verified.damage.push_back(found.second > 1 ? format("{} (and {} more entries of it)", found.first, found.second - 1)
                                               : found.first);
  return verified;
}

Status reshard_checkpoint(const std::string& path, const std::string& output, const ParallelDims& dims,
                          const ToolProgress& progress) {
  LH_TRY(const std::unique_ptr<CheckpointReader> reader, CheckpointReader::open(path));
  LH_CHECK(must_be_free(output));
  CheckpointManifest manifest = reader->manifest();
  const StateTypes types = stored_types(manifest);
  std::int64_t total = 0;
  for (const DType dtype : types) total += dtype_bytes(dtype) * manifest.shape.parameter_count();
  manifest.written_by = dims;
  manifest.entries.clear();
  std::int64_t done = 0;
  Tensor values;
  for (int rank = 0; rank < dims.world_size(); ++rank) {
    const ParameterLayout layout(manifest.shape, {dims, coordinates_of(dims, rank)});
    const std::string file = shard_file_name(rank, dims.world_size());
    const auto read = [&](const SharePiece& piece) -> Result<std::string_view> {
      const CheckpointEntry& entry = piece.entry;
      values = Tensor(types[static_cast<std::size_t>(piece.array)], Shape{piece.packed.size()});
      LH_CHECK(reader->read(entry.tensor, {entry.box, entry.flat_begin, entry.flat_end}, values));
      done += piece.bytes();
      if (progress) progress(done, total);
      return std::string_view(static_cast<const char*>(values.view().data()), static_cast<std::size_t>(piece.bytes()));
    };
    LH_TRY(WrittenShare written, write_pieces(join_path(output, file), pieces_of_share(layout, file, types), {}, read));
    for (CheckpointEntry& entry : written.entries) manifest.entries.push_back(std::move(entry));
  }
  LH_CHECK(check_coverage(manifest));
  LH_CHECK(sync_tree(output));
  return write_file_atomic(join_path(output, checkpoint_manifest_name), to_json_pretty(checkpoint_to_value(manifest)));
}

namespace {

// Of a checkpoint of an adapter: its files, for whoever has the model.
Status export_adapter(CheckpointReader& reader, const std::string& output) {
  const ModelShape& shape = reader.manifest().shape;
  LH_TRY(PeftWriter writer, PeftWriter::create(output, shape, ""));
  std::vector<float> values;
  std::map<std::string, std::vector<float>> before_text;  // of a prompt, with a reward model's output layer: small
  for (const ParameterSpec& spec : parameter_list(shape)) {
    values.resize(static_cast<std::size_t>(spec.elements()));
    LH_CHECK(reader.read(spec.name, {whole_box(spec.shape), 0, spec.elements()}, values));
    if (shape.adapter.is_prompt())
      before_text[spec.name] = values;
    else
      LH_CHECK(writer.add(spec.name, values));
  }
  if (shape.adapter.is_prompt()) {
    LH_CHECK(writer.add(prompt_name, learned_prompt(shape, before_text)));
    if (shape.scalar_head) LH_CHECK(writer.add(scalar_head_name, before_text.at(scalar_head_name)));
  }
  return writer.finish();
}

}  // namespace

Status export_checkpoint(const std::string& path, const std::string& output, const CheckpointExport& options,
                         const ToolProgress& progress) {
  LH_TRY(const std::unique_ptr<CheckpointReader> reader, CheckpointReader::open(path));
  LH_CHECK(must_be_free(output));
  const ModelShape& shape = reader->manifest().shape;
  if (shape.adapter.on()) return export_adapter(*reader, output);
  if (shape.scalar_head && shape.num_labels != 1)
    return make_error(
        ErrorCode::unsupported,
        format("{} is of a reward model of {} attributes, whose names it does not hold", path, shape.num_labels),
        "take the artifact of the stage, or let the stage go on to its end");
  ModelFolderOptions folder;
  folder.dtype = options.dtype;
  folder.tokenizer_folder = options.tokenizer_folder;
  folder.shard_bytes_max = options.shard_bytes_max;
  folder.config.shape = shape;
  folder.config.eos_token_ids = options.eos_token_ids;
  folder.config.bos_token_id = options.bos_token_id, folder.config.pad_token_id = options.pad_token_id;
  LH_TRY(ModelFolderWriter writer, ModelFolderWriter::create(output, folder));
  const auto total = static_cast<std::int64_t>(sizeof(float)) * shape.parameter_count();
  std::int64_t done = 0;
  std::vector<float> values;
  for (const ParameterSpec& spec : parameter_list(shape)) {
    values.resize(static_cast<std::size_t>(spec.elements()));
    const Box whole = whole_box(spec.shape);
    LH_CHECK(reader->read(spec.name, {whole, 0, spec.elements()}, values));
    LH_CHECK(writer.add(spec.name, values));
    done += spec.elements() * static_cast<std::int64_t>(sizeof(float));
    if (progress) progress(done, total);
  }
  return writer.finish();
}

// What the number of a reward model means is no part of a checkpoint.
std::string export_notice(const ModelShape& shape) {
  if (!shape.scalar_head) return {};
  return "it is written as a reward model of whole answers; if the stage had method = \"process\" or \"attributes\", "
         "take "
         "the artifact of the stage, whose config.json says what the number means";
}

}  // namespace longhaul
