#include "contracts/model/weight_decay.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace longhaul;

namespace {

std::vector<std::string> left_alone(const ModelShape& shape, const std::vector<std::string>& rules) {
  std::vector<std::string> names;
  for (const ParameterSpec& p : parameter_list(shape))
    if (without_decay(p, rules)) names.push_back(p.name);
  return names;
}

ModelShape small_shape(const std::string& architecture) {
  ModelShape shape;
  shape.vocab_size = 100, shape.num_hidden_layers = 1, shape.architecture = architecture;
  return resolve_shape(shape).value();
}

}  // namespace

TEST_CASE("no_decay: norms, biases and embeddings by kind, others by name") {
  const ModelShape llama = small_shape("llama"), gpt2 = small_shape("gpt2");
  CHECK(left_alone(llama, {"norms", "biases"}) ==
        std::vector<std::string>{"model.layers.0.input_layernorm.weight",
                                 "model.layers.0.post_attention_layernorm.weight", "model.norm.weight"});
  CHECK(left_alone(llama, {"embeddings"}) == std::vector<std::string>{"model.embed_tokens.weight"});
  CHECK(left_alone(llama, {"*.o_proj.*", "*down*"}) ==
        std::vector<std::string>{"model.layers.0.self_attn.o_proj.weight", "model.layers.0.mlp.down_proj.weight"});
  CHECK(left_alone(llama, {}).empty());
  // Everything one-dimensional of GPT-2, and what is left of it without its biases.
  const std::vector<std::string> all = left_alone(gpt2, {"norms", "biases"});
  for (const ParameterSpec& p : parameter_list(gpt2))
    CHECK((std::ranges::find(all, p.name) != all.end()) == (p.shape.size() == 1));
  CHECK(left_alone(gpt2, {"norms"}).size() == 6);  // weight and bias of three
  CHECK(left_alone(gpt2, {"embeddings"}).size() == 2);
}

TEST_CASE("no_decay: a rule that means nothing is refused") {
  CHECK(check_no_decay({"norms", "biases", "embeddings", "*.x"}).ok());
  CHECK(check_no_decay({"norm"}).error().message() ==
        "optimizer.no_decay has \"norm\", which is not known; did you mean \"norms\"?");
  const std::vector<ParameterSpec> parameters = parameter_list(small_shape("llama"));
  CHECK(check_no_decay({"*q_proj*"}, parameters).ok());
  CHECK(check_no_decay({"*.wq.*"}, parameters).error().message().find("\"*.wq.*\", which is the name of no weight") !=
        std::string::npos);
}
