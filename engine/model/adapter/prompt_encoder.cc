#include "engine/model/adapter/prompt_encoder.h"

#include <algorithm>

#include "engine/ops/linear/gemm.h"

namespace longhaul {

namespace {

ConstView encoder_matrix(std::span<const float> values, std::int64_t rows, std::int64_t columns) {
  return ConstView(values).reshaped(Shape{rows, columns});
}

// out [tokens, out_size] = x W^T + b, and with `bend` nothing below 0.
void encoder_layer(const ComputeContext& context, ConstView x, ConstView weight, std::span<const float> bias, bool bend,
                   View out) {
  GemmShape product;
  product.m = out.shape()[0], product.n = out.shape()[1], product.k = x.shape()[1], product.transpose_b = true;
  gemm(context, product, x, weight, out);
  float* value = out.span<float>().data();
  for (std::int64_t row = 0; row < product.m; ++row)
    for (const float b : bias) {
      *value = bend ? std::max(0.0F, *value + b) : *value + b;
      ++value;
    }
}

// dW = gradient^T x, db = the sums of the gradient's columns.
void encoder_layer_backward(const ComputeContext& context, ConstView gradient, ConstView x, bool overwrite,
                            std::span<float> dweight, std::span<float> dbias) {
  GemmShape product;
  product.m = gradient.shape()[1], product.n = x.shape()[1], product.k = x.shape()[0], product.transpose_a = true;
  product.beta = overwrite ? 0.0F : 1.0F;
  gemm(context, product, gradient, x, View(dweight.data(), Shape{product.m, product.n}));
  if (overwrite) std::ranges::fill(dbias, 0.0F);
  const float* value = gradient.span<float>().data();
  for (std::int64_t row = 0; row < product.k; ++row)
    for (float& b : dbias) b += *value++;
}

// dx = gradient W, 0 where x, which nothing is below, is 0.
void encoder_input_backward(const ComputeContext& context, ConstView gradient, ConstView weight, ConstView x, View dx) {
  GemmShape product;
  product.m = gradient.shape()[0], product.n = weight.shape()[1], product.k = gradient.shape()[1];
  gemm(context, product, gradient, weight, dx);
  const std::span<const float> kept = x.span<float>();
  const std::span<float> out = dx.span<float>();
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = kept[i] > 0 ? out[i] : 0.0F;
}

// Its matrices, and the two layers of a pass.
struct EncoderPass {
  EncoderPass(const ComputeContext& context, const EncoderWeights& encoder, View workspace) {
    const std::int64_t n = encoder.tokens, h = encoder.hidden, e = encoder.size;
    table = encoder_matrix(encoder.values[0], n, h), w1 = encoder_matrix(encoder.values[1], e, h);
    w2 = encoder_matrix(encoder.values[3], e, e), w3 = encoder_matrix(encoder.values[5], h, e);
    first = workspace.rows(0, n * e).reshaped(Shape{n, e});
    second = workspace.rows(n * e, 2 * n * e).reshaped(Shape{n, e});
    encoder_layer(context, table, w1, encoder.values[2], true, first);
    encoder_layer(context, first, w2, encoder.values[4], true, second);
  }
  ConstView table, w1, w2, w3;
  View first, second;
};

}  // namespace

View encode_prompt(const ComputeContext& context, const EncoderWeights& encoder, View workspace) {
  const EncoderPass pass(context, encoder, workspace);
  const std::int64_t n = encoder.tokens, h = encoder.hidden, at = 2 * n * encoder.size;
  const View out = workspace.rows(at, at + n * h).reshaped(Shape{n, h});
  encoder_layer(context, pass.second, pass.w3, encoder.values[6], false, out);
  return out;
}

void encode_prompt_backward(const ComputeContext& context, const EncoderWeights& encoder, View gradient,
                            const std::array<std::span<float>, 7>& gradients, bool overwrite, View workspace) {
  const EncoderPass pass(context, encoder, workspace);
  const std::int64_t n = encoder.tokens, h = encoder.hidden, e = encoder.size;
  const View of_second = workspace.rows(2 * n * e, 3 * n * e).reshaped(Shape{n, e});
  const View of_first = workspace.rows(3 * n * e, 4 * n * e).reshaped(Shape{n, e});
  encoder_layer_backward(context, gradient, pass.second, overwrite, gradients[5], gradients[6]);
  encoder_input_backward(context, gradient, pass.w3, pass.second, of_second);
  encoder_layer_backward(context, of_second, pass.first, overwrite, gradients[3], gradients[4]);
  encoder_input_backward(context, of_second, pass.w2, pass.first, of_first);
  encoder_layer_backward(context, of_first, pass.table, overwrite, gradients[1], gradients[2]);
  GemmShape of_table;
  of_table.m = n, of_table.n = h, of_table.k = e, of_table.beta = overwrite ? 0.0F : 1.0F;
  gemm(context, of_table, of_first, pass.w1, View(gradients[0].data(), Shape{n, h}));
}

}  // namespace longhaul
