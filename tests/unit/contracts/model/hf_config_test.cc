// Llama config.json in old and new spelling, and refusal of what the model does not compute.
#include "contracts/model/hf_config.h"

#include <doctest/doctest.h>

#include "base/files/files.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "contracts/model/parameter_list.h"

using namespace longhaul;

namespace {

Value llama_config(std::size_t index) {
  const std::string path = std::string(LONGHAUL_SOURCE_DIR) + "/tests/parity/golden/llama_configs.json";
  return parse_json(read_file(path).value()).value().find("configs")->as_array()[index];
}

}  // namespace

TEST_CASE("configurations of the reference are read") {
  const HfConfig plain = read_hf_config(llama_config(0), "config.json").value();
  CHECK(plain.shape.vocab_size == 512);
  CHECK(plain.shape.hidden_size == 64);
  CHECK(plain.shape.intermediate_size == 192);
  CHECK(plain.shape.num_key_value_heads == 2);
  CHECK(plain.shape.head_dim == 16);
  CHECK(plain.shape.max_position_embeddings == 256);
  CHECK(plain.shape.rms_norm_eps == 1e-6);
  CHECK(plain.shape.rope_theta == 10000);
  CHECK_FALSE(plain.shape.tie_word_embeddings);
  CHECK(plain.eos_token_ids == std::vector<std::int64_t>{2});
  const HfConfig tied = read_hf_config(llama_config(1), "config.json").value();
  CHECK(tied.shape.rope_theta == 500000);
  CHECK(tied.shape.tie_word_embeddings);
  const HfConfig scaled = read_hf_config(llama_config(2), "config.json").value();
  CHECK(scaled.shape.rope_type == "llama3");
  CHECK(scaled.shape.rope_factor == 8);
  CHECK(scaled.shape.rope_high_freq_factor == 4);
  CHECK(scaled.shape.rope_original_max_position_embeddings == 8192);
  CHECK(scaled.shape.head_dim == 32);
  CHECK(read_hf_config(llama_config(3), "config.json")->shape.rope_type == "linear");
}

TEST_CASE("the older spelling of rope means the same") {
  Value config = llama_config(2);
  const HfConfig expected = read_hf_config(config, "config.json").value();
  Value scaling = *config.find("rope_parameters");
  scaling.erase("rope_theta");
  config.erase("rope_parameters");
  config.set("rope_theta", 500000.0);
  config.set("rope_scaling", scaling);
  CHECK(read_hf_config(config, "config.json")->shape == expected.shape);
  scaling.erase("rope_type");
  scaling.set("type", "llama3");
  config.set("rope_scaling", scaling);
  CHECK(read_hf_config(config, "config.json")->shape == expected.shape);
}

TEST_CASE("what is written is read back the same, in either spelling") {
  for (std::size_t i = 0; i < 4; ++i) {
    CAPTURE(i);
    HfConfig config = read_hf_config(llama_config(i), "config.json").value();
    config.dtype = "bfloat16";
    config.eos_token_ids = i == 1 ? std::vector<std::int64_t>{2, 7} : std::vector<std::int64_t>{0};
    for (const char* dropped : {"nothing", "rope_parameters", "rope_scaling"}) {
      Value written = write_hf_config(config);
      written.erase(dropped);
      const HfConfig again = read_hf_config(written, "config.json").value();
      CHECK(again.shape == config.shape);
      CHECK(again.eos_token_ids == config.eos_token_ids);
      CHECK(again.dtype == "bfloat16");
    }
  }
}

TEST_CASE("embeddings before every text are a key of our own, and leave room for a text") {
  for (const char* architecture : {"llama", "gpt2", "mixtral"}) {
    HfConfig config;
    config.shape.architecture = architecture, config.shape.vocab_size = 100;
    config.shape = resolve_shape(config.shape).value();
    CHECK(write_hf_config(config).find(virtual_tokens_key) == nullptr);
    config.shape.virtual_tokens = 11;
    Value written = write_hf_config(config);
    CHECK(written.get_integer("longhaul_virtual_tokens") == 11);
    const auto read = read_hf_config(written, "config.json");
    REQUIRE_MESSAGE(read.ok(), read.error().message());
    CHECK(read->shape == config.shape);
    CHECK(read->shape.text_length_max() == config.shape.max_position_embeddings - 11);
    written.set(virtual_tokens_key, config.shape.max_position_embeddings);
    CHECK(read_hf_config(written, "x").error().message().find("leaves no room for a text") != std::string::npos);
    config.shape.virtual_keys = true;
    const auto keys = read_hf_config(write_hf_config(config), "config.json");
    CHECK(keys.ok() == !config.shape.is_moe());  // which none can be made with
    if (keys.ok()) CHECK(keys->shape == config.shape);
  }
}

TEST_CASE("layers behind others are a key of our own, which says where they stand") {
  HfConfig config;
  config.shape.vocab_size = 100, config.shape.bottleneck = {12, false, true};
  config.shape = resolve_shape(config.shape).value();
  Value written = write_hf_config(config);
  CHECK(to_json(*written.find(bottleneck_key)) == R"({"size":12,"after":["feed_forward"]})");
  const auto read = read_hf_config(written, "config.json");
  REQUIRE(read.ok());
  CHECK(read->shape == config.shape);
  HfConfig judge;  // beside the output layer of a reward model, and with what stands before texts
  judge.shape = with_scalar_head(config.shape), judge.shape.virtual_tokens = 3;
  CHECK(read_hf_config(write_hf_config(judge), "config.json").value().shape == judge.shape);
  for (const char* wrong : {R"({"size": 12, "after": ["mlp"]})", R"({"size": 0, "after": ["attention"]})",
                            R"({"size": 12, "after": []})", R"({"size": 12})", "12"}) {
    CAPTURE(wrong);
    written.set(bottleneck_key, *parse_json(wrong));
    const auto refused = read_hf_config(written, "config.json");
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().message().find(bottleneck_key) != std::string::npos);
  }
}

TEST_CASE("models with experts: Mixtral's key by key, our own under a name of their own") {
  Value config = llama_config(0);
  config.set("model_type", "mixtral");
  config.set("num_local_experts", 4);
  config.set("sliding_window", Value());
  const HfConfig mixtral = read_hf_config(config, "c").value();
  CHECK(mixtral.shape.architecture == "mixtral");
  CHECK(mixtral.shape.num_local_experts == 4);
  CHECK(mixtral.shape.num_experts_per_tok == 2);
  CHECK(mixtral.shape.moe_intermediate_size == 192);
  CHECK(write_hf_config(mixtral).get_string("model_type") == "mixtral");
  CHECK(read_hf_config(write_hf_config(mixtral), "c")->shape == mixtral.shape);
  HfConfig own = mixtral;
  own.shape.router_score = "sigmoid", own.shape.router_bias = true, own.shape.n_shared_experts = 1;
  own.shape.routed_scaling_factor = 2.5, own.shape.n_group = 2, own.shape.topk_group = 1;
  CHECK(write_hf_config(own).get_string("model_type") == "longhaul_mixtral");
  CHECK(read_hf_config(write_hf_config(own), "c")->shape == own.shape);
  HfConfig windowed = mixtral;
  windowed.shape.sliding_window = 16;
  CHECK(write_hf_config(windowed).get_integer("sliding_window") == 16);
  CHECK(read_hf_config(write_hf_config(windowed), "c")->shape == windowed.shape);
  config.set("sliding_window", 0);
  config.set("router_jitter_noise", 0.1);
  config.set("num_experts_per_tok", 0);
  const std::string message = read_hf_config(config, "c").error().message();
  for (const char* part : {"sliding_window", "router_jitter_noise", "num_experts_per_tok"})
    CHECK(message.find(part) != std::string::npos);
}

TEST_CASE("Mistral is Llama with a sliding window: given, left out, or null, which is none") {
  Value config = llama_config(0);
  config.set("model_type", "mistral");
  CHECK(read_hf_config(config, "c")->shape.sliding_window == 4096);  // MistralConfig's default
  config.set("sliding_window", 32);
  const HfConfig mistral = read_hf_config(config, "c").value();
  CHECK(mistral.shape.architecture == "llama");
  CHECK(mistral.shape.sliding_window == 32);
  const Value written = write_hf_config(mistral);
  CHECK(written.get_string("model_type") == "mistral");
  CHECK(written.get_integer("sliding_window") == 32);
  CHECK(read_hf_config(written, "c")->shape == mistral.shape);
  config.set("sliding_window", Value());
  const HfConfig plain = read_hf_config(config, "c").value();
  CHECK(plain.shape.sliding_window == 0);
  CHECK(write_hf_config(plain).get_string("model_type") == "llama");
  config.set("sliding_window", -1);
  CHECK(read_hf_config(config, "c").error().message().find("sliding_window") != std::string::npos);
}

TEST_CASE("what the model does not compute is refused, all of it at once") {
  Value config = llama_config(0);
  config.set("attention_bias", true);
  config.set("hidden_act", "gelu");
  config.erase("hidden_size");
  config.set("vocab_size", -3);
  Value rope = Value::make_table();
  rope.set("rope_type", "yarn");
  config.set("rope_parameters", rope);
  const auto refused = read_hf_config(config, "m/config.json");
  REQUIRE_FALSE(refused.ok());
  const std::string message = refused.error().message();
  CAPTURE(message);
  for (const char* part : {"m/config.json", "attention_bias", "gelu", "hidden_size is missing", "vocab_size", "yarn"})
    CHECK(message.find(part) != std::string::npos);
  config = llama_config(0);
  config.set("model_type", "mamba");
  CHECK(read_hf_config(config, "c").error().message().find("mamba") != std::string::npos);
  CHECK_FALSE(read_hf_config(Value(3), "c").ok());
  config = llama_config(2);
  config.find("rope_parameters")->erase("factor");
  CHECK(read_hf_config(config, "c").error().message().find("factor") != std::string::npos);
  CHECK(load_hf_config("/nonexistent/config.json").error().code == ErrorCode::not_found);
}

TEST_CASE("a GPT-2 configuration is read with its own defaults, written, and refused where the model differs") {
  const auto parse = [](const std::string& text) { return read_hf_config(parse_json(text).value(), "config.json"); };
  const HfConfig plain = parse(R"({"model_type": "gpt2", "n_inner": null, "eos_token_id": 50256})").value();
  CHECK(plain.shape.is_gpt2());
  CHECK(plain.shape.parameter_count() == 124'439'808);
  CHECK(plain.shape.tie_word_embeddings);
  CHECK(plain.eos_token_ids == std::vector<std::int64_t>{50256});
  const HfConfig small =
      parse(R"({"model_type": "gpt2", "n_embd": 32, "n_head": 4, "n_layer": 3, "n_positions": 64, "n_inner": 100,
                "vocab_size": 99, "layer_norm_epsilon": 1e-6, "tie_word_embeddings": false})")
          .value();
  CHECK(small.shape.intermediate_size == 100);
  CHECK(small.shape.rms_norm_eps == 1e-6);
  CHECK(read_hf_config(write_hf_config(small), "config.json").value().shape == small.shape);
  for (const char* odd :
       {R"("activation_function": "relu")", R"("scale_attn_weights": false)",
        R"("scale_attn_by_inverse_layer_idx": true)", R"("add_cross_attention": true)", R"("n_head": 7)"}) {
    CAPTURE(odd);
    const auto refused = parse(std::string(R"({"model_type": "gpt2", )") + odd + "}");
    REQUIRE_FALSE(refused.ok());
    const std::string key(odd + 1, std::string_view(odd).find('"', 1) - 1);
    CHECK(refused.error().message().find(key == "n_head" ? "num_attention_heads" : key) != std::string::npos);
  }
}

TEST_CASE("quantized models: what is read, and what only looks like it") {
  const auto config_with = [](const std::string& quantization) {
    Value config = llama_config(0);
    config.set("quantization_config", parse_json(quantization).value());
    return read_hf_config(config, "config.json");
  };
  const auto quantization = [](const char* format, const std::string& weights, const char* activations = "null") {
    return std::string(R"({"quant_method":"compressed-tensors","format":")") + format +
           R"(","config_groups":{"group_0":{"targets":["Linear"],"input_activations":)" + activations +
           R"(,"weights":{)" + weights + "}}}}";
  };
  const std::string int8 = R"("num_bits":8,"type":"int","symmetric":true,"strategy":"channel")";
  const std::string fp8 = R"("num_bits":8,"type":"float","symmetric":true,"strategy":"channel")";
  const std::string int4 = R"("num_bits":4,"type":"int","symmetric":true,"strategy":"group","group_size":128)";
  CHECK(config_with(quantization("int-quantized", int8)).ok());
  CHECK(config_with(quantization("float-quantized", fp8)).ok());
  CHECK(config_with(quantization("pack-quantized", int4)).ok());
  CHECK(config_with(quantization("pack-quantized", int4 + R"(,"actorder":null)")).ok());
  const std::string refused[] = {
      quantization("float-quantized", int8),
      quantization("float-quantized", fp8, R"({"num_bits":8})"),
      quantization("pack-quantized", int8),
      quantization("pack-quantized", int4 + R"(,"actorder":"group")"),
      quantization("pack-quantized",
                   R"("num_bits":4,"type":"int","symmetric":false,"strategy":"group","group_size":128)"),
      quantization("pack-quantized",
                   R"("num_bits":4,"type":"int","symmetric":true,"strategy":"group","group_size":96)"),
      quantization("pack-quantized", R"("num_bits":4,"type":"int","symmetric":true,"strategy":"channel")"),
      R"({"quant_method":"gptq","bits":4})",
  };
  for (const std::string& text : refused) {
    CAPTURE(text);
    CHECK_FALSE(config_with(text).ok());
  }
}

TEST_CASE("a reward model is a classifier of transformers with one label, of any family; more labels are refused") {
  Value config = llama_config(1);
  config.set("architectures", ValueArray{Value("LlamaForSequenceClassification")});
  Value names = Value::make_table();
  names.set("0", "LABEL_0");
  config.set("id2label", names);
  const HfConfig reward = read_hf_config(config, "c").value();
  CHECK(reward.shape == with_scalar_head(read_hf_config(llama_config(1), "c")->shape));
  CHECK(reward.shape.scalar_head);
  CHECK_FALSE(reward.shape.tie_word_embeddings);
  const std::vector<ParameterSpec> list = parameter_list(reward.shape);
  CHECK(list.back().name == "score.weight");
  CHECK(list.back().shape == std::vector<std::int64_t>{1, reward.shape.hidden_size});
  std::int64_t elements = 0;
  for (const ParameterSpec& one : list) elements += one.elements();
  CHECK(elements == reward.shape.parameter_count());
  for (const char* family : {"llama", "gpt2"}) {
    HfConfig made = reward;
    made.shape.architecture = family, made.shape.num_key_value_heads = made.shape.num_attention_heads;
    if (made.shape.is_gpt2()) made.shape.head_dim = made.shape.hidden_size / made.shape.num_attention_heads;
    const Value written = write_hf_config(made);
    CHECK(ends_with(written.find("architectures")->as_array()[0].as_string(), "ForSequenceClassification"));
    CHECK(read_hf_config(written, "c")->shape.scalar_head);
    CHECK(parameter_list(made.shape).back().name == "score.weight");
  }
  names.set("1", "LABEL_1");
  config.set("id2label", names);
  CHECK(read_hf_config(config, "c").error().message().find("a classifier with 2 labels") != std::string::npos);
  // One of attributes, which says so, has as many rows; what it says is kept.
  Value form = Value::make_table();
  form.set("method", "attributes");
  config.set(reward_form_key, form);
  const HfConfig attributes = read_hf_config(config, "c").value();
  CHECK(attributes.shape.num_labels == 2);
  CHECK(parameter_list(attributes.shape).back().shape == std::vector<std::int64_t>{2, attributes.shape.hidden_size});
  const HfConfig again = read_hf_config(write_hf_config(attributes), "c").value();
  CHECK(again.shape == attributes.shape);
  CHECK(again.reward_form == form);
  config.erase(reward_form_key);
  config.erase("id2label");
  CHECK_FALSE(read_hf_config(config, "c").ok());  // two where nothing is said
  config.set("num_labels", 1);
  CHECK(read_hf_config(config, "c").ok());
}
