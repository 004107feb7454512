// llm.c's own training step (train_gpt2.c, unchanged, included from its folder with TESTING defined, which leaves its
// main out) with made-up weights and tokens, timed. Built by gpt2_speed.py with llm.c's own flags.
// usage: llmc_step WEIGHTS B T STEPS    (WEIGHTS is written first, in llm.c's checkpoint format)
#define TESTING
#include "train_gpt2.c"

static float uniform(uint64_t* state) {  // xorshift64*, in [0, 1)
  *state ^= *state >> 12;
  *state ^= *state << 25;
  *state ^= *state >> 27;
  return (float)((*state * 0x2545F4914F6CDD1Dull) >> 40) / 16777216.0f;
}

static float made_up(uint64_t* state, float deviation) {
  float sum = 0;  // of twelve uniform numbers: near enough to normal
  for (int i = 0; i < 12; i++) sum += uniform(state);
  return (sum - 6.0f) * deviation;
}

static void write_weights(const char* path) {
  GPT2 model;
  model.config = (GPT2Config){.max_seq_len = 1024,
                              .vocab_size = 50257,
                              .padded_vocab_size = 50304,
                              .num_layers = 12,
                              .num_heads = 12,
                              .channels = 768};
  fill_in_parameter_sizes(model.param_sizes, model.config);
  int header[256] = {20240326, 3, 1024, 50257, 12, 12, 768, 50304};
  FILE* file = fopenCheck(path, "wb");
  fwrite(header, sizeof(int), 256, file);
  uint64_t state = 1337;
  for (size_t tensor = 0; tensor < NUM_PARAMETER_TENSORS; tensor++) {
    // In llm.c's order: wte wpe ln1w ln1b qkvw qkvb attprojw attprojb ln2w ln2b fcw fcb fcprojw fcprojb lnfw lnfb
    const int is_norm = tensor == 2 || tensor == 8 || tensor == 14;
    const int is_bias = tensor == 3 || tensor == 5 || tensor == 7 || tensor == 9 || tensor == 11 || tensor == 13 || tensor == 15;
    for (size_t i = 0; i < model.param_sizes[tensor]; i++) {
      const float value = is_norm ? 1.0f : is_bias ? 0.0f : made_up(&state, 0.02f);
      fwrite(&value, sizeof(float), 1, file);
    }
  }
  fcloseCheck(file);
}

static double seconds_between(struct timespec begin, struct timespec end) {
  return (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) * 1e-9;
}

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  const int B = atoi(argv[2]), T = atoi(argv[3]), steps = atoi(argv[4]);
  write_weights(argv[1]);
  GPT2 model;
  gpt2_build_from_checkpoint(&model, argv[1]);
  uint64_t state = 42;
  int* tokens = mallocCheck((size_t)(B * T + 1) * sizeof(int));
  for (int i = 0; i <= B * T; i++) tokens[i] = (int)(uniform(&state) * 50256.0f);
  for (int step = 0; step <= steps; step++) {
    struct timespec begin, end, processor_begin, processor_end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &processor_begin);
    gpt2_forward(&model, tokens, tokens + 1, (size_t)B, (size_t)T);
    gpt2_zero_grad(&model);
    gpt2_backward(&model);
    gpt2_update(&model, 1e-4f, 0.9f, 0.999f, 1e-8f, 0.0f, step + 1);
    clock_gettime(CLOCK_MONOTONIC, &end);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &processor_end);
    if (step > 0)
      printf("seconds %f processor_seconds %f loss %f\n", seconds_between(begin, end),
             seconds_between(processor_begin, processor_end), model.mean_loss);  // the first warms up
    fflush(stdout);
  }
  return 0;
}
