#include "base/text/redact.h"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

using namespace longhaul;

TEST_CASE("redact: values of secret names go, in every notation that logs use") {
  for (const char* text :
       {"HF_TOKEN=abc123xyz", "HF_TOKEN: abc123xyz", "\"api-key\": \"abc123xyz\"", "password = 'abc123xyz'",
        "Authorization: Bearer abc123xyz", "curl -H 'Authorization: abc123xyz'", "https://ana:abc123xyz@example.org/x",
        "https://hooks.slack.com/services/T0/B0/abc123xyz", "export WANDB_API_KEY=abc123xyz && run", "bearer abc123xyz",
        "?access_token=abc123xyz&x=1", "-----BEGIN RSA PRIVATE KEY-----\nabc123xyz\n-----END RSA PRIVATE KEY-----\n"}) {
    CAPTURE(text);
    const std::string out = redact_secrets(text);
    CHECK(out.find("abc123xyz") == std::string::npos);
    CHECK(out.find("[redacted]") != std::string::npos);
  }
  for (const char* prefix :
       {"hf_", "ghp_", "gho_", "ghs_", "github_pat_", "glpat-", "sk-", "xoxb-", "xoxp-", "AKIA", "eyJhbGciOi"}) {
    CAPTURE(prefix);
    CHECK(redact_secrets("saw " + (prefix + std::string("0123456789abcdefghij0123")) + " here") ==
          "saw [redacted] here");
    const std::string mere = "saw " + (prefix + std::string("0123")) + " here";  // too short to be one
    CHECK(redact_secrets(mere) == mere);
  }
  CHECK(redact_secrets("SLACK_TOKEN=a b=c") == "SLACK_TOKEN=[redacted] b=c");
}

TEST_CASE("trust: values of an environment are redacted whatever their names are, and nothing else") {
  for (const auto& [text, clean] : std::vector<std::pair<std::string, std::string>>{
           {"[stage.a]\nenvironment = { A = \"x, y\", B = 'z' }\nlr = 1\n",
            "[stage.a]\nenvironment = { A = \"[redacted]\", B = \"[redacted]\" }\nlr = 1\n"},
           {"[stage.a.environment]\n# mine\nA = \"x\"  # y\nB = \"\"\"p\nq\"\"\"\n\n[stage.b]\nlr = 1\n",
            "[stage.a.environment]\n# mine\nA = \"[redacted]\"\nB = \"[redacted]\"\n\n[stage.b]\nlr = 1\n"},
           {R"({"environment": {"A": "x}\"", "B": ["y", {"z": 1}]}, "lr": 1})",
            R"({"environment": {"A": "[redacted]", "B": "[redacted]"}, "lr": 1})"},
           {"the environment = 3, my_environment = {A = 1}", "the environment = 3, my_environment = {A = 1}"},
           {"environment = { A = ", "environment = { A = \"[redacted]\""},
           {"environment", "environment"},
           {"environment = {}", "environment = {}"}}) {
    CAPTURE(text);
    CHECK(redact_environments(text) == clean);
  }
}

TEST_CASE("trust: names that mean a secret are known with their usual endings, and where a shell stands is none") {
  for (const char* name : {"SLURM_JWT", "DB_PWD", "GITLAB_PAT", "SSH_KEY", "session_cookie", "wandb-api-key"})
    CHECK_MESSAGE(names_a_secret(name), name);
  for (const char* name : {"PWD", "OLDPWD", "attempt_key", "PATH", "key", "first", "SLURM_JOB_ID"})
    CHECK_MESSAGE(!names_a_secret(name), name);
}

TEST_CASE("redact: what a training says stays as it is") {
  for (const char* text :
       {"tokens_per_s=5120 tokens: 4096", "eos_token: </s>", "\"pad_token\": \"<pad>\"", "max_token = 128",
        "see https://example.org/docs/services.html for more", "key = 5", "step=12 loss=3.25\n", "secret", "token", "",
        "token_file = \"/home/ana/.token\"", "[stage.pretrain]\nlr = 1e-3\n"}) {
    CAPTURE(text);
    CHECK(redact_secrets(text) == text);
  }
}
