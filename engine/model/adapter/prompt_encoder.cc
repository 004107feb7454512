#include "engine/model/adapter/prompt_encoder.h"

#include "engine/ops/linear/linear_relu.h"

namespace longhaul {

namespace {

ConstView encoder_matrix(std::span<const float> values, std::int64_t rows, std::int64_t columns) {
  return ConstView(values).reshaped(Shape{rows, columns});
}

// Of x [tokens, in] to out [tokens, out].
LinearShape layer_of(ConstView x, ConstView out) {
  return {x.shape()[0], x.shape()[1], out.shape()[1]};
}

// dW = gradient^T x, db = the sums of the gradient's columns.
void encoder_layer_backward(const ComputeContext& context, ConstView gradient, ConstView x, bool overwrite,
                            std::span<float> dweight, std::span<float> dbias) {
  const LinearShape layer = layer_of(x, gradient);
  linear_backward_weight(context, layer, gradient, x, View(dweight.data(), Shape{layer.out, layer.in}), View(dbias),
                         !overwrite);
}

// Its matrices, and the two layers of a pass.
struct EncoderPass {
  EncoderPass(const ComputeContext& context, const EncoderWeights& encoder, View workspace) {
    const std::int64_t n = encoder.tokens, h = encoder.hidden, e = encoder.size;
    table = encoder_matrix(encoder.values[0], n, h), w1 = encoder_matrix(encoder.values[1], e, h);
    w2 = encoder_matrix(encoder.values[3], e, e), w3 = encoder_matrix(encoder.values[5], h, e);
    first = workspace.rows(0, n * e).reshaped(Shape{n, e});
    second = workspace.rows(n * e, 2 * n * e).reshaped(Shape{n, e});
    linear_relu_forward(context, layer_of(table, first), table, w1, encoder.values[2], first);
    linear_relu_forward(context, layer_of(first, second), first, w2, encoder.values[4], second);
  }
  ConstView table, w1, w2, w3;
  View first, second;
};

}  // namespace

View encode_prompt(const ComputeContext& context, const EncoderWeights& encoder, View workspace) {
  const EncoderPass pass(context, encoder, workspace);
  const std::int64_t n = encoder.tokens, h = encoder.hidden, at = 2 * n * encoder.size;
  const View out = workspace.rows(at, at + n * h).reshaped(Shape{n, h});
  linear_forward(context, layer_of(pass.second, out), pass.second, pass.w3, out, encoder.values[6]);
  return out;
}

void encode_prompt_backward(const ComputeContext& context, const EncoderWeights& encoder, View gradient,
                            const std::array<std::span<float>, 7>& gradients, bool overwrite, View workspace) {
  const EncoderPass pass(context, encoder, workspace);
  const std::int64_t n = encoder.tokens, h = encoder.hidden, e = encoder.size;
  const View of_second = workspace.rows(2 * n * e, 3 * n * e).reshaped(Shape{n, e});
  const View of_first = workspace.rows(3 * n * e, 4 * n * e).reshaped(Shape{n, e});
  encoder_layer_backward(context, gradient, pass.second, overwrite, gradients[5], gradients[6]);
  linear_relu_backward(context, layer_of(pass.second, gradient), gradient, pass.w3, pass.second, of_second);
  encoder_layer_backward(context, of_second, pass.first, overwrite, gradients[3], gradients[4]);
  linear_relu_backward(context, layer_of(pass.first, of_second), of_second, pass.w2, pass.first, of_first);
  encoder_layer_backward(context, of_first, pass.table, overwrite, gradients[1], gradients[2]);
  linear_backward_input(context, layer_of(pass.table, of_first), of_first, pass.w1,
                        View(gradients[0].data(), Shape{n, h}), !overwrite);
}

}  // namespace longhaul
