#include "contracts/settings/training/compute_device.h"

namespace longhaul {

FieldOptions device_options() {
  return {.help =
              "where the ranks compute: cpu, or gpu: one GPU each, of an engine that was built with CUDA; auto: on "
              "GPUs where the stage's job has them and the engine can use them, which `longhaul plan` says",
          .choices = {"auto", "cpu", "gpu"},
          .speed_only = true};
}

FieldOptions command_device_options() {
  return {
      .help =
          "what the program computes on, as far as its job is concerned: cpu asks for no GPUs, gpu needs some; "
          "auto: GPUs are asked for where the job's nodes have them, for nobody knows whether the program uses them",
      .choices = {"auto", "cpu", "gpu"},
      .speed_only = true};
}

FieldOptions attention_backend_options() {
  return {.help =
              "on a GPU: auto takes cuDNN's attention where it is there and knows the case, and the own kernels "
              "elsewhere; cudnn does the same, and refuses a rank without cuDNN; own never takes it",
          .choices = {"auto", "cudnn", "own"},
          .speed_only = true};
}

FieldOptions communicator_options() {
  return {.help =
              "between ranks with device = \"gpu\": nccl, or staged over MPI by way of the host: slow, but several "
              "ranks may share a GPU",
          .choices = {"nccl", "staged"},
          .speed_only = true};
}

}  // namespace longhaul
