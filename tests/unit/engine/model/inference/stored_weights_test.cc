#include "engine/model/inference/stored_weights.h"

#include <doctest/doctest.h>

#include "engine/model/inference/inference_model.h"
#include "tests/unit/engine/model/inference_folder.h"
#include "tests/unit/engine/model/reference_model.h"

using namespace longhaul;

TEST_CASE("weights handed over in memory generate the bits that they generate from a folder") {
  for (const ModelShape& shape :
       {test::tiny_shape(), test::tiny_shape(false), test::tiny_gpt2_shape(), test::tiny_gpt2_shape(false)})
    for (const DType dtype : {DType::f32, DType::bf16}) {
      CAPTURE(shape.architecture);
      CAPTURE(shape.tie_word_embeddings);
      const ComputeContext context(1);
      ParameterStore store(shape, dtype);
      initialize_parameters(context, store, 8);
      test::move_vectors(store);
      store.refresh_compute_copy(context);
      const test::InferenceFolder folder(store);
      auto loaded = InferenceModel::load(folder.path, dtype);
      REQUIRE(loaded.ok());
      InferenceWeights empty;
      empty.dtype = dtype;
      auto weights = inference_weights_of(context, store, std::move(empty));
      REQUIRE(weights.ok());
      InferenceModel handed(shape, std::move(*weights));
      const std::vector<std::int32_t> ids = test::inference_tokens(4, 20);
      std::vector<float> logits[2];
      for (InferenceModel* model : {&*loaded, &handed}) {
        std::vector<float>& out = logits[model == &handed ? 1 : 0];
        out.resize(20 * 37);
        KvCache cache = model->make_cache(32);
        const SequenceStep step{&cache, ids};
        REQUIRE(model->forward(context, {&step, 1}, LogitsWanted::all, out).ok());
      }
      CHECK(logits[0] == logits[1]);
    }
}
