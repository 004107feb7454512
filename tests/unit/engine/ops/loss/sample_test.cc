// Tokens drawn on a device against those that engine/infer/generate/sampling.h draws on the processor: the same ones,
// over thousands of draws, with ties, infinities and NaN, penalties, and every combination of top-k and top-p.
#include "engine/ops/loss/sample.h"

#include <limits>

#include "engine/infer/generate/sampling.h"
#include "tests/unit/engine/ops/op_check.h"

using namespace longhaul;
using namespace longhaul::op_check;

namespace {

// Rows of one kind each; the last kinds are not of this world.
float random_logit(PhiloxSequence& draw, Index kind) {
  const double u = draw.next_uniform(), v = draw.next_uniform();
  const double normal = std::sqrt(-2 * std::log(1 - u)) * std::cos(6.283185307179586 * v);
  switch (kind) {
    case 0: return static_cast<float>(3 * normal);
    case 1: return static_cast<float>(std::round(2 * normal) / 2);  // ties; both zeros
    case 2: return static_cast<float>(40 * normal);                 // one token has it all
    case 3: return static_cast<float>(0.01 * normal);               // flat
    case 4: return 1.0F;
    case 5:
      if (v < 0.1) return std::numeric_limits<float>::quiet_NaN();
      if (v < 0.2) return std::numeric_limits<float>::infinity();
      return v < 0.5 ? -std::numeric_limits<float>::infinity() : static_cast<float>(normal);
    default: return v < 0.5 ? std::numeric_limits<float>::quiet_NaN() : -std::numeric_limits<float>::infinity();
  }
}
constexpr Index kinds = 7;

SampleRow random_row(PhiloxSequence& draw, Index vocab, bool penalties) {
  const auto pick = [&](std::initializer_list<double> values) {
    return values.begin()[draw.next_below(values.size())];
  };
  SampleRow row;
  row.temperature = pick({0, 0.01, 0.7, 1, 1, 2});
  row.top_k = static_cast<std::int64_t>(
      pick({0, 0, 0, 1, 2, 5, 40, static_cast<double>(vocab) - 1, static_cast<double>(vocab), 1e6}));
  row.top_p = pick({1, 1, 0, 1e-9, 0.3, 0.5, 0.9, 0.999, 1 - 1e-15});
  if (penalties) {
    row.repetition_penalty = pick({1, 1.3, 0.8});
    row.presence_penalty = pick({0, 0.6, -1});
    row.frequency_penalty = pick({0, 0.25, -0.3});
  }
  row.seed = draw.next_u64(), row.stream = draw.next_below(3), row.position = draw.next_below(1000);
  return row;
}

struct Draws {
  Index vocab = 0;
  Tensor logits;
  std::vector<SampleRow> rows;
  std::vector<TokenHistory> histories;
  std::vector<std::int32_t> seen;

  Draws(Index sequences, Index vocab_, DType type, bool penalties, std::uint64_t seed)
      : vocab(vocab_), logits(type, {sequences, vocab_}) {
    PhiloxSequence draw(seed, 6);
    for (Index s = 0; s < sequences; ++s) {
      for (Index i = 0; i < vocab; ++i) {
        const float x = random_logit(draw, s % kinds);
        if (type == DType::f32)
          logits.span<float>()[static_cast<std::size_t>(s * vocab + i)] = x;
        else
          logits.span<bf16>()[static_cast<std::size_t>(s * vocab + i)] = bf16(x);
      }
      rows.push_back(random_row(draw, vocab, penalties));
      if (penalties) rows.back().seen_row = sequences - 1 - s;  // in another order than the batch
      TokenHistory history;
      for (Index i = 0; i < (penalties ? 20 : 0); ++i) {
        const auto token = static_cast<std::int32_t>(draw.next_below(static_cast<std::uint64_t>(vocab)));
        draw.next_below(2) == 0 ? history.add_prompt(token) : history.add_output(token);
      }
      histories.push_back(std::move(history));
    }
    if (!penalties) return;
    seen.resize(static_cast<std::size_t>(sequences * vocab));
    for (Index s = 0; s < sequences; ++s)
      for (const auto& [token, times] : histories[static_cast<std::size_t>(s)].seen())
        seen[static_cast<std::size_t>(rows[static_cast<std::size_t>(s)].seen_row * vocab + token)] = 1 + times;
  }
  std::vector<float> row_of(std::size_t s) const {
    std::vector<float> row;
    for (Index i = 0; i < vocab; ++i) {
      const auto at = s * static_cast<std::size_t>(vocab) + static_cast<std::size_t>(i);
      row.push_back(logits.dtype() == DType::f32 ? logits.span<float>()[at]
                                                 : static_cast<float>(logits.span<bf16>()[at]));
    }
    return row;
  }
  std::int32_t want(std::size_t s) const {
    const SampleRow& r = rows[s];
    const SamplingParameters p{r.temperature,       r.top_k, r.top_p, r.repetition_penalty, r.presence_penalty,
                               r.frequency_penalty, r.seed,  r.stream};
    std::vector<float> row = row_of(s);
    return sample_token(row, histories[s], p, r.position);
  }
};

std::string row_text(const SampleRow& r) {
  return format("temperature={} top_k={} top_p={} penalties={} {} {} seed={} stream={} position={}", r.temperature,
                r.top_k, r.top_p, r.repetition_penalty, r.presence_penalty, r.frequency_penalty, r.seed, r.stream,
                r.position);
}

void check_draws(const ComputeContext& context, Index sequences, Index vocab, DType type, bool penalties,
                 std::uint64_t seed) {
  Draws d(sequences, vocab, type, penalties, seed);
  const std::vector<SampleRow> before = d.rows;
  const std::vector<std::int32_t> seen_before = d.seen;
  std::vector<std::int32_t> want, tokens(static_cast<std::size_t>(sequences), -7);
  for (std::size_t s = 0; s < tokens.size(); ++s) want.push_back(d.want(s));
  sample_tokens(context, {sequences, vocab}, d.logits, d.rows, d.seen, tokens);
  for (std::size_t s = 0; s < tokens.size(); ++s) {
    INFO("batch seed ", seed, " row ", s, " kind ", s % kinds, " vocab ", vocab, " ", dtype_name(type), " ",
         row_text(before[s]));
    REQUIRE(tokens[s] == want[s]);
    REQUIRE(d.rows[s].position == before[s].position + 1);
  }
  if (!penalties) return;
  std::vector<std::int32_t> counted = seen_before;
  for (std::size_t s = 0; s < tokens.size(); ++s) {
    d.histories[s].add_output(tokens[s]);
    counted[static_cast<std::size_t>(before[s].seen_row * vocab + tokens[s])] = 1 + d.histories[s].seen().at(tokens[s]);
  }
  CHECK(d.seen == counted);
}

}  // namespace

TEST_CASE("a device draws the tokens that the processor draws") {
  for (const Backend& on : kBackends) {
    if (!on.gpu) continue;
    const OpContext context(1, on);
    std::uint64_t seed = 1000;
    for (const Index vocab : {1, 2, 31, 97, 256})
      for (const DType type : kTypes)
        for (const bool penalties : {false, true}) check_draws(context, 140, vocab, type, penalties, ++seed);
  }
}

TEST_CASE("a device draws the processor's tokens from vocabularies of several pieces") {
  for (const Backend& on : kBackends) {
    if (!on.gpu) continue;
    const OpContext context(1, on);
    std::uint64_t seed = 2000;
    for (const Index vocab : {1500, 4099})
      for (const DType type : kTypes) check_draws(context, 35, vocab, type, type == DType::f32, ++seed);
  }
}

TEST_CASE("empty places of a batch are left alone") {
  for (const Backend& on : kBackends) {
    if (!on.gpu) continue;
    const OpContext context(1, on);
    Draws d(4, 40, DType::f32, true, 3000);
    d.rows[1].active = 0;
    d.rows[3].seen_row = 4;  // there is none
    const std::uint64_t position = d.rows[1].position;
    const std::vector<std::int32_t> seen = d.seen;
    std::vector<std::int32_t> tokens(4);
    sample_tokens(context, {4, 40}, d.logits, d.rows, d.seen, tokens);
    CHECK(tokens[0] >= 0);
    CHECK(tokens[1] == -1);
    CHECK(tokens[3] == -1);
    CHECK(d.rows[1].position == position);
    CHECK(std::equal(seen.begin() + 80, seen.begin() + 120, d.seen.begin() + 80));
    CHECK(std::equal(seen.begin(), seen.begin() + 40, d.seen.begin()));
  }
}

TEST_CASE("log-probabilities of the logits themselves: of the tokens, and of the highest") {
  for (const Backend& on : kBackends) {
    if (!on.gpu) continue;
    const OpContext context(1, on);
    for (const Index vocab : {3, 97, 1500})
      for (const DType type : kTypes) {
        const Index sequences = 6, count = 5;  // without a row that has no finite logit
        const Draws d(sequences, vocab, type, false, 4000);
        std::vector<std::int32_t> tokens, top_tokens(static_cast<std::size_t>(sequences * count));
        for (Index s = 0; s < sequences; ++s) tokens.push_back(static_cast<std::int32_t>(s * 7 % vocab));
        tokens[2] = -1;
        std::vector<double> chosen(static_cast<std::size_t>(sequences)), top(top_tokens.size());
        token_logprobs(context, {sequences, vocab}, d.logits, tokens, count, chosen, top_tokens, top);
        for (std::size_t s = 0; s < tokens.size(); ++s) {
          INFO("row ", s, " vocab ", vocab, " ", dtype_name(type));
          if (tokens[s] < 0) {
            CHECK(std::isnan(chosen[s]));
            CHECK(top_tokens[s * count] == -1);
            continue;
          }
          const PositionLogprobs want = logprobs_of(d.row_of(s), tokens[s], static_cast<int>(count));
          const auto same = [](double a, double b) {
            return std::isnan(a) ? std::isnan(b) : a == b || std::abs(a - b) <= 1e-12 * std::max(1.0, std::abs(b));
          };
          CHECK(same(want.chosen.logprob, chosen[s]));
          for (std::size_t k = 0; k < static_cast<std::size_t>(count); ++k) {
            const bool there = k < want.top.size();
            CHECK(top_tokens[s * count + k] == (there ? want.top[k].token : -1));
            CHECK(same(there ? want.top[k].logprob : std::nan(""), top[s * count + k]));
          }
        }
      }
  }
}
