// Examples and documents that share a row have the loss and the gradients that they have alone.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "base/digest/philox.h"
#include "engine/model/llama.h"
#include "engine/tasks/common/pretrain_data.h"
#include "engine/train/step/objective.h"
#include "tests/support/scratch.h"

using namespace longhaul;

namespace {

ModelShape packing_shape(bool gpt2) {
  ModelShape shape;
  shape.vocab_size = 61, shape.hidden_size = 32, shape.intermediate_size = 64, shape.num_hidden_layers = 2;
  shape.num_attention_heads = 4, shape.num_key_value_heads = gpt2 ? 4 : 2, shape.head_dim = 8;
  shape.max_position_embeddings = 64, shape.initializer_range = 0.1;
  if (gpt2) shape.architecture = "gpt2";
  return shape;
}

struct SummedLoss {
  double loss = 0, count = 0;
  std::vector<float> gradient;
};

// Of samples [0, samples) of a source, `rows` at a time, divided by how many tokens count.
SummedLoss summed_loss(BatchSource& source, std::int64_t samples, std::int64_t rows, bool gpt2,
                       std::int64_t virtual_tokens = 0) {
  const ComputeContext context(1);
  ModelShape shape = packing_shape(gpt2);
  shape.virtual_tokens = virtual_tokens;
  ParameterStore store(shape, DType::f32);
  initialize_parameters(context, store, 3);
  LlamaOptions options;
  options.tokens_max = rows * 64;
  Llama model(store, options);
  LanguageModelObjective objective;
  SummedLoss all;
  all.gradient.assign(store.masters().size(), 0.0F);
  for (std::int64_t first = 0; first < samples; first += rows) {
    BatchStorage batch;
    REQUIRE(source.fill(first, std::min(rows, samples - first), batch).ok());
    REQUIRE(model.check(batch.view()).ok());
    GradientTarget target;
    target.flat = all.gradient;
    objective.forward(context, model, 0, batch);
    const ObjectiveSums sums = objective.backward(context, model, 0, batch, target);
    all.loss += sums.loss, all.count += sums.count;
  }
  for (float& one : all.gradient) one /= static_cast<float>(all.count);
  all.loss /= all.count;
  return all;
}

void check_same(const SummedLoss& a, const SummedLoss& b) {
  CHECK(a.count == b.count);
  CHECK(a.loss == doctest::Approx(b.loss).epsilon(1e-5));
  double largest = 0, worst = 0;
  for (std::size_t i = 0; i < a.gradient.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(a.gradient[i])));
    worst = std::max(worst, std::abs(static_cast<double>(a.gradient[i] - b.gradient[i])));
  }
  CHECK(worst <= 1e-5 * largest);
}

std::vector<ChatTokens> made_up_examples(int count) {
  PhiloxSequence random(21);
  std::vector<ChatTokens> examples;
  for (int i = 0; i < count; ++i) {
    ChatTokens example;
    const auto length = 2 + random.next_below(40);
    for (std::uint64_t t = 0; t < length; ++t) {
      example.ids.push_back(static_cast<std::int32_t>(random.next_below(61)));
      example.loss_mask.push_back(2 * t >= length);
    }
    examples.push_back(std::move(example));
  }
  return examples;
}

// Each document of a dataset as a sample of its own, without a target for its last token.
class DocumentsApart final : public BatchSource {
 public:
  explicit DocumentsApart(const IndexedDataset& dataset) : dataset_(dataset) {}
  Status fill(std::int64_t first, std::int64_t count, BatchStorage& out) override {
    REQUIRE(count == 1);
    out.ids = dataset_.read_document(first);
    out.sequences = 1, out.length = static_cast<std::int64_t>(out.ids.size());
    out.targets.assign(out.ids.begin() + 1, out.ids.end());
    out.targets.push_back(-1);
    out.weights.assign(out.ids.size(), 1.0F);
    out.weights.back() = 0;
    return {};
  }
  std::int64_t samples_per_epoch() const override { return dataset_.documents(); }

 private:
  const IndexedDataset& dataset_;
};

}  // namespace

TEST_CASE("packed examples have the loss and the gradients of unpacked ones") {
  for (const bool gpt2 : {false, true}) {
    CAPTURE(gpt2);
    ExampleSource apart(made_up_examples(50), 64, 7, SampleOrder::shuffled);
    ExampleSource packed(made_up_examples(50), 64, 7, SampleOrder::shuffled);
    packed.pack();
    CHECK(packed.samples_per_epoch() < 25);
    check_same(summed_loss(packed, packed.samples_per_epoch(), 3, gpt2), summed_loss(apart, 50, 4, gpt2));
    // Another order in the next epoch, of the same rows.
    const std::int64_t rows = packed.samples_per_epoch();
    std::vector<std::vector<std::int32_t>> first, second;
    for (std::int64_t k = 0; k < 2 * rows; ++k) {
      BatchStorage row;
      REQUIRE(packed.fill(k, 1, row).ok());
      (k < rows ? first : second).push_back(row.ids);
    }
    CHECK(first != second);
    std::ranges::sort(first), std::ranges::sort(second);
    CHECK(first == second);
  }
}

TEST_CASE("what stands before every text stands before each example of a packed row") {
  ModelShape shape = packing_shape(false);
  shape.virtual_tokens = 3;
  std::vector<ChatTokens> examples = made_up_examples(30);
  const std::vector<ChatTokens> bare = examples;
  for (ChatTokens& example : examples) put_before(virtual_token_ids(shape), example);
  CHECK(examples[0].ids[2] == 63);
  CHECK(examples[0].ids.size() == bare[0].ids.size() + 3);
  ExampleSource apart(examples, 64, 7, SampleOrder::shuffled), packed(examples, 64, 7, SampleOrder::shuffled);
  packed.pack();
  CHECK(packed.samples_per_epoch() < 25);
  const SummedLoss behind = summed_loss(apart, 30, 4, false, 3);
  check_same(summed_loss(packed, packed.samples_per_epoch(), 3, false, 3), behind);
  ExampleSource without(bare, 64, 7, SampleOrder::shuffled);
  const SummedLoss alone = summed_loss(without, 30, 4, false, 3);
  CHECK(alone.count == behind.count);  // the same tokens have a loss
  CHECK(std::abs(alone.loss - behind.loss) > 1e-4);
}

TEST_CASE("documents of one sample have the loss and the gradients that they have alone") {
  testing::Scratch scratch;
  REQUIRE(make_directories(scratch.file("tokens")).ok());
  REQUIRE(write_file_atomic(scratch.file("tokens/tokenizer.json"), "{}").ok());
  const std::string prefix = scratch.file("tokens/train");
  auto writer = IndexedDatasetWriter::create(prefix, TokenType::u16).value();
  PhiloxSequence random(31);
  std::int64_t tokens = 0;
  while (tokens < 128) {  // two windows of 64 that whole documents fill
    const std::int64_t left = 64 - tokens % 64;
    std::vector<std::int32_t> document(static_cast<std::size_t>(
        left < 12 ? left : 2 + static_cast<std::int64_t>(random.next_below(static_cast<std::uint64_t>(left - 8)))));
    for (std::int32_t& id : document) id = static_cast<std::int32_t>(random.next_below(61));
    tokens += static_cast<std::int64_t>(document.size());
    REQUIRE(writer.add_document(document).ok());
  }
  REQUIRE(writer.add_document(std::vector<std::int32_t>{1}).ok());  // the last window needs one token more
  REQUIRE(writer.finish().ok());
  Task task;
  task.inputs.push_back({"tokens", {scratch.file("tokens")}, "", ""});
  PretrainSettings settings;
  settings.sequence_length = 64, settings.global_batch_size = 2, settings.steps = 1;
  settings.document_mask = settings.reset_positions = true;
  TokenSource together = open_pretrain_data(task, settings).value();
  REQUIRE(together.samples_per_epoch() == 2);
  const IndexedDataset dataset = IndexedDataset::open(prefix).value();
  DocumentsApart apart(dataset);
  for (const bool gpt2 : {false, true}) {
    CAPTURE(gpt2);
    check_same(summed_loss(together, 2, 2, gpt2), summed_loss(apart, dataset.documents() - 1, 1, gpt2));
  }
  settings.document_mask = settings.reset_positions = false;
  TokenSource mixed = open_pretrain_data(task, settings).value();
  CHECK(summed_loss(mixed, 2, 2, false).loss != doctest::Approx(summed_loss(together, 2, 2, false).loss).epsilon(1e-5));
}

TEST_CASE("where documents begin is known in every order of samples, alone and in a blend") {
  testing::Scratch scratch;
  Task task;
  for (const std::string name : {"tokens", "code"}) {
    REQUIRE(make_directories(scratch.file(name)).ok());
    REQUIRE(write_file_atomic(scratch.file(name + "/tokenizer.json"), "{}").ok());
    auto writer = IndexedDatasetWriter::create(scratch.file(name + "/train"), TokenType::u16).value();
    for (std::int32_t document = 0; document < 40; ++document)  // each token says which document it is of
      REQUIRE(writer.add_document(std::vector<std::int32_t>(static_cast<std::size_t>(document % 23), document)).ok());
    REQUIRE(writer.finish().ok());
    task.inputs.push_back({name, {scratch.file(name)}, "", ""});
  }
  for (const char* sampler : {"shuffled", "megatron"})
    for (const bool blended : {false, true}) {
      CAPTURE(sampler);
      CAPTURE(blended);
      PretrainSettings settings;
      settings.sequence_length = 20, settings.global_batch_size = 8, settings.steps = 3;
      settings.sampler = sampler, settings.document_mask = settings.reset_positions = true;
      if (blended) settings.blend = {"tokens", "code"}, settings.blend_weights = {1, 2};
      TokenSource source = open_pretrain_data(task, settings).value();
      for (std::int64_t k = 0; k < 24; ++k) {
        BatchStorage batch;
        REQUIRE(source.fill(k, 1, batch).ok());
        for (std::size_t i = 0; i < 20; ++i) {
          const auto begin = static_cast<std::size_t>(batch.first_key[i]);
          CHECK(batch.ids[begin] == batch.ids[i]);
          CHECK((begin == 0 || begin == i || batch.first_key[i - 1] == batch.first_key[i]));
          if (i > 0 && batch.ids[i - 1] != batch.ids[i]) CHECK(begin == i);
          CHECK(batch.positions[i] == static_cast<std::int32_t>(i - begin));
          CHECK((batch.targets[i] == -1 || batch.targets[i] == batch.ids[i]));
        }
      }
    }
}
