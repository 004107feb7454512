#include "autotune/hyper/shape_for_parameters.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "base/text/text.h"

namespace longhaul::hyper {
namespace {

constexpr double deviation_max = 0.02;
constexpr std::int64_t hidden_max = 65'536, layers_most = 256;
constexpr double tied_share = 0.2;

double log_distance(double a, double b) {
  return std::fabs(std::log(a / b));
}

// Width per layer: 128 from a width of 4096 on, and as its square root below: 64 at 1024, 45 at 512.
double usual_aspect(std::int64_t hidden) {
  return 128 * std::min(1.0, std::sqrt(static_cast<double>(hidden) / 4096));
}

std::int64_t common_divisor(std::int64_t tp_max, std::int64_t a, std::int64_t b, std::int64_t c) {
  return std::gcd(std::gcd(tp_max, a), std::gcd(b, c));
}

struct Candidate {
  ShapeFound found;
  double strangeness = 0;
};

bool better(const Candidate& a, const Candidate& b) {
  const bool a_fits = std::fabs(a.found.deviation) <= deviation_max;
  const bool b_fits = std::fabs(b.found.deviation) <= deviation_max;
  if (a_fits != b_fits) return a_fits;
  if (!a_fits) return std::fabs(a.found.deviation) < std::fabs(b.found.deviation);
  return a.strangeness < b.strangeness;
}

// The shape of a width and a depth whose feed-forward brings it nearest to the target.
std::optional<Candidate> candidate_of(const ShapeWish& wish, bool tied, std::int64_t head_dim, std::int64_t heads,
                                      std::int64_t layers) {
  ModelShape s;
  s.vocab_size = wish.vocab_size, s.max_position_embeddings = wish.sequence_length;
  s.tie_word_embeddings = tied;
  s.head_dim = head_dim, s.num_attention_heads = heads, s.hidden_size = heads * head_dim;
  s.num_hidden_layers = layers;
  // The most key heads that divide the query heads, up to what is wished.
  s.num_key_value_heads = std::min(wish.key_value_heads, heads);
  while (heads % s.num_key_value_heads != 0) --s.num_key_value_heads;
  const double usual_ffn = s.num_key_value_heads < heads ? 3.5 : 8.0 / 3;
  const std::int64_t unit = s.hidden_size >= 1024 ? 256 : 64;
  s.intermediate_size = unit;
  const double per_unit = 3.0 * static_cast<double>(s.hidden_size * layers * unit);
  const double room = wish.parameters - static_cast<double>(s.parameter_count());
  s.intermediate_size += unit * std::max<std::int64_t>(0, std::llround(room / per_unit));
  const double ffn = static_cast<double>(s.intermediate_size) / static_cast<double>(s.hidden_size);
  if (ffn < 1.5 || ffn > 6) return std::nullopt;
  auto resolved = resolve_shape(s);
  if (!resolved.ok()) return std::nullopt;
  Candidate c;
  c.found.shape = std::move(resolved).value();
  c.found.deviation = static_cast<double>(c.found.shape.parameter_count()) / wish.parameters - 1;
  c.found.tp = common_divisor(wish.tp_max, heads, s.num_key_value_heads, s.intermediate_size);
  c.strangeness =
      log_distance(static_cast<double>(s.hidden_size) / static_cast<double>(layers), usual_aspect(s.hidden_size)) +
      log_distance(ffn, usual_ffn) +
      0.3 * std::log2(static_cast<double>(wish.tp_max) / static_cast<double>(c.found.tp)) +
      (layers % 4 == 0   ? 0
       : layers % 2 == 0 ? 0.1
                         : 0.3) +  // pipelines distribute layers in powers of two
      std::fabs(c.found.deviation);
  return c;
}

}  // namespace

Result<ShapeFound> shape_for_parameters(const ShapeWish& wish) {
  if (!(wish.parameters > 0) || wish.vocab_size < 1 || wish.sequence_length < 1 || wish.tp_max < 1 ||
      wish.key_value_heads < 1 || wish.head_dim < 2 || wish.head_dim % 4 != 0)
    return make_error(ErrorCode::invalid_input, "a wish for a shape with a size that is not positive",
                      "parameters, vocab_size, sequence_length, tp_max, key_value_heads; head_dim a multiple of 4");
  std::optional<Candidate> best;
  for (const std::int64_t head_dim : {wish.head_dim, wish.head_dim / 2})
    for (std::int64_t heads = 2; heads * head_dim <= hidden_max; ++heads) {
      const std::int64_t hidden = heads * head_dim;
      // Half-size heads are for models narrower than eight of the full size.
      if ((head_dim == wish.head_dim) != (hidden >= 8 * wish.head_dim)) continue;
      const double table = static_cast<double>(wish.vocab_size * hidden);
      if (table > wish.parameters) break;
      const bool tied = 2 * table > tied_share * wish.parameters;
      for (std::int64_t layers = 2; layers <= layers_most; ++layers)
        if (auto c = candidate_of(wish, tied, head_dim, heads, layers); c && (!best || better(*c, *best))) best = c;
    }
  if (!best)
    return make_error(ErrorCode::invalid_input,
                      format("{} parameters are too few for a vocabulary of {}, or too many for any shape here",
                             human_count(wish.parameters), wish.vocab_size),
                      "use a smaller vocabulary, or another number of parameters");
  return best->found;
}

}  // namespace longhaul::hyper
