"""Fits a small network with Hugging Face Accelerate; save_state and load_state keep what a resumed run needs."""
import argparse
import os
import shutil

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, TensorDataset


def dataset():
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(2048, 8, generator=generator) * 2 - 1
    return TensorDataset(x, torch.sin(3 * x).sum(1, keepdim=True))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--output_dir", default="output")
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--batch_size", type=int, default=64)
    args = parser.parse_args()

    accelerator = Accelerator(cpu=not torch.cuda.is_available())
    set_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loader = DataLoader(dataset(), batch_size=args.batch_size, shuffle=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)

    first, newest = 0, os.path.join(args.output_dir, "newest")
    if os.path.exists(newest):
        with open(newest) as file:
            first = int(file.read()) + 1
        accelerator.load_state(os.path.join(args.output_dir, f"epoch_{first - 1}"))
        accelerator.print(f"resuming from epoch {first}", flush=True)

    for epoch in range(first, args.epochs):
        model.train()
        for x, y in loader:
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(x), y)
            accelerator.backward(loss)
            optimizer.step()
        accelerator.print(f"epoch {epoch}: loss {loss.item():.4f}", flush=True)
        accelerator.save_state(os.path.join(args.output_dir, f"epoch_{epoch}"))
        accelerator.wait_for_everyone()
        if accelerator.is_main_process:
            with open(newest + ".tmp", "w") as file:
                file.write(str(epoch))
            os.replace(newest + ".tmp", newest)
            shutil.rmtree(os.path.join(args.output_dir, f"epoch_{epoch - 1}"), ignore_errors=True)
    accelerator.wait_for_everyone()
    accelerator.end_training()


if __name__ == "__main__":
    main()
